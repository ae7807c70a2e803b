package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// plain sends requests to one server over plain HTTP/1.1, in the goroutine of
// whoever asks:
//
//	get ──▶ alive? ──▶ write ──▶ read the head ──▶ body ──▶ put
//	 │ none or not                   its end, nothing more │ anything else
//	 └──▶ dial                                             └──▶ close
//
// net/http's Transport gives each connection two goroutines, one that reads and
// one that writes. The switches between them and the caller are a fifth of what
// a call costs the gateway, and they buy what plain does without: HTTP/2, TLS, a
// body that is sent while the answer comes. What needs one of these goes through
// the Transport, see [plain.takes].
//
// A connection serves one request at a time and is used again only when the
// answer came whole, with not a byte after it, when neither side said "close",
// and when the server has been silent since. So an answer never belongs to a
// request before.
//
// Its methods may be called by many goroutines at once.
type plain struct {
	host string // as in the URL, and in the Host header
	addr string // host and port
	most int    // idle connections that are kept
	dial func(ctx context.Context, network, addr string) (*pooledConn, error)

	mu    sync.Mutex
	idle  []*plainConn // the one used last at the end
	tidy  *time.Timer  // runs while there are idle connections, nil before the first
	ended bool
}

const (
	// maxPlainBody bounds the bodies that plain sends. A server that answers
	// without reading leaves the sender waiting once the kernel's buffers are
	// full; this much always fits in.
	maxPlainBody = 32 << 10
	// tidyTime is how often idle connections are looked after.
	tidyTime = 15 * time.Second
)

// errUnwritten means that not a byte of a request was written.
var errUnwritten = errors.New("the connection broke before the request was written")

// newPlain returns a plain to the origin of u, nil when that is not reached over
// plain HTTP, or by way of a proxy.
func newPlain(u *url.URL, idle int, dial func(ctx context.Context, network, addr string) (*pooledConn, error)) *plain {
	if !canPlain || u.Scheme != "http" || u.Host == "" || strings.ContainsFunc(u.Host, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || r == '%' // net/http knows about zones and names that are not ASCII
	}) {
		return nil
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); proxy != nil || err != nil {
		return nil
	}
	return &plain{host: u.Host, addr: net.JoinHostPort(u.Hostname(), port(u)), most: idle, dial: dial}
}

// takes reports whether plain can send a request to u with the body p.
func (p *plain) takes(u *url.URL, body *payload) bool {
	return p != nil && u.Scheme == "http" && u.Host == p.host && (body == nil || len(body.buf) <= maxPlainBody)
}

// do sends one request and returns the head of its answer, with the body open.
// The body must be closed or read to its end. It ends with ctx, as a request
// does. body may be nil, and is not used after do has returned.
func (p *plain) do(ctx context.Context, method string, u *url.URL, header headers, body *payload) (*httpAnswer, error) {
	if c := p.get(); c != nil {
		resp, err := c.exchange(ctx, method, u, header, body)
		if err != errUnwritten || ctx.Err() != nil {
			return resp, err
		}
		// The server closed it since it was looked at, and knows nothing of the
		// request.
	}
	nc, err := p.dial(ctx, "tcp", p.addr)
	if err != nil {
		return nil, &unconnected{err}
	}
	return newPlainConn(p, nc).exchange(ctx, method, u, header, body)
}

// get takes an idle connection that is good for a request, nil when there is
// none.
func (p *plain) get() *plainConn {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if c.pulse.alive() {
			return c
		}
		c.Close()
	}
}

// put keeps a connection for the next request.
func (p *plain) put(c *plainConn) {
	c.since = time.Now()
	p.mu.Lock()
	keep := !p.ended && len(p.idle) < p.most
	if keep {
		p.idle = append(p.idle, c)
		switch {
		case p.tidy == nil:
			p.tidy = time.AfterFunc(tidyTime, p.sweep)
		case len(p.idle) == 1:
			p.tidy.Reset(tidyTime)
		}
	}
	p.mu.Unlock()
	if !keep {
		c.Close()
	}
}

// sweep closes connections that have been idle for long, or that the server has
// closed.
func (p *plain) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := time.Now().Add(-idleTimeout)
	p.idle = slices.DeleteFunc(p.idle, func(c *plainConn) bool {
		if c.since.After(old) && c.pulse.alive() {
			return false
		}
		c.Close()
		return true
	})
	if len(p.idle) > 0 {
		p.tidy.Reset(tidyTime)
	}
}

// close keeps no connections any more. Those that there are close with the pool.
func (p *plain) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.idle = nil
	if p.tidy != nil {
		p.tidy.Stop()
	}
}
