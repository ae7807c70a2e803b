package httpconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"mcpgateway/internal/http1"
	"mcpgateway/internal/sockio"
)

// Connecting has separate timeouts, so that a host that drops packets is not taken for
// a slow tool.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	// maxHeaders bounds the headers of a response, in bytes.
	maxHeaders = 256 << 10
)

// Pool holds the connections of one conversation. Closing it ends all requests, so that
// no request needs a context of its own for that. It is safe for concurrent use.
type Pool struct {
	transport *http1.Transport

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil once the pool is closed
}

// NewPool returns a pool for this number of concurrent calls.
//
// There is no timeout for headers: a call may be silent for long, and the context of each
// request bounds it. Bodies are decompressed by [Endpoint], which bounds what comes of
// them, and requests are not compressed, since that costs more than it saves.
func NewPool(o *Config, concurrent int) *Pool {
	p := &Pool{conns: make(map[net.Conn]struct{})}
	dial := o.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	connect := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return p.adopt(c)
	}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment, // which uses no proxy for loopback
		DialContext:         connect,
		TLSHandshakeTimeout: handshakeTimeout,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		MaxIdleConnsPerHost: concurrent + 8, // and streams, notifications and responses to the server
		IdleConnTimeout:     idleTimeout,

		MaxResponseHeaderBytes: maxHeaders,
	}
	if o.TLS != nil {
		d := tlsDialer{connect, o.TLS.Get}
		t.DialTLSContext = d.dial
		if config, err := o.TLS.Get(); err == nil { // dial reports the error
			t.TLSClientConfig = config.Clone() // for connections through a proxy
		}
	}
	p.transport = http1.New(t)
	return p
}

// tlsDialer opens connections with the configuration of TLS at that time: the files that it
// comes from may change while the pool is in use.
type tlsDialer struct {
	connect func(ctx context.Context, network, addr string) (net.Conn, error)
	config  func() (*tls.Config, error)
}

func (d tlsDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	current, err := d.config()
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	config := current.Clone()
	config.ServerName, config.NextProtos = host, []string{"h2", "http/1.1"}
	c, err := d.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	secured := tls.Client(c, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return secured, nil
}

// adopt adds a connection to the pool until it is closed.
func (p *Pool) adopt(c net.Conn) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		c.Close()
		return nil, net.ErrClosed
	}
	c = sockio.New(c)
	p.conns[c] = struct{}{}
	return &pooledConn{Conn: c, p: p}, nil
}

// Close closes all connections and prevents new ones. It may be called more than once.
func (p *Pool) Close() {
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for c := range conns {
		c.Close()
	}
	p.transport.CloseIdleConnections()
}

// Closed reports whether Close was called.
func (p *Pool) Closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns == nil
}

type pooledConn struct {
	net.Conn
	p *Pool
}

// SyscallConn implements [syscall.Conn]. It fails for a connection without a file
// descriptor.
func (c *pooledConn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Close implements net.Conn.
func (c *pooledConn) Close() error {
	c.p.mu.Lock()
	delete(c.p.conns, c.Conn)
	c.p.mu.Unlock()
	return c.Conn.Close()
}
