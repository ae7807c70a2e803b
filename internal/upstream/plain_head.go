package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// plainHead is what a server says before the body (RFC 9112, sections 4 to 6).
type plainHead struct {
	status  int
	header  http.Header
	length  int64 // of the body, lengthChunked, or lengthOpen
	last    bool  // the connection ends after this answer
	interim bool  // another head follows
}

const (
	lengthOpen    = -1 // to the end of the connection
	lengthChunked = -2
)

// maxFields bounds the lines of a head. What one costs to keep is many times what
// it costs to send.
const maxFields = 1000

var errTooManyFields = fmt.Errorf("the head of the answer has more than %d lines", maxFields)

var errMalformedHead = errors.New("the head of the answer is not HTTP/1.1")

// readHead reads the head of an answer. buf is for use, and comes back for the
// next time. The reader bounds the head.
//
// It takes what net/http takes, but for two things that no server sends and that
// two readers may understand in two ways: a Transfer-Encoding with HTTP/1.0, and
// versions other than 1.0 and 1.1.
func readHead(r *bufio.Reader, buf []byte) (plainHead, []byte, error) {
	buf = buf[:0]
	lines := 0
	for {
		part, err := r.ReadSlice('\n')
		buf = append(buf, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return plainHead{}, buf, err
		}
		if n := len(part); lines > 0 && (n == 1 || n == 2 && part[0] == '\r') && buf[len(buf)-n-1] == '\n' {
			break
		}
		switch lines++; {
		case lines == 1 && !bytes.HasPrefix(buf, []byte("HTTP/1.")):
			return plainHead{}, buf, errMalformedHead // there may never be an empty line
		case lines > maxFields:
			return plainHead{}, buf, errTooManyFields
		}
	}
	h, err := parseHead(string(buf), lines-1)
	return h, buf, err
}

// parseHead parses a head up to and with its empty line.
func parseHead(text string, fields int) (plainHead, error) {
	line, text := cutLine(text)
	h := plainHead{header: make(http.Header, fields)}
	rest, is11 := strings.CutPrefix(line, "HTTP/1.1 ")
	if !is11 {
		var is10 bool
		if rest, is10 = strings.CutPrefix(line, "HTTP/1.0 "); !is10 {
			return h, errMalformedHead
		}
	}
	code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	status, err := strconv.ParseUint(code, 10, 16)
	if err != nil || len(code) != 3 || status < 100 || !isFieldValue(line) {
		return h, errMalformedHead
	}
	h.status = int(status)
	if err := h.fields(text, make([]string, 0, fields)); err != nil {
		return h, err
	}
	return h, h.frame(is11)
}

// fields parses the lines after the first. values is what the header's values
// are cut from.
func (h *plainHead) fields(text string, values []string) error {
	for {
		var line string
		if line, text = cutLine(text); line == "" {
			return nil
		}
		name, value, found := strings.Cut(line, ":")
		if !found || !isToken(name) {
			return errMalformedHead
		}
		value = strings.Trim(value, " \t")
		if text[0] == ' ' || text[0] == '\t' {
			value, text = unfold(value, text)
		}
		if !isFieldValue(value) {
			return errMalformedHead
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

// unfold adds to a value what stands in the lines that follow and begin with
// space, which is an old way to write long ones. It also returns the rest.
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

// frame finds out where the body ends (RFC 9112, section 6.3).
func (h *plainHead) frame(is11 bool) error {
	h.last = !is11 && !hasToken(h.header["Connection"], "keep-alive") || hasToken(h.header["Connection"], "close")
	lengths, codings := h.header["Content-Length"], h.header["Transfer-Encoding"]
	switch {
	case h.status == http.StatusSwitchingProtocols: // to nothing that was asked for
		h.last = true
		return nil
	case h.status < 200:
		h.interim = true
		return nil
	case h.status == http.StatusNoContent || h.status == http.StatusNotModified:
		return nil
	case len(codings) > 0:
		if len(codings) > 1 || !strings.EqualFold(codings[0], "chunked") || !is11 {
			return fmt.Errorf("the transfer encoding %.40q is not chunked", codings)
		}
		h.length = lengthChunked
		h.last = h.last || len(lengths) > 0 // somebody on the way may read it otherwise
		return nil
	case len(lengths) == 0:
		h.length, h.last = lengthOpen, true
		return nil
	}
	for _, l := range lengths {
		n, err := strconv.ParseUint(l, 10, 63)
		if err != nil || l != lengths[0] {
			return fmt.Errorf("the content length %.40q is no length", lengths)
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

// isFieldValue reports whether s can stand in a line of a head: nothing in it
// ends the line (RFC 9110, section 5.5).
func isFieldValue(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

// isToken reports whether s can be the name of a header (RFC 9110, section
// 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenBytes = func() (t [256]bool) {
	for _, b := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[b] = true
	}
	return t
}()
