package wire

import (
	"bufio"
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
}

// IsMessage reports whether the event carries a JSON-RPC message: its name is absent or
// "message", and it has data. An event that has only an id makes the stream resumable.
func (e *Event) IsMessage() bool {
	return (e.Name == "" || e.Name == "message") && len(e.Data) > 0
}

// ErrTooLarge means that a peer sent a message over the limit.
var ErrTooLarge = errors.New("message over the size limit")

// SSEReader reads server-sent events as the WHATWG HTML standard, "Server-sent
// events", parses them.
type SSEReader struct {
	r     *bufio.Reader
	limit int
	begun bool
	cr    bool // the last line ended with CR: a following LF belongs to it
}

// NewSSEReader reads events from r. An event may have at most limit bytes of data. Comments
// do not count.
func NewSSEReader(r io.Reader, limit int) *SSEReader {
	return &SSEReader{r: bufio.NewReaderSize(r, 4<<10), limit: limit}
}

// Next returns the next event that has data, an id or a retry time, as soon as the blank line
// at its end begins; it waits for no later byte. The caller owns its Data. An incomplete event
// at the end of the stream is dropped, as the standard demands, and the error is io.EOF or
// that of the reader. After ErrTooLarge the stream cannot be read any further.
func (s *SSEReader) Next() (Event, error) {
	var ev Event
	hasData, seen := false, false
	for {
		line, err := s.line(s.limit + len("data: "))
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if seen {
				return ev, nil
			}
			ev = Event{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "data":
			if hasData {
				ev.Data = append(ev.Data, '\n')
			}
			ev.Data = append(ev.Data, value...)
			if len(ev.Data) > s.limit {
				return Event{}, ErrTooLarge
			}
			hasData, seen = true, true
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
		}
	}
}

// line returns the next line without its end, which is LF, CR or CRLF. The slice is valid
// until the next call if the line fits into the buffer.
func (s *SSEReader) line(limit int) ([]byte, error) {
	var long []byte
	for {
		if _, err := s.r.Peek(1); err != nil { // waits only when nothing is buffered
			return nil, err
		}
		buf, _ := s.r.Peek(s.r.Buffered())
		if s.cr {
			s.cr = false
			if buf[0] == '\n' {
				s.r.Discard(1)
				continue
			}
		}
		i := lineEnd(buf)
		chunk := buf
		if i >= 0 {
			chunk = buf[:i]
		}
		if len(long)+len(chunk) > limit {
			return nil, ErrTooLarge
		}
		if i < 0 {
			long = append(long, chunk...)
			s.r.Discard(len(buf))
			continue
		}
		s.cr = buf[i] == '\r'
		line := chunk
		if long != nil {
			line = append(long, chunk...)
		}
		s.r.Discard(i + 1)
		if !s.begun {
			s.begun = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		return line, nil
	}
}

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
