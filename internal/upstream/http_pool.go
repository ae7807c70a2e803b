package upstream

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Connecting is bounded apart from the call, so that a host that swallows
// packets is told from a tool that takes long.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	// maxHeaders bounds the headers of an answer, in bytes.
	maxHeaders = 256 << 10
)

// pool is the connections of one conversation. Closing it breaks every request
// that is under way, which spares each request a context of its own.
type pool struct {
	transport *http.Transport
	plain     *plain // for what it takes, may be nil

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil once the pool is closed
}

// newPool returns a pool for concurrent requests at once, most of them to the
// origin of the server.
//
// There is no timeout for headers: a call may be silent for long, and each
// request is bounded by its context. Nothing is compressed: on the way to an
// upstream it costs more than it saves.
func newPool(o *HTTPOptions, concurrent int) *pool {
	p := &pool{conns: make(map[net.Conn]struct{})}
	connect := o.dial
	if connect == nil {
		connect = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	dial := func(ctx context.Context, network, addr string) (*pooledConn, error) {
		c, err := connect(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return p.adopt(c)
	}
	idle := concurrent + 8 // streams, notifications and answers to asks come on top
	p.plain = newPlain(o.URL, idle, dial)
	p.transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment, // which leaves loopback alone
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		TLSHandshakeTimeout: handshakeTimeout,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		MaxIdleConnsPerHost: idle,
		IdleConnTimeout:     idleTimeout,

		MaxResponseHeaderBytes: maxHeaders,
	}
	return p
}

// adopt takes a connection into the pool until it is closed.
func (p *pool) adopt(c net.Conn) (*pooledConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		c.Close()
		return nil, net.ErrClosed
	}
	p.conns[c] = struct{}{}
	return &pooledConn{Conn: c, p: p}, nil
}

// close ends every connection and lets none begin. It may be called more than
// once.
func (p *pool) close() {
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for c := range conns {
		c.Close()
	}
	p.plain.close()
	p.transport.CloseIdleConnections()
}

// closed reports whether the pool is.
func (p *pool) closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns == nil
}

type pooledConn struct {
	net.Conn
	p *pool
}

// Close implements net.Conn.
func (c *pooledConn) Close() error {
	c.p.mu.Lock()
	delete(c.p.conns, c.Conn)
	c.p.mu.Unlock()
	return c.Conn.Close()
}
