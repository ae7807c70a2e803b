package gateway

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/admin"
	"mcpgateway/internal/auth"
	"mcpgateway/internal/ratelog"
)

const (
	// headerTimeout bounds how long a connection may take to say what it wants,
	// and maxHeader how many bytes.
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
	// idleTimeout is how long a connection is kept that nobody uses: longer than
	// clients and proxies commonly keep theirs, so that they close first.
	idleTimeout = 3 * time.Minute
)

// serve answers on both addresses until ctx ends, then drains. life is what
// calls live in; it ends early when another part of the gateway has failed.
func (g *Gateway) serve(ctx, life context.Context) error {
	running := &activeConns{}
	g.logAuthModes()
	base := func(net.Listener) context.Context { return life }
	mcp := &http.Server{
		Handler: g.trustForwarded(g.refuseLoops(g.routes())), BaseContext: base, ConnState: running.observe, ErrorLog: g.errorLog(),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	adm := &http.Server{Handler: admin.New(admin.Options{
		Ready: g.waitingFor, Gatherer: g.registry, Token: g.cfg.Admin.Token.Reveal(), Pprof: g.cfg.Admin.Pprof,
		Reload: g.handleReload, Guard: g.adminGuard.Load,
	}), ReadTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: g.errorLog()}

	group, failed := errgroup.WithContext(life)
	group.Go(func() error {
		if g.certs == nil {
			return served(mcp.Serve(g.mcp))
		}
		mcp.TLSConfig = g.certs.config()
		return served(mcp.ServeTLS(g.mcp, "", ""))
	})
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

// routes is what is served at the address of MCP.
func (g *Gateway) routes() http.Handler {
	r := chi.NewRouter()
	r.Handle(pathMCP, g.front)
	r.Handle(pathSSE, http.HandlerFunc(g.front.ServeSSE))
	r.Handle(pathSSE+"/message", http.HandlerFunc(g.front.ServeSSE))
	if g.auth != nil {
		if metadata := g.auth.Metadata(); metadata != nil {
			r.Handle(auth.WellKnown, limitBodyTime(metadata))
			r.Handle(auth.WellKnown+"/*", limitBodyTime(metadata))
		}
	}
	r.Handle("/oauth/*", limitBodyTime(g.web))
	r.NotFound(limitBodyTime(http.HandlerFunc(g.notFound)).ServeHTTP)
	return r
}

// unread serves what reads no bodies. One may come all the same: net/http reads on
// before it answers, for as long as that takes, and then the end of the gateway waits
// for it too.
func limitBodyTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerTimeout)) // not every writer can
		}
		next.ServeHTTP(w, r)
	})
}

// errorLog is the ErrorLog of an http.Server. Whoever reaches the address can cause
// its lines without end, by handshakes that fail, and some quote what they sent: so
// the lines are bounded, and what they say is in a field.
func (g *Gateway) errorLog() *log.Logger {
	return log.New(serverLog{ratelog.New(g.log.Named("http"))}, "", 0)
}

// httpLog takes the lines of an http.Server.
type serverLog struct{ ratelog *ratelog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	says := zap.String("says", text)
	switch {
	case strings.HasPrefix(text, "http: panic serving"), strings.HasPrefix(text, "http2: panic serving"):
		l.ratelog.Error("panic", says)
	case strings.HasPrefix(text, "http: Accept error"):
		l.ratelog.Warn("no connections can be accepted", says)
	default:
		l.ratelog.Info("HTTP server", says)
	}
	return len(line), nil
}

// drain lets the calls that run come to their end, within drain_timeout.
// Streams end at once. Until the last call has ended, connections are accepted
// and new calls on them turned away: a balancer needs a moment to notice that
// the gateway is not ready any more, and clients that it sends until then get an
// answer that they can act on.
func (g *Gateway) drain(srv *http.Server, running *activeConns) {
	g.draining.Store(true)
	g.log.Info("draining", zap.Duration("timeout", g.generation.Load().cfg.DrainTimeout))
	g.front.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), g.generation.Load().cfg.DrainTimeout)
	defer cancel()
	finish(ctx, srv, running, func() {
		g.log.Warn("calls were still running after drain_timeout and are ended")
		g.front.Stop()
	})
}

// lastWords bounds how long calls that were ended may take to say so.
const stopTimeout = time.Second

// farewell bounds how long who was turned away last may take to read so. It is
// also what connections cost that were opened and never used.
const shutdownTimeout = 200 * time.Millisecond

// finish returns when what srv answers now has been answered. If it is not when ctx
// ends, stop is called, which ends it, and the answers to that have lastWords. Then
// the listener is closed.
func finish(ctx context.Context, srv *http.Server, running *activeConns, stop func()) {
	srv.SetKeepAlivesEnabled(false) // closes idle connections, and others with their answer
	if !running.wait(ctx) {
		stop()
		short, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		running.wait(short)
	}
	last, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	_ = srv.Shutdown(last) // that somebody is too slow is no news
}

func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// busy knows the connections that carry a request. They do so until the last
// byte of the answer was handed to the kernel, which is later than the end of
// the handler.
type activeConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	none  chan struct{} // made by wait, closed when no connection is left
}

// observe is the ConnState of an http.Server.
func (b *activeConns) observe(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state {
	case http.StateActive:
		if b.none != nil {
			return // it came after wait began, which it must not prolong
		}
		if b.conns == nil {
			b.conns = map[net.Conn]struct{}{}
		}
		b.conns[c] = struct{}{}
	case http.StateIdle, http.StateClosed, http.StateHijacked:
		if _, counted := b.conns[c]; !counted {
			return
		}
		delete(b.conns, c)
		if len(b.conns) == 0 && b.none != nil {
			close(b.none)
		}
	}
}

// wait returns true when every request that is under way now has been answered,
// false when ctx ends before that. When it is called again it waits for the same.
func (b *activeConns) wait(ctx context.Context) bool {
	b.mu.Lock()
	if b.none == nil {
		b.none = make(chan struct{})
		if len(b.conns) == 0 {
			close(b.none)
		}
	}
	none := b.none
	b.mu.Unlock()
	select {
	case <-none:
		return true
	case <-ctx.Done():
		return false
	}
}
