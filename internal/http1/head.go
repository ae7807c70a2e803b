package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"mcpgateway/internal/plaintext"
)

// head is the status line and the headers of a response (RFC 9112, sections 4 to
// 6).
type head struct {
	line    string // the status line
	status  int
	header  http.Header
	length  int64 // of the body, or lengthChunked, or lengthUntilClose
	last    bool  // the connection ends after this response
	interim bool  // another head follows
}

const (
	lengthUntilClose = -1
	lengthChunked    = -2
)

// maxLines bounds the lines of a head. A short line takes many times its size in
// memory.
const maxLines = 1000

var (
	errTooManyLines = fmt.Errorf("the head of the HTTP response has more than %d lines", maxLines)
	errMalformed    = errors.New("malformed HTTP response")
)

// readHead reads the head of a response. buf is a buffer for reuse, which is
// returned. values, which is empty, is memory for the values of the headers if it is
// large enough. The reader bounds the size of the head.
//
// It accepts what net/http accepts, except for a Transfer-Encoding with HTTP/1.0
// and for versions other than 1.0 and 1.1: no server sends these, and two readers
// may understand them differently.
func readHead(r *bufio.Reader, buf []byte, values []string) (head, []byte, error) {
	if text, lines, err := bufferedHead(r); err != nil {
		return head{}, buf, err
	} else if lines > 0 {
		h, err := parseHead(text, lines-1, values)
		return h, buf, err
	}
	buf = buf[:0]
	lines := 0
	for {
		part, err := r.ReadSlice('\n')
		buf = append(buf, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return head{}, buf, unexpected(err)
		}
		if n := len(part); lines > 0 && (n == 1 || n == 2 && part[0] == '\r') && buf[len(buf)-n-1] == '\n' {
			break
		}
		switch lines++; {
		case lines == 1 && !bytes.HasPrefix(buf, httpPrefix):
			return head{}, buf, errMalformed // an empty line may never come
		case lines > maxLines:
			return head{}, buf, errTooManyLines
		}
	}
	h, err := parseHead(string(buf), lines-1, values)
	return h, buf, err
}

// bufferedHead waits for the beginning of a head and returns the whole one with the number of
// its lines if the reader has it already and each line ends as it should. Else there are no
// lines, and nothing was taken from the reader.
func bufferedHead(r *bufio.Reader) (text string, lines int, err error) {
	if _, err := r.Peek(1); err != nil {
		return "", 0, unexpected(err)
	}
	b, _ := r.Peek(r.Buffered())
	end := bytes.Index(b, headEnd)
	if end < 0 || !bytes.HasPrefix(b, httpPrefix) {
		return "", 0, nil
	}
	b = b[:end+len(headEnd)]
	ends := bytes.Count(b, lineFeed)
	if ends > maxLines || ends != bytes.Count(b, headEnd[:2]) {
		return "", 0, nil
	}
	text = string(b)
	r.Discard(len(b))
	return text, ends - 1, nil
}

var (
	headEnd    = []byte("\r\n\r\n")
	lineFeed   = []byte("\n")
	httpPrefix = []byte("HTTP/1.")
)

// unexpected returns the error of a reader whose end comes too early.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseHead parses a head, its empty line included.
func parseHead(text string, fields int, values []string) (head, error) {
	line, text := cutLine(text)
	h := head{line: line, header: make(http.Header, fields)}
	rest, is11 := strings.CutPrefix(line, "HTTP/1.1 ")
	if !is11 {
		var is10 bool
		if rest, is10 = strings.CutPrefix(line, "HTTP/1.0 "); !is10 {
			return h, errMalformed
		}
	}
	code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	status, err := strconv.ParseUint(code, 10, 16)
	if err != nil || len(code) != 3 || status < 100 || !plaintext.IsFieldValue(line) {
		return h, errMalformed
	}
	h.status = int(status)
	if err := h.fields(text, slices.Grow(values, fields)); err != nil {
		return h, err
	}
	return h, h.frame(is11)
}

// fields parses the lines after the first. values is the memory for the values of
// the header.
func (h *head) fields(text string, values []string) error {
	for {
		var line string
		if line, text = cutLine(text); line == "" {
			return nil
		}
		name, value, found := strings.Cut(line, ":")
		if !found || !plaintext.IsToken(name) {
			return errMalformed
		}
		value = strings.Trim(value, " \t")
		if text[0] == ' ' || text[0] == '\t' {
			value, text = unfold(value, text)
		}
		if !plaintext.IsFieldValue(value) {
			return errMalformed
		}
		name = http.CanonicalHeaderKey(name)
		if before := h.header[name]; before != nil {
			h.header[name] = append(before, value)
			continue
		}
		values = append(values, value)
		h.header[name] = values[len(values)-1 : len(values) : len(values)]
	}
}

// unfold appends the lines that begin with a space to a value, which is an obsolete
// way to write long values. It also returns the text after them.
func unfold(value, text string) (string, string) {
	var b strings.Builder
	b.WriteString(value)
	for text[0] == ' ' || text[0] == '\t' {
		var line string
		line, text = cutLine(text)
		b.WriteByte(' ')
		b.WriteString(strings.Trim(line, " \t"))
	}
	return strings.Trim(b.String(), " \t"), text
}

// frame determines where the body ends (RFC 9112, section 6.3).
func (h *head) frame(is11 bool) error {
	h.last = !is11 && !hasToken(h.header["Connection"], "keep-alive") || hasToken(h.header["Connection"], "close")
	lengths, codings := h.header["Content-Length"], h.header["Transfer-Encoding"]
	switch {
	case h.status == http.StatusSwitchingProtocols: // which no request asked for
		h.last = true
		return nil
	case h.status < 200:
		h.interim = true
		return nil
	case h.status == http.StatusNoContent || h.status == http.StatusNotModified:
		return nil
	case len(codings) > 0:
		if len(codings) > 1 || !strings.EqualFold(codings[0], "chunked") || !is11 {
			return fmt.Errorf("unsupported transfer encoding %.40q", codings)
		}
		h.length = lengthChunked
		h.last = h.last || len(lengths) > 0 // an intermediary may read it differently
		return nil
	case len(lengths) == 0:
		h.length, h.last = lengthUntilClose, true
		return nil
	}
	for _, l := range lengths {
		n, err := strconv.ParseUint(l, 10, 63)
		if err != nil || l != lengths[0] {
			return fmt.Errorf("malformed HTTP response: Content-Length %.40q", lengths)
		}
		h.length = int64(n)
	}
	return nil
}

// cutLine returns the first line of text, without its end, and what follows.
func cutLine(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// hasToken reports whether one of the values is a list with that token.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.Trim(part, " \t"), token) {
				return true
			}
		}
	}
	return false
}

// fill sets the members of a response, except for Request and Body.
func (h *head) fill(r *http.Response) {
	r.Proto, r.Status, _ = strings.Cut(h.line, " ")
	r.Status = strings.TrimLeft(r.Status, " ")
	r.StatusCode = h.status
	r.ProtoMajor, r.ProtoMinor = 1, int(r.Proto[len(r.Proto)-1]-'0')
	r.Header = h.header
	r.ContentLength = max(h.length, -1)
	r.Close = h.last
	if h.length == lengthChunked {
		r.TransferEncoding = chunked
		delete(h.header, "Transfer-Encoding")
	}
}

var chunked = []string{"chunked"}
