package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Event is one server-sent event.
type Event struct {
	Name  string // "" for "message"
	ID    string
	HasID bool // there is an id field, even an empty one
	Data  []byte
	Retry time.Duration // 0 when absent
	// Buffer is the memory of Data if nothing else is in it, else nil.
	Buffer *Buffer
}

// IsMessage reports whether the event carries a JSON-RPC message: its name is absent or
// "message", and it has data. An event that has only an id makes the stream resumable.
func (e *Event) IsMessage() bool {
	return (e.Name == "" || e.Name == "message") && len(e.Data) > 0
}

// ErrTooLarge means that a peer sent a message over the limit.
var ErrTooLarge = errors.New("message over the size limit")

// SSEReader reads server-sent events as the WHATWG HTML standard, "Server-sent
// events", parses them. An event is assembled where it was read, so that a large one is
// copied as little as possible.
type SSEReader struct {
	r     io.Reader
	limit int
	// buf holds what was read. The text before at is done with, except for the data of the
	// current event, which is from data.start to data.end.
	buf     *Buffer
	at      int
	data    span
	hasData bool
	begun   bool
	cr      bool // the last line ended with CR: a following LF belongs to it

	ignored   func() // is called for each line without meaning
	maxEvent  int64  // 0: an event over the limit is not read to its end
	oversized *EnvelopeScanner
}

const (
	// idleBuffer is the memory that a stream has while no large event comes.
	idleBuffer = 4 << 10
	// largeEvent is the size from which an event takes the memory that it was read into.
	largeEvent = 16 << 10
	// otherFields is the room for what is not data in a buffer that holds a whole event.
	otherFields = 8 << 10
)

// NewSSEReader reads events from r. An event may have at most limit bytes of data. Comments
// do not count.
func NewSSEReader(r io.Reader, limit int) *SSEReader {
	return &SSEReader{r: r, limit: limit, buf: &Buffer{B: make([]byte, 0, idleBuffer)}}
}

// OnIgnored makes Next call f for each line that tells nothing: comments, unknown fields and
// needless blank lines. Next waits for f, which may slow a stream of such lines down.
func (s *SSEReader) OnIgnored(f func()) { s.ignored = f }

// Next returns the next event that has data, an id or a retry time, as soon as the blank line
// at its end begins; it waits for no later byte. The caller owns its Data. An incomplete event
// at the end of the stream is dropped, as the standard demands, and the error is io.EOF or
// that of the reader. After an error the stream cannot be read any further, but see
// [SSEReader.SetMaxEvent].
func (s *SSEReader) Next() (Event, error) {
	ev, err := s.next()
	if s.oversized = nil; err == ErrTooLarge && s.maxEvent > 0 {
		if s.oversized, err = s.skipEvent(); err == nil {
			return Event{}, ErrTooLarge
		}
	}
	if err != nil {
		s.buf.Release()
		s.buf, s.at = new(Buffer), 0
		s.r = failedReader{err}
	}
	return ev, err
}

// failedReader fails with the error that ended a stream.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, f.err }

func (s *SSEReader) next() (Event, error) {
	var ev Event
	seen := false
	s.hasData = false
	for {
		at, err := s.line(s.limit + len("data: "))
		if err != nil {
			return Event{}, err
		}
		line := s.buf.B[at.start:at.end]
		if len(line) == 0 {
			if seen {
				ev.Data, ev.Buffer = s.takeData()
				return ev, nil
			}
			ev = Event{}
			s.ignore()
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "data":
			s.addData(span{at.end - len(value), at.end})
			if s.data.end-s.data.start > s.limit {
				return Event{}, ErrTooLarge
			}
			seen = true
		case "event":
			ev.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				ev.ID, ev.HasID, seen = string(value), true, true
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				ev.Retry, seen = time.Duration(ms)*time.Millisecond, true
			}
		default:
			s.ignore()
		}
	}
}

func (s *SSEReader) ignore() {
	if s.ignored != nil {
		s.ignored()
	}
}

// addData adds a line to the data of the event. Lines after the first one move towards it
// within the buffer, over the line break and the name of the field.
func (s *SSEReader) addData(value span) {
	if !s.hasData {
		s.data, s.hasData = value, true
		return
	}
	b := s.buf.B
	b[s.data.end] = '\n'
	s.data.end += 1 + copy(b[s.data.end+1:], b[value.start:value.end])
}

// takeData returns the data of the event, which the caller owns. A large event takes the
// buffer along.
func (s *SSEReader) takeData() ([]byte, *Buffer) {
	if !s.hasData {
		return nil, nil
	}
	s.hasData = false
	size := s.data.end - s.data.start
	if size < largeEvent || size < len(s.buf.B)/2 {
		return bytes.Clone(s.buf.B[s.data.start:s.data.end]), nil
	}
	taken := s.buf
	rest := taken.B[s.at:]
	s.buf, s.at = &Buffer{B: make([]byte, len(rest), max(idleBuffer, len(rest)))}, 0
	copy(s.buf.B, rest)
	return taken.B[s.data.start:s.data.end:s.data.end], taken
}

// line returns the next line without its end, which is LF, CR or CRLF. It is valid until the
// next call.
func (s *SSEReader) line(limit int) (span, error) {
	for scanned := s.at; ; {
		if s.cr && s.at < len(s.buf.B) {
			s.cr = false
			if s.buf.B[s.at] == '\n' {
				s.at++
				scanned = s.at
			}
		}
		i := lineEnd(s.buf.B[scanned:])
		end := len(s.buf.B)
		if i >= 0 {
			end = scanned + i
		}
		if end-s.at > limit {
			return span{}, ErrTooLarge
		}
		if i < 0 {
			scanned = end - s.at
			if err := s.fill(); err != nil {
				return span{}, err
			}
			scanned += s.at
			continue
		}
		line := span{s.at, end}
		s.at, s.cr = end+1, s.buf.B[end] == '\r'
		if !s.begun {
			s.begun = true
			if bytes.HasPrefix(s.buf.B[line.start:line.end], bom) {
				line.start += len(bom)
			}
		}
		return line, nil
	}
}

// fill reads more. It moves the text that is still needed if that makes room.
func (s *SSEReader) fill() error {
	needed := s.at
	if s.hasData {
		needed = s.data.start
	}
	b := s.buf
	switch {
	case needed == len(b.B) && cap(b.B) > largeEvent: // a large buffer is not kept while the stream is idle
		b.Release()
		s.buf = &Buffer{B: make([]byte, 0, idleBuffer)}
		s.moved(needed)
	case needed == len(b.B), len(b.B) == cap(b.B) && needed >= cap(b.B)/2:
		b.B = append(b.B[:0], b.B[needed:]...)
		s.moved(needed)
	case len(b.B) == cap(b.B):
		more := 2 * cap(b.B)
		if more < 1<<20 {
			more *= 2 // fewer steps copy less
		}
		b.Grow(max(min(more, s.limit+needed+otherFields), cap(b.B)+idleBuffer, smallestClass))
	}
	return s.read()
}

// read reads into the room of the buffer.
func (s *SSEReader) read() error {
	b := s.buf
	for range maxEmptyReads {
		n, err := s.r.Read(b.B[len(b.B):cap(b.B)])
		b.B = b.B[:len(b.B)+n]
		switch {
		case n > 0 && err != nil:
			s.r = failedReader{err} // after what was read
			return nil
		case n > 0 || err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// moved adapts the indexes after the first by bytes of the buffer were removed.
func (s *SSEReader) moved(by int) {
	s.at -= by
	s.data.start -= by
	s.data.end -= by
}

// maxEmptyReads is how often in a row a reader may return nothing, as in package bufio.
const maxEmptyReads = 100

// lineEnd returns the index of the first CR or LF, -1 for none.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// AppendEvent appends ev as a frame of an event stream. Line breaks in the data, which have no
// meaning between the tokens of JSON, begin new data lines. The name and the id must not have
// line breaks.
func AppendEvent(dst []byte, ev Event) []byte {
	if ev.Name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, ev.Name...)
		dst = append(dst, '\n')
	}
	if ev.HasID {
		dst = append(dst, "id: "...)
		dst = append(dst, ev.ID...)
		dst = append(dst, '\n')
	}
	if ev.Retry > 0 {
		dst = fmt.Appendf(dst, "retry: %d\n", ev.Retry.Milliseconds())
	}
	data := ev.Data
	broken := lineEnd(data) >= 0 // rarely; checked once, because a check per line is quadratic
	for broken {
		i := bytes.IndexAny(data, "\r\n")
		if i < 0 {
			break
		}
		dst = append(dst, "data: "...)
		dst = append(dst, data[:i]...)
		dst = append(dst, '\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
	dst = append(dst, "data: "...)
	dst = append(dst, data...)
	return append(dst, '\n', '\n')
}

// EventEnd is the end of a frame that [AppendEventStart] begins.
const EventEnd = "\n\n"

// AppendEventStart appends the frame of an event with an id, "" for none, up to its data. One
// line of data and EventEnd complete it.
func AppendEventStart(dst []byte, id string) []byte {
	dst = AppendEvent(dst, Event{ID: id, HasID: id != ""})
	return dst[:len(dst)-len(EventEnd)]
}

// HasLineBreak reports whether a text is more than one line of data.
func HasLineBreak(text []byte) bool { return lineEnd(text) >= 0 }

// AppendRetry appends a frame that tells the client after which time to connect again.
func AppendRetry(dst []byte, after time.Duration) []byte {
	return fmt.Appendf(dst, "retry: %d\n\n", after.Milliseconds())
}

// AppendComment appends a comment line. Readers ignore it, and it keeps a stream alive through
// idle timeouts.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	dst = append(dst, text...)
	return append(dst, '\n', '\n')
}
