package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
)

// drain lets calls in progress end within drain_timeout. Event streams end immediately. Until
// the last call has ended, the server accepts connections and refuses new calls on them: a
// load balancer needs a moment to notice that the gateway is no longer ready, and the
// clients that it sends until then get an answer that they can act on.
func (g *Gateway) drain(srv server, active *activeConns) {
	timeout := g.beginDrain()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var passed, giving sync.WaitGroup
	passed.Go(func() { g.drainPassed(ctx) })
	running, ended := context.WithCancel(ctx)
	defer ended()
	giving.Go(func() { g.giveUpSessions(running) })
	shutdown(ctx, srv, active, g.stopCalls)
	passed.Wait()
	ended()
	giving.Wait()
	g.log.Info("drained")
}

// beginDrain ends event streams, makes the gateway refuse new calls, and returns how long
// calls in progress may still take.
func (g *Gateway) beginDrain() (timeout time.Duration) {
	timeout = g.generation.Load().cfg.DrainTimeout
	g.draining.Store(true)
	g.log.Info("draining", zap.Duration("timeout", timeout), zap.Int64("calls", g.front.Running()))
	if g.sharing != nil {
		g.sharing.held.Drain()
	}
	g.front.Drain()
	if g.public != nil {
		g.public.Drain()
	}
	return timeout
}

// stopCalls ends the calls that are still in progress.
func (g *Gateway) stopCalls() {
	g.log.Warn("calls were still running after drain_timeout and are ended", zap.Int64("calls", g.front.Running()))
	g.front.Stop()
}

// stopTimeout is the time for the answers of calls that were ended.
const stopTimeout = time.Second

// shutdownTimeout is the time for requests that are on their way, for the last refused clients
// to read their answer, and for connections that were opened and never used.
const shutdownTimeout = 500 * time.Millisecond

// server has the methods of an http.Server or an http1server.Server that shutdown needs.
type server interface {
	SetKeepAlivesEnabled(bool)
	Shutdown(context.Context) error
}

// shutdown waits until all requests in progress are answered, then closes the listener. If
// ctx ends before, it calls stop, which ends the requests, and waits up to stopTimeout for
// their answers.
func shutdown(ctx context.Context, srv server, active *activeConns, stop func()) {
	srv.SetKeepAlivesEnabled(false) // closes idle connections soon, the others with their answer
	if !active.wait(ctx) {
		stop()
		short, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		active.wait(short)
	}
	last, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	_ = srv.Shutdown(last) // its only error is that a client was too slow
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// activeConns are the connections that carry a request. A connection does so until the
// last byte of the answer was handed to the kernel, which is later than the end of the
// handler.
type activeConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	idle  chan struct{} // made by wait, closed when no connection is left
}

// observe is the ConnState of an http.Server.
func (a *activeConns) observe(c net.Conn, state http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch state {
	case http.StateActive:
		if a.idle != nil {
			return // a request that came after wait began must not prolong it
		}
		if a.conns == nil {
			a.conns = map[net.Conn]struct{}{}
		}
		a.conns[c] = struct{}{}
	case http.StateIdle, http.StateClosed, http.StateHijacked:
		if _, counted := a.conns[c]; !counted {
			return
		}
		delete(a.conns, c)
		if len(a.conns) == 0 && a.idle != nil {
			close(a.idle)
		}
	}
}

// wait waits until every request that is in progress now has been answered. It returns
// false if ctx ends before. Later calls wait for the same requests.
func (a *activeConns) wait(ctx context.Context) bool {
	a.mu.Lock()
	if a.idle == nil {
		a.idle = make(chan struct{})
		if len(a.conns) == 0 {
			close(a.idle)
		}
	}
	idle := a.idle
	a.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}
