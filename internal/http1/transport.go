package http1

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/plaintext"
)

const (
	// maxBody bounds the request bodies that are sent without http.Transport. A
	// server that responds without reading blocks the sender once the kernel's
	// buffers are full; a body of this size always fits into them.
	maxBody = 32 << 10
	// maxOrigins bounds the origins whose connections are kept.
	maxOrigins = 64
	// sweepInterval is how often idle connections are checked.
	sweepInterval = 15 * time.Second

	defaultMaxHead = 1 << 20 // as in net/http
)

// Transport is an http.RoundTripper that sends plain HTTP/1.1 requests itself and
// leaves all others to the http.Transport that it wraps.
type Transport struct {
	next    *http.Transport
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	maxIdle int // per origin
	maxHead int64

	mu        sync.Mutex
	origins   map[string]*origin // by URL.Host
	sweeper   *time.Timer        // nil before the first idle connection
	closeIdle bool               // set by CloseIdleConnections until the next request
}

// origin is one host and port, with its idle connections.
type origin struct {
	addr   string
	direct bool    // false: http.Transport sends the requests
	idle   []*conn // the one used last at the end; guarded by Transport.mu
}

// New wraps next. Its DialContext, Proxy, MaxIdleConnsPerHost, IdleConnTimeout and
// MaxResponseHeaderBytes apply to both. Proxy is called once per origin.
func New(next *http.Transport) *Transport {
	t := &Transport{next: next, dial: next.DialContext, origins: make(map[string]*origin)}
	if t.dial == nil {
		t.dial = new(net.Dialer).DialContext
	}
	t.maxIdle = cmp.Or(next.MaxIdleConnsPerHost, http.DefaultMaxIdleConnsPerHost)
	t.maxHead = cmp.Or(next.MaxResponseHeaderBytes, defaultMaxHead)
	return t
}

// Field is a header of one request, by its canonical name.
type Field struct{ Name, Value string }

// RoundTrip implements [http.RoundTripper]. A request body that implements
// io.WriterTo is sent in the same system call as the head, and its WriteTo learns
// how much of it was written.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.RoundTripWith(req)
}

// RoundTripWith is RoundTrip with more headers, so that requests with different values can share one
// req.Header. A header is left out if it has no value, or if req.Header has its name.
func (t *Transport) RoundTripWith(req *http.Request, extra ...Field) (*http.Response, error) {
	if !t.takes(req) {
		return t.next.RoundTrip(with(req, extra))
	}
	o, c := t.idleConn(req)
	if !o.direct {
		return t.next.RoundTrip(with(req, extra))
	}
	if req.Body != nil {
		defer req.Body.Close()
	}
	ctx := req.Context()
	trace := httptrace.ContextClientTrace(ctx)
	if c != nil {
		gotConn(trace, c, true)
		resp, err := c.roundTrip(req, extra, req.Body)
		if err != errUnwritten || ctx.Err() != nil {
			return resp, contextError(ctx, err)
		}
		// The server closed the connection after the check.
	}
	body := req.Body
	if c != nil && hasBody(req) {
		if req.GetBody == nil {
			return nil, errUnwritten
		}
		again, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		defer again.Close()
		body = again
	}
	nc, err := t.dial(ctx, "tcp", o.addr)
	if err != nil {
		return nil, err
	}
	c = newConn(t, o, nc)
	gotConn(trace, c, false)
	resp, err := c.roundTrip(req, extra, body)
	return resp, contextError(ctx, err)
}

// with returns a request that has more headers.
func with(req *http.Request, extra []Field) *http.Request {
	r := *req
	r.Header = make(http.Header, len(req.Header)+len(extra))
	maps.Copy(r.Header, req.Header)
	for _, f := range extra {
		if f.isMissing(req.Header) {
			r.Header[f.Name] = []string{f.Value}
		}
	}
	return &r
}

// isMissing reports whether f has a value, and h has none by its name.
func (f *Field) isMissing(h http.Header) bool {
	if f.Value == "" {
		return false
	}
	_, set := h[f.Name]
	return !set
}

// gotConn calls the hook of trace that learns of a connection.
func gotConn(trace *httptrace.ClientTrace, c *conn, reused bool) {
	if trace == nil || trace.GotConn == nil {
		return
	}
	info := httptrace.GotConnInfo{Conn: c.Conn, Reused: reused, WasIdle: reused}
	if reused {
		info.IdleTime = time.Since(c.since)
	}
	trace.GotConn(info)
}

// contextError returns the error of ctx in the place of err if ctx has ended: the
// connection was closed because of it.
func contextError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// takes reports whether this package can send the request.
func (t *Transport) takes(req *http.Request) bool {
	switch {
	case !canCheck || req.URL == nil || req.URL.Scheme != "http" || !t.next.DisableCompression:
		return false
	case req.Method == http.MethodHead || req.Method == http.MethodConnect || !plaintext.IsToken(req.Method):
		return false
	case req.Host != "" && req.Host != req.URL.Host || req.Close || len(req.TransferEncoding) > 0 || len(req.Trailer) > 0:
		return false
	case hasBody(req) && (req.ContentLength <= 0 || req.ContentLength > maxBody):
		return false
	}
	for _, name := range ownHeaders {
		if _, set := req.Header[name]; set {
			return false
		}
	}
	return true
}

// ownHeaders lists the headers that change how a request or its response is sent.
var ownHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection", "Upgrade", "Expect"}

// isOwnHeader reports whether name is one of [ownHeaders], in whatever case.
func isOwnHeader(name string) bool {
	return slices.ContainsFunc(ownHeaders, func(own string) bool {
		return len(own) == len(name) && strings.EqualFold(own, name)
	})
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// idleConn returns the origin of a request and an idle connection to it that is
// still usable, nil if there is none.
func (t *Transport) idleConn(req *http.Request) (*origin, *conn) {
	for {
		t.mu.Lock()
		t.closeIdle = false
		o := t.origin(req)
		n := len(o.idle)
		if n == 0 {
			t.mu.Unlock()
			return o, nil
		}
		c := o.idle[n-1]
		o.idle[n-1] = nil
		o.idle = o.idle[:n-1]
		t.mu.Unlock()
		if c.check.alive() {
			return o, c
		}
		c.Close()
	}
}

// notDirect stands for all origins beyond the first maxOrigins.
var notDirect = &origin{}

// origin returns the origin of a request. The caller holds mu.
func (t *Transport) origin(req *http.Request) *origin {
	if o := t.origins[req.URL.Host]; o != nil {
		return o
	}
	if len(t.origins) >= maxOrigins {
		return notDirect
	}
	o := &origin{addr: address(req.URL), direct: t.isDirect(req)}
	t.origins[req.URL.Host] = o
	return o
}

// isDirect reports whether no proxy is in between and the host needs no
// translation: net/http knows about zones and about names that are not ASCII.
func (t *Transport) isDirect(req *http.Request) bool {
	host := req.URL.Host
	if host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '%' }) {
		return false
	}
	if t.next.Proxy == nil {
		return true
	}
	proxy, err := t.next.Proxy(req)
	return proxy == nil && err == nil
}

func address(u *url.URL) string { return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")) }

// put keeps a connection for the next request to its origin.
func (t *Transport) put(c *conn) {
	c.since = time.Now()
	t.mu.Lock()
	keep := !t.closeIdle && len(c.origin.idle) < t.maxIdle
	if keep {
		c.origin.idle = append(c.origin.idle, c)
		if t.sweeper == nil {
			t.sweeper = time.AfterFunc(sweepInterval, t.sweep)
		}
	}
	t.mu.Unlock()
	if !keep {
		c.Close()
	}
}

// sweep closes connections that have been idle for too long, or that the server
// has closed.
func (t *Transport) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := time.Time{}
	if t.next.IdleConnTimeout > 0 {
		oldest = time.Now().Add(-t.next.IdleConnTimeout)
	}
	left := 0
	for _, o := range t.origins {
		o.idle = slices.DeleteFunc(o.idle, func(c *conn) bool {
			if c.since.After(oldest) && c.check.alive() {
				return false
			}
			c.Close()
			return true
		})
		left += len(o.idle)
	}
	t.sweeper = nil
	if left > 0 {
		t.sweeper = time.AfterFunc(sweepInterval, t.sweep)
	}
}

// CloseIdleConnections closes the connections that serve no request, those of the
// wrapped http.Transport too.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	t.closeIdle = true
	var idle []*conn
	for _, o := range t.origins {
		idle = append(idle, o.idle...)
		o.idle = nil
	}
	if t.sweeper != nil {
		t.sweeper.Stop()
		t.sweeper = nil
	}
	t.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
	t.next.CloseIdleConnections()
}

// errUnwritten means that not a byte of a request was written.
var errUnwritten = errors.New("the connection broke before the request was written")
