package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"mcpgateway/internal/plaintext"
)

// conn is one connection. It belongs to the request that took it until the body of
// the response has ended.
type conn struct {
	net.Conn
	t      *Transport
	origin *origin
	check  *connCheck
	since  time.Time // idle
	in     *bufio.Reader
	left   int64  // bytes that may still be read before the head of a response is complete
	out    []byte // the request, a buffer for reuse
	head   []byte // of the response, a buffer for reuse
	closer func() // calls Close, made once
	writer requestWriter
}

const (
	// bufferSize is the size of the read buffer that an idle connection keeps.
	bufferSize = 4 << 10
	// lateResponse is how long to wait for a response that a server may have sent
	// before it broke off the request.
	lateResponse = time.Second
	// maxTrailers bounds the bytes after the last chunk of a body.
	maxTrailers = 16 << 10
	// usualFields is how many header fields a response has in most cases.
	usualFields = 8
	noLimit     = 1<<63 - 1
)

var errHeadTooLarge = errors.New("the head of the HTTP response is too large")

func newConn(t *Transport, o *origin, nc net.Conn) *conn {
	c := &conn{Conn: nc, t: t, origin: o, check: newConnCheck(nc)}
	c.closer = func() { c.Close() }
	c.in = bufio.NewReaderSize(headLimiter{c}, bufferSize)
	return c
}

// headLimiter reads from a connection and bounds the head of a response.
type headLimiter struct{ c *conn }

// Read implements io.Reader.
func (l headLimiter) Read(b []byte) (int, error) {
	if l.c.left <= 0 {
		return 0, errHeadTooLarge
	}
	n, err := l.c.Conn.Read(b)
	l.c.left -= int64(n)
	return n, err
}

// roundTrip sends a request with this body and reads the head of the response. On
// errors the connection is closed; errUnwritten means that nothing was written.
func (c *conn) roundTrip(req *http.Request, extra []Field, reqBody io.Reader) (*http.Response, error) {
	if err := c.compose(req, extra); err != nil {
		c.Close()
		return nil, err
	}
	r := &struct { // a single allocation
		http.Response
		body
		values [usualFields]string
	}{}
	r.c = c
	r.watch(req.Context())
	h, err := c.exchange(req, reqBody, r.values[:0])
	if err != nil {
		r.end(false)
		return nil, err
	}
	h.fill(&r.Response)
	r.Request, r.Body = req, &r.body
	r.begin(&h)
	return &r.Response, nil
}

// exchange sends the request whose head was composed, and reads the head of the
// response. values is as for [readHead].
func (c *conn) exchange(req *http.Request, reqBody io.Reader, values []string) (head, error) {
	c.writer = requestWriter{c: c}
	w := &c.writer
	err := w.send(req, reqBody)
	if cap(c.out) > bufferSize {
		c.out = nil // a rare large buffer is not kept
	}
	switch {
	case err == nil:
		return c.receive(values)
	case w.written == 0 && w.failed:
		return head{}, errUnwritten
	case !w.failed:
		return head{}, err
	}
	// The server may have responded before it broke off the request.
	c.Conn.SetReadDeadline(time.Now().Add(lateResponse))
	h, herr := c.receive(values)
	if herr != nil || h.status < 400 {
		return head{}, err
	}
	h.last = true
	return h, nil
}

// receive reads the head of the response. values is as for [readHead].
func (c *conn) receive(values []string) (h head, err error) {
	c.left = c.t.maxHead
	for {
		if h, c.head, err = readHead(c.in, c.head, values); err != nil || !h.interim {
			c.left = noLimit
			if cap(c.head) > bufferSize {
				c.head = nil
			}
			return h, err
		}
	}
}

// compose puts the head of a request into c.out.
func (c *conn) compose(req *http.Request, extra []Field) error {
	path := req.URL.RequestURI()
	if !plaintext.IsFieldValue(path) {
		return errors.New("the URL has control characters")
	}
	b := append(c.out[:0], req.Method...)
	b = append(b, ' ')
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, req.URL.Host...)
	var err error
	for name, values := range req.Header {
		if isOwnHeader(name) { // in a case in which net/http would send it too
			return unsendable(name)
		}
		for _, value := range values {
			if b, err = appendField(b, name, value); err != nil {
				return err
			}
		}
	}
	for _, f := range extra {
		if !f.isMissing(req.Header) {
			continue
		}
		if b, err = appendField(b, f.Name, f.Value); err != nil {
			return err
		}
	}
	switch {
	case hasBody(req):
		b = append(b, "\r\nContent-Length: "...)
		b = strconv.AppendInt(b, req.ContentLength, 10)
	case req.Method == http.MethodPost || req.Method == http.MethodPut || req.Method == http.MethodPatch:
		b = append(b, "\r\nContent-Length: 0"...)
	}
	c.out = append(b, "\r\n\r\n"...)
	return nil
}

// appendField appends a header and the line end before it.
func appendField(b []byte, name, value string) ([]byte, error) {
	if !plaintext.IsToken(name) || !plaintext.IsFieldValue(value) {
		return b, unsendable(name)
	}
	b = append(b, "\r\n"...)
	b = append(b, name...)
	b = append(b, ": "...)
	return append(b, value...), nil
}

func unsendable(name string) error { return fmt.Errorf("the header %q cannot be sent", name) }

// requestWriter writes a request to a connection: the head together with the first
// bytes of the body.
type requestWriter struct {
	c       *conn
	body    int64 // bytes of the body that were written
	written int64 // bytes that were written in all
	failed  bool  // a write has failed
}

// send writes the request.
func (w *requestWriter) send(req *http.Request, body io.Reader) error {
	if !hasBody(req) {
		_, err := w.Write(nil)
		return err
	}
	if wt, ok := body.(io.WriterTo); ok {
		if _, err := wt.WriteTo(w); err != nil {
			return err
		}
	} else {
		whole := make([]byte, req.ContentLength)
		if _, err := io.ReadFull(body, whole); err != nil {
			return err
		}
		if _, err := w.Write(whole); err != nil {
			return err
		}
	}
	if w.body != req.ContentLength {
		return fmt.Errorf("the body of the request has %d bytes instead of %d", w.body, req.ContentLength)
	}
	return nil
}

// Write implements io.Writer for the body. The first call writes the head too.
func (w *requestWriter) Write(p []byte) (int, error) {
	out, head := p, 0
	if w.written == 0 {
		head = len(w.c.out)
		w.c.out = append(w.c.out, p...)
		out = w.c.out
	}
	n, err := w.c.Conn.Write(out)
	w.failed = err != nil
	w.written += int64(n)
	n = max(n-head, 0)
	w.body += int64(n)
	return n, err
}
