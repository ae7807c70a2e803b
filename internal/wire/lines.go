package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrLineTooLong means that a peer sent a line over the limit of [LineReader.SetMaxLine].
var ErrLineTooLong = errors.New("line without end")

// LineReader reads newline-delimited messages, as stdio carries them.
type LineReader struct {
	r         *bufio.Reader
	limit     int
	maxLine   int64 // 0 for unbounded
	oversized *EnvelopeScanner
}

// NewLineReader reads lines from r, none of which may be longer than limit
// bytes without its end.
func NewLineReader(r io.Reader, limit int) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// SetMaxLine bounds the bytes that are read of one line. A longer line is not read to its
// end, because it might have none. The bound must be over the size limit.
func (l *LineReader) SetMaxLine(most int64) { l.maxLine = most }

// Next returns the next line that is not blank, without its end. The caller owns it. A line
// over the size limit is read to its end and reported as ErrTooLarge; the lines after it can
// still be read. A line over the limit of SetMaxLine is reported as ErrLineTooLong
// immediately, and the reader is of no use after it. The last line needs no newline.
func (l *LineReader) Next() ([]byte, error) {
	for {
		var parts [][]byte // of a line that is longer than the buffer
		var line []byte
		var size int64
		tooLarge := false
		for {
			part, err := l.r.ReadSlice('\n')
			more := err == bufio.ErrBufferFull
			if size += int64(len(part)); more && l.maxLine > 0 && size > l.maxLine {
				return nil, ErrLineTooLong
			}
			if err != nil && !more && (err != io.EOF || size == 0) {
				return nil, err
			}
			switch {
			case tooLarge:
				l.oversized.Write(part)
			case size > int64(l.limit+len("\r\n")):
				l.oversized = scanParts(append(parts, part))
				tooLarge, parts = true, nil
			case more: // growing one slice instead would leave several times the line as garbage
				parts = append(parts, bytes.Clone(part))
			case parts != nil:
				line = bytes.Join(append(parts, part), nil)
			default:
				line = bytes.Clone(part)
			}
			if !more {
				break
			}
		}
		if tooLarge {
			return nil, ErrTooLarge
		}
		switch line = bytes.Trim(line, " \t\r\n"); {
		case len(line) > l.limit:
			l.oversized = ScanEnvelope(line)
			return nil, ErrTooLarge
		case len(line) > 0:
			return line, nil
		}
	}
}

// scanParts scans the beginning of a line.
func scanParts(parts [][]byte) *EnvelopeScanner {
	g := ScanEnvelope(parts[0])
	for _, p := range parts[1:] {
		g.Write(p)
	}
	return g
}

// Oversized returns the scan of the line that Next reported last as ErrTooLarge.
func (l *LineReader) Oversized() *EnvelopeScanner { return l.oversized }

// AppendLine appends msg, valid JSON, as one line. Line breaks between its tokens become
// spaces, because a message on stdio must not contain any.
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
