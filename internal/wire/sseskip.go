package wire

import "bytes"

// SetMaxEvent makes Next read an event over the limit to its end, if that comes within most
// bytes. Next then returns ErrTooLarge, [SSEReader.Oversized] tells which message it was, and
// the events after it can be read. A longer event ends the stream with ErrTooLarge.
func (s *SSEReader) SetMaxEvent(most int64) { s.maxEvent = most }

// Oversized returns the scan of the event that Next has just reported as ErrTooLarge. It is
// nil if the stream cannot be read any further.
func (s *SSEReader) Oversized() *EnvelopeScanner { return s.oversized }

// skipEvent reads the rest of the current event, which is over the limit. The error is
// ErrTooLarge if the event is over maxEvent too, or that of the reader.
func (s *SSEReader) skipEvent() (*EnvelopeScanner, error) {
	skip := eventSkipper{scan: new(EnvelopeScanner), more: s.hasData}
	if s.hasData {
		skip.scan.Write(s.buf.B[s.data.start:s.data.end])
	}
	s.hasData = false
	if !s.begun {
		s.begun = true
		s.at += len(s.buf.B[s.at:]) - len(bytes.TrimPrefix(s.buf.B[s.at:], bom))
	}
	for total := int64(0); ; {
		rest := s.buf.B[s.at:]
		used, ended := skip.skip(rest, &s.cr)
		s.at += used
		if total += int64(used); total > s.maxEvent {
			return nil, ErrTooLarge
		}
		if ended {
			return skip.scan, nil
		}
		s.buf.B, s.at = s.buf.B[:0], 0
		if err := s.read(); err != nil {
			return nil, err
		}
	}
}

// eventSkipper reads the lines of an event of any size and keeps nothing but the beginning of
// the current one.
type eventSkipper struct {
	scan *EnvelopeScanner // gets the data
	more bool             // there was data before the current line
	// line is the beginning of the current line, up to where it is known whether it is data.
	line   [len("data: ")]byte
	n      int
	isData bool // if n is len(line)
}

// skip reads text up to the end of the event, or all of it. cr says that the text before
// ended with CR.
func (k *eventSkipper) skip(text []byte, cr *bool) (used int, ended bool) {
	for used < len(text) {
		if *cr {
			if *cr = false; text[used] == '\n' {
				used++
				continue
			}
		}
		part, atEnd := text[used:], false
		if i := lineEnd(part); i >= 0 {
			part, atEnd = part[:i], true
			*cr = text[used+i] == '\r'
			used++
		}
		used += len(part)
		k.read(part)
		if !atEnd {
			continue
		}
		if k.n == 0 {
			return used, true
		}
		if k.n < len(k.line) {
			k.decide()
		}
		k.n = 0
	}
	return used, false
}

// read reads a part of a line.
func (k *eventSkipper) read(part []byte) {
	if k.n < len(k.line) {
		taken := copy(k.line[k.n:], part)
		part = part[taken:]
		if k.n += taken; k.n < len(k.line) {
			return
		}
		k.decide()
	}
	if k.isData {
		k.scan.Write(part)
	}
}

// decide finds out whether the current line is data, from its beginning.
func (k *eventSkipper) decide() {
	field, value, _ := bytes.Cut(k.line[:k.n], []byte{':'})
	if k.isData = string(field) == "data"; !k.isData {
		return
	}
	if k.more {
		k.scan.Write([]byte{'\n'})
	}
	k.more = true
	k.scan.Write(bytes.TrimPrefix(value, []byte{' '}))
}
