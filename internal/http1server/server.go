package http1server

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
)

// Server serves connections in front of an http.Server.
type Server struct {
	// OnLargeHeader, if not nil, is called for each request that is refused because its header is
	// larger than MaxHeaderBytes. It may set headers of the answer. It is set before Serve.
	OnLargeHeader http.HandlerFunc

	next      *http.Server
	handler   http.Handler
	handed    *handedListener // connections for next
	maxHead   int             // of requests that are served here
	maxHeader int             // of all others
	base      call.Scope      // context of all connections, begun by Serve

	closing  atomic.Bool // no new connections and requests
	lastOnly atomic.Bool // each connection ends with its next answer

	mu       sync.Mutex
	listener net.Listener // nil before Serve
	conns    map[*conn]struct{}
	idleEnds time.Time // idle connections are left open until then
}

// New returns a server in front of next, which is not used otherwise. Its Handler,
// ReadHeaderTimeout, IdleTimeout, MaxHeaderBytes, BaseContext, ConnState, TLSConfig and
// ErrorLog apply to both; New changes the first and MaxHeaderBytes. A connection that is handed to next becomes StateHijacked, and
// then StateNew as another net.Conn. ReadTimeout, WriteTimeout and ConnContext must not be
// set.
func New(next *http.Server) *Server {
	if next.ReadTimeout != 0 || next.WriteTimeout != 0 || next.ConnContext != nil || next.Handler == nil {
		panic("http1server: a Handler is needed, and ReadTimeout, WriteTimeout and ConnContext must not be set")
	}
	s := &Server{next: next, handler: next.Handler, handed: newHandedListener(), maxHead: maxHead, conns: make(map[*conn]struct{})}
	if next.MaxHeaderBytes > 0 {
		s.maxHead = min(s.maxHead, next.MaxHeaderBytes)
		s.maxHeader = next.MaxHeaderBytes
		// net/http tells no handler of a header that is too large, and over HTTP/2 it may close the connection without an
		// answer. So it gets twice the limit.
		next.MaxHeaderBytes *= 2
		next.Handler = http.HandlerFunc(s.serveBounded)
	}
	return s
}

// Serve serves the connections of l until [Server.Shutdown] or [Server.Close]. It then
// returns http.ErrServerClosed. Serve or ServeTLS is called once.
func (s *Server) Serve(l net.Listener) error { return s.serve(l, nil) }

// ServeTLS is Serve for TLS, with the TLSConfig of the http.Server.
func (s *Server) ServeTLS(l net.Listener) error { return s.serve(l, s.next.TLSConfig.Clone()) }

func (s *Server) serve(l net.Listener, config *tls.Config) error {
	defer l.Close()
	base := context.Background()
	if s.next.BaseContext != nil {
		base = s.next.BaseContext(l)
	}
	s.base.Begin(context.WithValue(base, http.ServerContextKey, s.next))
	s.mu.Lock()
	s.listener = l
	closing := s.closing.Load()
	s.mu.Unlock()
	if closing {
		s.base.Cancel(nil)
		return http.ErrServerClosed
	}
	s.handed.addr = l.Addr()
	nextEnded := make(chan error, 1)
	go func() { nextEnded <- s.next.Serve(s.handed) }()
	err := s.accept(l, func(nc net.Conn) { s.start(newConn(s, nc, config)) })
	if err == http.ErrServerClosed {
		return err // the connections that were handed over end with Shutdown or Close
	}
	err = errors.Join(err, s.Close())
	<-nextEnded
	return err
}

// accept accepts connections until an error that does not pass.
func (s *Server) accept(l net.Listener, serve func(net.Conn)) error {
	const least, most = 5 * time.Millisecond, time.Second
	wait := least
	for {
		nc, err := l.Accept()
		if s.closing.Load() {
			if err == nil {
				nc.Close()
			}
			return http.ErrServerClosed
		}
		var passing interface{ Temporary() bool } // net/http decides in the same way
		if errors.As(err, &passing) && passing.Temporary() {
			s.logf("http: Accept error: %v; retrying in %v", err, wait)
			time.Sleep(wait)
			wait = min(2*wait, most)
			continue
		}
		if err != nil {
			return err
		}
		wait = least
		serve(nc)
	}
}

// start serves a connection on a separate goroutine.
func (s *Server) start(c *conn) {
	s.mu.Lock()
	if s.closing.Load() {
		s.mu.Unlock()
		c.raw.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	c.observe(http.StateNew)
	go c.serve(nil)
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// lastRequest is how long idle connections are left open when keep-alives end, because the next
// request may be on its way: a client whose connection is closed then cannot tell whether its
// request was taken.
const lastRequest = 200 * time.Millisecond

// SetKeepAlivesEnabled is that of http.Server: without keep-alives each connection ends with
// its next answer, and idle ones after lastRequest.
func (s *Server) SetKeepAlivesEnabled(enabled bool) {
	s.mu.Lock()
	switch {
	case enabled:
		s.idleEnds = time.Time{}
	case s.idleEnds.IsZero():
		s.idleEnds = time.Now().Add(lastRequest)
		time.AfterFunc(lastRequest, func() { s.closeIdle() })
	}
	s.lastOnly.Store(!enabled)
	s.mu.Unlock()
	s.next.SetKeepAlivesEnabled(enabled)
}

// Shutdown is that of http.Server: it ends keep-alives, closes the listener, and waits until no
// connection is left, or until ctx ends. The listener stays open as long as idle connections do.
func (s *Server) Shutdown(ctx context.Context) error {
	s.SetKeepAlivesEnabled(false)
	const most = 100 * time.Millisecond
	for wait := time.Millisecond; ; wait = min(2*wait, most) {
		left, late := s.closeIdle()
		if left == 0 && s.closing.Load() {
			break
		}
		if left == 0 || late {
			s.stopAccepting()
		}
		if left == 0 {
			continue // one that was accepted meanwhile is closed
		}
		select {
		case <-ctx.Done():
			s.stopAccepting()
			return errors.Join(ctx.Err(), s.next.Shutdown(ctx))
		case <-time.After(wait):
		}
	}
	s.endBase()
	return s.next.Shutdown(ctx)
}

// Close is that of http.Server: it closes the listener and all connections.
func (s *Server) Close() error {
	s.stopAccepting()
	s.mu.Lock()
	for c := range s.conns {
		c.state.Store(stateClosed)
		c.raw.Close()
	}
	s.mu.Unlock()
	s.endBase()
	return errors.Join(s.handed.Close(), s.next.Close())
}

// endBase ends the context of the connections, of which none is left.
func (s *Server) endBase() {
	s.mu.Lock()
	served := s.listener != nil
	s.mu.Unlock()
	if served {
		s.base.Cancel(nil)
	}
}

func (s *Server) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing.Store(true)
	if s.listener != nil {
		s.listener.Close()
	}
}

// freshConn is how long a connection without a request counts as one that is about to send
// it. Afterwards it is idle.
const freshConn = 5 * time.Second

// closeIdle closes idle connections when it is late enough for that. It returns how many
// connections are left.
func (s *Server) closeIdle() (left int, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lastOnly.Load() || time.Now().Before(s.idleEnds) {
		return len(s.conns), false
	}
	for c := range s.conns {
		if hasUnread(c.raw) {
			continue // its request is about to be served
		}
		if c.state.CompareAndSwap(stateIdle, stateClosed) ||
			time.Since(c.opened) > freshConn && c.state.CompareAndSwap(stateNew, stateClosed) {
			c.raw.Close()
			delete(s.conns, c)
		}
	}
	return len(s.conns), true
}

func (s *Server) logf(format string, args ...any) {
	if s.next.ErrorLog != nil {
		s.next.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
