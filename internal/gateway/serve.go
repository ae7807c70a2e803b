package gateway

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/admin"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/http1server"
	"mcpgateway/internal/landing"
	"mcpgateway/internal/oauthmeta"
	"mcpgateway/internal/origin"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/webui"
)

const (
	// headerTimeout and maxHeader bound the time and the size of request headers. docs/security.md has the size.
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
	// idleTimeout is how long an idle connection stays open. It is longer than clients
	// and proxies commonly keep theirs, so that they close first.
	idleTimeout = 3 * time.Minute
)

// serve serves both addresses until ctx ends, then drains. life is the context of calls;
// it ends early if another part of the gateway fails. ui is the console for the admin address, nil for none.
func (g *Gateway) serve(ctx, life context.Context, ui *webui.Console) error {
	active := &activeConns{}
	g.logAuthModes()
	base := func(net.Listener) context.Context { return life }
	behind := &http.Server{
		Handler: requestid.Handler(origin.TrustProxies(g.cfg.TrustedProxies, g.refuseLoops(g.routes()))), BaseContext: base, ConnState: active.observe, ErrorLog: g.errorLog(),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	if g.certs != nil {
		behind.TLSConfig = g.certs.ServerConfig()
	}
	mcp := http1server.New(behind)
	mcp.OnLargeHeader = g.front.LargeHeader
	forOperators := g.withHealth(admin.Options{
		Gatherer: g.registry, Token: g.cfg.Admin.Token.Reveal(), Pprof: g.cfg.Admin.Pprof,
		Reload: g.handleReload, Status: g.handleStatus, LogLevel: g.loggerLevel, Refused: g.adminRefused, LevelChanging: g.logLevelChanging, Exemplars: g.tracer() != nil, Guard: g.adminGuard.Load,
	}, reasonForAll)
	if ui != nil {
		forOperators.UI = ui
	}
	adm := &http.Server{Handler: requestid.Handler(admin.New(forOperators)), ReadTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: g.errorLog()}

	group, failed := errgroup.WithContext(life)
	group.Go(func() error {
		if g.certs == nil {
			return ignoreClosed(mcp.Serve(g.mcp))
		}
		return ignoreClosed(mcp.ServeTLS(g.mcp))
	})
	group.Go(func() error { return ignoreClosed(adm.Serve(g.admin)) })
	serving, stop := context.WithCancel(failed)
	if g.auth != nil {
		group.Go(func() error {
			g.auth.KeepKeys(serving, g.log.Named("auth"))
			return nil
		})
	}
	if ui != nil {
		group.Go(func() error {
			ui.Run(serving)
			return nil
		})
	}
	group.Go(func() error {
		defer stop()
		select {
		case <-ctx.Done():
			g.drain(mcp, active)
		case <-failed.Done():
		}
		return errors.Join(mcp.Close(), adm.Close())
	})
	return group.Wait()
}

// routes returns the handler of the address of MCP. Most requests are calls, which need no
// router: a profile costs them no more than /mcp.
func (g *Gateway) routes() http.Handler {
	others, page := g.otherRoutes(), limitBodyTime(http.HandlerFunc(g.servePage))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := g.endpoints.Load().Find(r.URL, r.Host)
		switch {
		case !ok || at.Path == pathSSE:
			others.ServeHTTP(w, r)
		case r.Method == http.MethodPost || !landing.IsFor(r):
			g.front.ServeHTTP(w, r)
		default:
			page.ServeHTTP(w, r)
		}
	})
}

func (g *Gateway) otherRoutes() http.Handler {
	r := chi.NewRouter()
	r.Handle("/", limitBodyTime(http.HandlerFunc(g.serveRoot)))
	r.Handle(pathSSE, http.HandlerFunc(g.front.ServeSSE))
	r.Handle(endpoint.PathMessages, http.HandlerFunc(g.front.ServeSSE))
	if g.auth != nil {
		if metadata := g.auth.Metadata(); metadata != nil {
			r.Handle(oauthmeta.ResourcePath, limitBodyTime(metadata))
			r.Handle(oauthmeta.ResourcePath+"/*", limitBodyTime(metadata))
		}
	}
	r.Handle("/oauth/*", limitBodyTime(g.web))
	g.routePublicUI(r)
	r.NotFound(limitBodyTime(http.HandlerFunc(g.unknownPath)).ServeHTTP)
	return r
}

// limitBodyTime serves a handler that reads no body. If a request has a body anyway,
// net/http reads it before it answers, and without a deadline the end of the gateway would
// wait for it.
func limitBodyTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerTimeout)) // some writers cannot
		}
		next.ServeHTTP(w, r)
	})
}

// errorLog returns the ErrorLog of an http.Server. Anyone who reaches the address can
// cause any number of lines by failing handshakes, and some lines quote what was sent. So
// the lines are rate-limited, and their text is in a field. All failed handshakes are counted.
func (g *Gateway) errorLog() *log.Logger {
	return log.New(serverLog{ratelog.New(g.log.Named("http")), g.metrics.handshakes}, "", 0)
}

// serverLog logs the lines of an http.Server.
type serverLog struct {
	ratelog    *ratelog.Logger
	handshakes prometheus.Counter
}

func (l serverLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	says := zap.String("says", text)
	if strings.HasPrefix(text, "http: TLS handshake error") {
		l.handshakes.Inc()
	}
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
