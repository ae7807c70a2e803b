package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// plainConn is one connection of a [plain]. It belongs to whoever took it, until
// the body of the answer has come to its end.
type plainConn struct {
	*pooledConn
	p     *plain
	pulse *pulse
	since time.Time // idle
	in    *bufio.Reader
	left  int64  // bytes that may still be read before the head of an answer is whole
	out   []byte // a request, for use
	head  []byte // of an answer, for use
	shut  func() // Close, made once
}

const (
	// plainBuffer is how much is read at once, and what an idle connection holds.
	plainBuffer = 4 << 10
	// lateTime is how long an answer is waited for that a server may have sent
	// before it broke off the request.
	lateTime = time.Second
	// maxTrailers bounds what comes after the last chunk of a body.
	maxTrailers = 16 << 10
	noLimit     = 1<<63 - 1
)

var errHeadTooLarge = fmt.Errorf("the head of the answer is larger than %d bytes", maxHeaders)

func newPlainConn(p *plain, nc *pooledConn) *plainConn {
	c := &plainConn{pooledConn: nc, p: p, pulse: newPulse(nc.Conn)}
	c.shut = func() { c.Close() }
	c.in = bufio.NewReaderSize(limitedHead{c}, plainBuffer)
	return c
}

// limitedHead is what a connection is read through: it bounds the head of an
// answer.
type limitedHead struct{ c *plainConn }

// Read implements io.Reader.
func (l limitedHead) Read(b []byte) (int, error) {
	if l.c.left <= 0 {
		return 0, errHeadTooLarge
	}
	n, err := l.c.Conn.Read(b)
	l.c.left -= int64(n)
	return n, err
}

// exchange sends a request and reads the head of the answer. On errors the
// connection is closed; errUnwritten means that nothing was written.
func (c *plainConn) exchange(ctx context.Context, method string, u *url.URL, header headers, body *payload) (*httpAnswer, error) {
	if err := c.compose(method, u, header, body); err != nil {
		c.Close()
		return nil, err
	}
	a := &struct {
		httpAnswer
		plainBody
	}{}
	a.c = c
	a.watch(ctx)
	h, err := c.send(body)
	if err != nil {
		a.end(false)
		return nil, err
	}
	a.httpAnswer = httpAnswer{StatusCode: h.status, Header: h.header, ContentLength: max(h.length, -1), Body: &a.plainBody, URL: u}
	a.begin(&h)
	return &a.httpAnswer, nil
}

// send writes the request that was composed and reads the head of the answer.
func (c *plainConn) send(body *payload) (plainHead, error) {
	n, err := c.Conn.Write(c.out)
	if body != nil && n == len(c.out) {
		body.gone.Store(true)
	}
	if cap(c.out) > plainBuffer {
		c.out = nil // a rare giant is not kept
	}
	switch {
	case err == nil:
		return c.receive()
	case n == 0:
		return plainHead{}, errUnwritten
	}
	// The server may have said why it did not want the rest.
	c.Conn.SetReadDeadline(time.Now().Add(lateTime))
	h, herr := c.receive()
	if herr != nil || h.status < 400 {
		return plainHead{}, err
	}
	h.last = true
	return h, nil
}

// receive reads the head of the answer.
func (c *plainConn) receive() (h plainHead, err error) {
	c.left = maxHeaders
	for {
		if h, c.head, err = readHead(c.in, c.head); err != nil || !h.interim {
			c.left = noLimit
			if cap(c.head) > plainBuffer {
				c.head = nil
			}
			return h, err
		}
	}
}

// compose puts a request into c.out.
func (c *plainConn) compose(method string, u *url.URL, header headers, body *payload) error {
	path := u.RequestURI()
	if !isFieldValue(path) {
		return errors.New("the URL has control characters")
	}
	b := append(c.out[:0], method...)
	b = append(b, ' ')
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, u.Host...)
	b, err := header.append(b)
	if err != nil {
		return err
	}
	if body != nil {
		b = append(b, "\r\nContent-Length: "...)
		b = strconv.AppendInt(b, int64(len(body.buf)), 10)
	}
	b = append(b, "\r\n\r\n"...)
	if body != nil {
		b = append(b, body.buf...)
	}
	c.out = b
	return nil
}
