package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrEndless means that a peer sent a line over the bound of [LineReader.Bound].
var ErrEndless = errors.New("line without end")

// LineReader reads newline-delimited messages, as stdio carries them.
type LineReader struct {
	r     *bufio.Reader
	limit int
	bound int64 // 0: none
	large *Glimpse
}

// NewLineReader reads lines from r, none of which may be longer than limit
// bytes without its end.
func NewLineReader(r io.Reader, limit int) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// Bound has lines be read to their end no more that are longer than most bytes,
// which is over the limit: there might be none.
func (l *LineReader) Bound(most int64) { l.bound = most }

// Next returns the next line that is not blank, without its end. The caller
// owns it. A line over the limit is read to its end and reported as
// ErrTooLarge; the lines after it can still be read. One over the bound is reported
// as ErrEndless at once; nothing of use can be read after it. The last line needs no
// newline.
func (l *LineReader) Next() ([]byte, error) {
	for {
		var line []byte
		var size int64
		tooLarge := false
		for {
			part, err := l.r.ReadSlice('\n')
			if size += int64(len(part)); err == bufio.ErrBufferFull && l.bound > 0 && size > l.bound {
				return nil, ErrEndless
			}
			if tooLarge || len(line)+len(part) > l.limit+len("\r\n") {
				if !tooLarge {
					l.large = GlimpseOf(line)
				}
				tooLarge, line = true, nil
				l.large.Write(part)
			} else {
				line = append(line, part...)
			}
			if err == nil {
				break
			}
			if err == bufio.ErrBufferFull {
				continue
			}
			if err == io.EOF && (len(line) > 0 || tooLarge) {
				break
			}
			return nil, err
		}
		if tooLarge {
			return nil, ErrTooLarge
		}
		switch line = bytes.Trim(line, " \t\r\n"); {
		case len(line) > l.limit:
			l.large = GlimpseOf(line)
			return nil, ErrTooLarge
		case len(line) > 0:
			return line, nil
		}
	}
}

// Large tells of the line that Next has last reported as ErrTooLarge whose message
// it was.
func (l *LineReader) Large() *Glimpse { return l.large }

// AppendLine appends msg, valid JSON, as one line. Line breaks between its
// tokens become spaces: a stdio message must not contain any.
func AppendLine(dst, msg []byte) []byte {
	from := len(dst)
	dst = append(dst, msg...)
	for _, end := range []byte("\r\n") {
		for i := from; ; i++ {
			n := bytes.IndexByte(dst[i:], end)
			if n < 0 {
				break
			}
			i += n
			dst[i] = ' '
		}
	}
	return append(dst, '\n')
}
