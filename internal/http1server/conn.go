package http1server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/sockio"
)

// The states of a connection.
const (
	stateNew    int32 = iota // before the first request
	stateActive              // a request is served
	stateIdle                // between requests
	stateClosed              // no more requests
)

const (
	// bufferSize is the size of the buffer that a connection keeps for reading.
	bufferSize = 4 << 10
	// maxHead bounds the heads that are served here.
	maxHead = 16 << 10
	// deadlineSlack is how much a deadline may come late, so that the next ones need not be
	// set.
	deadlineSlack = time.Second
	// maxBlanks is how many line ends are ignored after a POST: old clients send them. It is
	// that of net/http.
	maxBlanks = 4
	// rstDelay is how long a connection is kept whose client may still be sending: a reset
	// could overtake the answer. It is that of net/http.
	rstDelay = 500 * time.Millisecond
)

// conn is one connection. Its goroutine serves one request after the other. A second one
// reads while a request takes long, see watch.
type conn struct {
	s      *Server
	raw    net.Conn    // as accepted
	config *tls.Config // nil for plain connections
	nc     net.Conn    // raw, or TLS over it
	pieces net.Conn    // nc, for small reads and writes
	tls    *tls.ConnectionState
	handed bool // it belongs to the http.Server
	remote string
	opened time.Time
	scope  connScope // context of all requests
	state  atomic.Int32

	in         []byte // buffer, nil before the first request and while a stream is silent
	begin, end int    // of the bytes in the buffer that are not used yet
	blanks     int    // how many line ends may come before the next head

	readUntil, writeUntil time.Time // deadlines that are set

	header http.Header // of the answer, empty between requests

	watch watch
}

// connScope is the context of a connection.
type connScope struct {
	call.Scope
	local net.Addr
}

// Value implements context.Context.
func (s *connScope) Value(key any) any {
	if key == http.LocalAddrContextKey {
		return s.local
	}
	return s.Scope.Value(key)
}

func newConn(s *Server, nc net.Conn, config *tls.Config) *conn {
	c := &conn{s: s, raw: nc, nc: nc, pieces: sockio.New(nc), config: config, opened: time.Now()}
	c.scope.local = nc.LocalAddr()
	c.scope.Begin(&s.base)
	c.watch.c = c
	return c
}

// observe tells the hook of the http.Server.
func (c *conn) observe(state http.ConnState) {
	if c.s.next.ConnState != nil {
		c.s.next.ConnState(c.raw, state)
	}
}

// serve serves all requests of the connection, or after rest the further ones.
func (c *conn) serve(rest *continuation) {
	left := false // another goroutine serves the connection now
	defer func() {
		if !left {
			c.close(recover())
		}
	}()
	wait := c.s.next.ReadHeaderTimeout
	if rest != nil {
		wait = c.s.next.IdleTimeout
		if !rest.serve() {
			return
		}
		c.toIdle()
	} else if !c.open() {
		return
	}
	left = c.serveRequests(wait)
}

// serveRequests serves requests until the connection ends, or until another goroutine
// serves it: then it returns true. wait is the time for the next request.
func (c *conn) serveRequests(wait time.Duration) (left bool) {
	for {
		c.setReadDeadline(wait)
		r, err := c.readRequest()
		switch {
		case err == errUnusual:
			c.handOver()
			return false
		case err != nil, c.s.closing.Load(), !c.toActive():
			return false
		}
		rest, more := c.serveRequest(r)
		if rest != nil {
			go c.serve(rest)
			return true
		}
		if !more {
			return false
		}
		c.toIdle()
		wait = c.s.next.IdleTimeout
	}
}

// open prepares the connection for requests. It reports false if there will be none.
func (c *conn) open() bool {
	if remote := c.nc.RemoteAddr(); remote != nil {
		c.remote = remote.String()
	}
	return c.config == nil || c.handshake()
}

// toActive begins a request. It reports false if the connection was closed meanwhile.
func (c *conn) toActive() bool {
	if !c.state.CompareAndSwap(stateIdle, stateActive) && !c.state.CompareAndSwap(stateNew, stateActive) {
		return false
	}
	c.observe(http.StateActive)
	return true
}

// toIdle ends a request whose answer did not say that it was the last one.
func (c *conn) toIdle() {
	c.state.Store(stateIdle)
	c.observe(http.StateIdle)
}

// close ends the connection, unless it was handed over. p is the value of a panic, or nil.
func (c *conn) close(p any) {
	if p != nil && p != http.ErrAbortHandler {
		stack := make([]byte, 64<<10)
		stack = stack[:runtime.Stack(stack, false)]
		c.s.logf("http: panic serving %v: %v\n%s", c.remote, p, stack)
	}
	c.watch.stop()
	c.scope.Cancel(nil)
	if c.handed {
		return
	}
	c.s.remove(c)
	c.nc.Close()
	c.releaseInput()
	c.observe(http.StateClosed)
}

// handOver gives the connection to the http.Server.
func (c *conn) handOver() {
	c.setReadDeadline(0)
	c.setWriteDeadline(time.Time{})
	c.observe(http.StateHijacked)
	c.handed = true
	c.s.remove(c)
	read := c.in[c.begin:c.end]
	switch {
	case c.in == nil: // before the first request
		c.s.handed.hand(c.nc)
	case c.tls != nil:
		c.s.handed.hand(&replayTLSConn{replayConn{c.nc, read}, *c.tls})
	default:
		c.s.handed.hand(&replayConn{c.nc, read})
	}
}

// handshake performs the handshake of TLS. It reports false if the connection is not for
// this package: it has ended, or was handed over.
func (c *conn) handshake() bool {
	raw := c.nc
	secure := tls.Server(raw, c.config)
	c.setReadDeadline(c.s.next.ReadHeaderTimeout)
	if wait := c.s.next.ReadHeaderTimeout; wait > 0 {
		c.setWriteDeadline(time.Now().Add(wait))
	}
	if err := secure.HandshakeContext(&c.scope); err != nil {
		reason := err.Error()
		if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
			io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
			reason = "client sent an HTTP request to an HTTPS server"
		}
		c.s.logf("http: TLS handshake error from %s: %s", c.remote, reason)
		return false
	}
	state := secure.ConnectionState()
	c.tls, c.nc, c.pieces = &state, secure, secure
	c.setWriteDeadline(time.Time{})
	switch state.NegotiatedProtocol {
	case "", "http/1.1":
		return true
	}
	c.handOver() // HTTP/2
	return false
}

// looksLikeHTTP reports whether the first bytes of a client are those of plain HTTP.
func looksLikeHTTP(b [5]byte) bool {
	switch string(b[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// errUnusual says that the http.Server has to serve a connection.
var errUnusual = errors.New("not served here")

// headEnd ends the head of a request.
var headEnd = []byte("\r\n\r\n")

// readRequest reads the head of the next request.
func (c *conn) readRequest() (*request, error) {
	scanned, partial := 0, false
	for {
		for ; c.blanks > 0 && c.begin < c.end && (c.in[c.begin] == '\r' || c.in[c.begin] == '\n'); c.blanks-- {
			c.begin++
		}
		got := c.in[c.begin:c.end]
		if !knownMethod(got) {
			return nil, errUnusual
		}
		if at := bytes.Index(got[scanned:], headEnd); at >= 0 {
			n := scanned + at + len(headEnd)
			r, err := newRequest(c, got[:n])
			if err != nil {
				return nil, err
			}
			c.begin += n
			if c.blanks = 0; r.Method == http.MethodPost {
				c.blanks = maxBlanks
			}
			return r, nil
		}
		if hasBareLF(got) {
			return nil, errUnusual // which may end the head for net/http
		}
		if scanned = max(0, len(got)-len(headEnd)+1); len(got) > 0 && !partial {
			partial = true
			if c.state.Load() != stateNew { // the deadline of the first head counts from the beginning
				c.setReadDeadline(c.s.next.ReadHeaderTimeout)
			}
		}
		switch err := c.fill(); {
		case err == io.EOF && len(got) > 0:
			return nil, errUnusual // net/http knows how to answer
		case err != nil:
			return nil, err
		}
	}
}

// hasBareLF reports whether a line ends without CR.
func hasBareLF(b []byte) bool {
	for {
		at := bytes.IndexByte(b, '\n')
		if at < 0 {
			return false
		}
		if at == 0 || b[at-1] != '\r' {
			return true
		}
		b = b[at+1:]
	}
}

// fill reads more bytes of a head into the buffer.
func (c *conn) fill() error {
	switch size := len(c.in); {
	case c.begin == c.end:
		c.begin, c.end = 0, 0
		if size != bufferSize {
			c.in = inputs.Get().(*[bufferSize]byte)[:]
		}
	case c.end < size:
	case c.begin > 0:
		c.end = copy(c.in, c.in[c.begin:c.end])
		c.begin = 0
	case size >= c.s.maxHead:
		return errUnusual
	default:
		c.in = append(c.in, make([]byte, min(size, c.s.maxHead-size))...)
	}
	n, err := c.read(c.in[c.end:])
	c.end += n
	if n > 0 {
		return nil
	}
	return err
}

// inputs are buffers of connections, as *[bufferSize]byte.
var inputs = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// releaseInput gives the buffer back if nothing is in it.
func (c *conn) releaseInput() {
	if c.begin == c.end && len(c.in) == bufferSize {
		inputs.Put((*[bufferSize]byte)(c.in))
		c.in, c.begin, c.end = nil, 0, 0
	}
}

// read reads from the connection, first the byte that the watch has read.
func (c *conn) read(b []byte) (int, error) {
	if c.watch.got {
		c.watch.got = false
		b[0] = c.watch.byte[0]
		return 1, nil
	}
	return c.pieces.Read(b)
}

// setReadDeadline sets the deadline for reading, after a duration, or none if that is 0.
func (c *conn) setReadDeadline(after time.Duration) {
	at := time.Time{}
	if after != 0 {
		at = time.Now().Add(after)
	}
	c.setReadDeadlineAt(at)
}

func (c *conn) setReadDeadlineAt(at time.Time) {
	if needsDeadline(&c.readUntil, at) {
		c.nc.SetReadDeadline(c.readUntil)
	}
}

// setWriteDeadline sets the deadline for writing, or none.
func (c *conn) setWriteDeadline(at time.Time) {
	if needsDeadline(&c.writeUntil, at) {
		c.nc.SetWriteDeadline(c.writeUntil)
	}
}

// needsDeadline reports whether the deadline that is set must be replaced, and changes it.
// It may come late by deadlineSlack: most deadlines are never reached, and this one serves
// the next requests too.
func needsDeadline(set *time.Time, at time.Time) bool {
	if at.IsZero() {
		needed := !set.IsZero()
		*set = at
		return needed
	}
	latest := at.Add(deadlineSlack)
	if !set.Before(at) && !set.After(latest) {
		return false
	}
	*set = latest
	return true
}

// serveRequest serves a request. It returns what goes on with the answer, or whether the
// connection can serve another request.
func (c *conn) serveRequest(r *request) (rest *continuation, more bool) {
	c.watch.beginRequest(&r.scope, r.body.left == 0)
	func() {
		defer func() {
			c.watch.endRequest()
			r.scope.Cancel(nil)
		}()
		c.s.handler.ServeHTTP(&r.response, &r.Request)
	}()
	if r.response.rest != nil {
		return newContinuation(&r.response), false
	}
	return nil, c.finish(&r.response)
}

// finish completes an answer. It reports whether the connection can serve another request.
func (c *conn) finish(w *response) bool {
	w.finish()
	clear(c.header)
	if !w.last {
		return !c.watch.broken
	}
	if w.body != nil && !w.body.ended() {
		closeWrite(c.nc)
		time.Sleep(rstDelay)
	}
	return false
}
