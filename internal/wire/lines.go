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
// still be read. A line over the limit of SetMaxLine is reported as ErrLineTooLong at once,
// and the reader is of no use after it. The last line needs no newline.
func (l *LineReader) Next() ([]byte, error) {
	for {
		var line []byte
		var size int64
		tooLarge := false
		for {
			part, err := l.r.ReadSlice('\n')
			if size += int64(len(part)); err == bufio.ErrBufferFull && l.maxLine > 0 && size > l.maxLine {
				return nil, ErrLineTooLong
			}
			if tooLarge || len(line)+len(part) > l.limit+len("\r\n") {
				if !tooLarge {
					l.oversized = ScanEnvelope(line)
				}
				tooLarge, line = true, nil
				l.oversized.Write(part)
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
			l.oversized = ScanEnvelope(line)
			return nil, ErrTooLarge
		case len(line) > 0:
			return line, nil
		}
	}
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
