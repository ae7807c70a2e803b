package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/admin"
)

// headerTimeout bounds how long a connection may take to say what it wants.
const headerTimeout = 10 * time.Second

// open takes the addresses, or other ports where that is allowed.
func (g *Gateway) open(anyPort, anyAdminPort bool) (err error) {
	if g.mcp, err = listen(g.cfg.Listen, anyPort); err != nil {
		return fmt.Errorf("listen on %s: %w; another program may have the port: choose another with --listen or the key listen", g.cfg.Listen, unwrapListen(err))
	}
	if g.admin, err = listen(g.cfg.Admin.Listen, anyAdminPort); err != nil {
		return errors.Join(
			fmt.Errorf("listen on %s for health and metrics: %w; another program, such as a second gateway, may have the port: choose another with --admin-listen or the key admin.listen",
				g.cfg.Admin.Listen, unwrapListen(err)),
			g.mcp.Close())
	}
	return nil
}

// listen takes an address, or if need be another port of its host.
func listen(address string, anyPort bool) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil || !anyPort || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	host, _, split := net.SplitHostPort(address)
	if split != nil {
		return nil, err
	}
	return net.Listen("tcp", net.JoinHostPort(host, "0"))
}

// unwrapListen takes the parts off that repeat the address.
func unwrapListen(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// serve answers on both addresses until ctx ends, then drains. life is what
// calls live in; it ends early when another part of the gateway has failed.
func (g *Gateway) serve(ctx, life context.Context) error {
	running := &busy{}
	r := chi.NewRouter()
	r.Handle("/mcp", g.front)
	r.Handle("/sse", http.HandlerFunc(g.front.ServeSSE))
	r.Handle("/sse/message", http.HandlerFunc(g.front.ServeSSE))
	base := func(net.Listener) context.Context { return life }
	mcp := &http.Server{Handler: r, ReadHeaderTimeout: headerTimeout, BaseContext: base, ConnState: running.observe, ErrorLog: zap.NewStdLog(g.log.Named("http"))}
	adm := &http.Server{Handler: admin.New(admin.Options{
		Ready: g.ready, Gatherer: g.registry, Token: g.cfg.Admin.Token.Reveal(), Pprof: g.cfg.Admin.Pprof,
	}), ReadHeaderTimeout: headerTimeout, ErrorLog: zap.NewStdLog(g.log.Named("http"))}

	group, failed := errgroup.WithContext(life)
	group.Go(func() error { return served(mcp.Serve(g.mcp)) })
	group.Go(func() error { return served(adm.Serve(g.admin)) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			g.drain(mcp, running)
		case <-failed.Done():
		}
		return errors.Join(mcp.Close(), adm.Close())
	})
	return group.Wait()
}

// drain lets the calls that run come to their end, within drain_timeout.
// Streams end at once.
func (g *Gateway) drain(srv *http.Server, running *busy) {
	g.draining.Store(true)
	g.log.Info("draining", zap.Duration("timeout", g.cfg.DrainTimeout))
	g.front.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.DrainTimeout)
	defer cancel()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		// Closes the listener and idle connections. It also waits for
		// connections that were opened and never used, so its end is not
		// what is waited for below.
		_ = srv.Shutdown(ctx)
	}()
	if !running.wait(ctx) {
		g.log.Warn("calls were still running after drain_timeout and are ended")
	}
	cancel()
	<-stop
}

func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// busy counts the connections that carry a request. They do so until the last
// byte of the answer was handed to the kernel, which is later than the end of
// the handler.
type busy struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	none  chan struct{} // made by wait, closed when no connection is left
}

// observe is the ConnState of an http.Server.
func (b *busy) observe(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state {
	case http.StateActive:
		if b.conns == nil {
			b.conns = map[net.Conn]struct{}{}
		}
		b.conns[c] = struct{}{}
	case http.StateIdle, http.StateClosed, http.StateHijacked:
		delete(b.conns, c)
		if len(b.conns) == 0 && b.none != nil {
			close(b.none)
			b.none = nil
		}
	}
}

// wait returns true when no request is under way, false when ctx ends before
// that. It is called once.
func (b *busy) wait(ctx context.Context) bool {
	b.mu.Lock()
	if len(b.conns) == 0 {
		b.mu.Unlock()
		return true
	}
	none := make(chan struct{})
	b.none = none
	b.mu.Unlock()
	select {
	case <-none:
		return true
	case <-ctx.Done():
		return false
	}
}
