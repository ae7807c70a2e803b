package http1server

import (
	"crypto/tls"
	"net"
	"sync"
)

// handedListener is the listener of the http.Server: it accepts the connections that are
// handed over.
type handedListener struct {
	conns chan net.Conn
	over  chan struct{} // closed by Close
	close func()
	addr  net.Addr
}

func newHandedListener() *handedListener {
	l := &handedListener{conns: make(chan net.Conn), over: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.over) })
	return l
}

// hand passes a connection to the http.Server. It closes the connection if that has ended.
func (l *handedListener) hand(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.over:
		c.Close()
	}
}

// Accept implements net.Listener.
func (l *handedListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *handedListener) Close() error {
	l.close()
	return nil
}

// Addr implements net.Listener.
func (l *handedListener) Addr() net.Addr { return l.addr }

// replayConn is a connection of which some bytes were read. Read returns them again.
type replayConn struct {
	net.Conn
	read []byte
}

// Read implements net.Conn.
func (c *replayConn) Read(b []byte) (int, error) {
	if len(c.read) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.read)
	if c.read = c.read[n:]; len(c.read) == 0 {
		c.read = nil
	}
	return n, nil
}

// CloseWrite is used by net/http.
func (c *replayConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// replayTLSConn is a replayConn over TLS.
type replayTLSConn struct {
	replayConn
	state tls.ConnectionState
}

// ConnectionState is used by net/http for Request.TLS.
func (c *replayTLSConn) ConnectionState() tls.ConnectionState { return c.state }
