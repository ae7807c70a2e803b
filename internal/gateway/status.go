package gateway

import (
	"context"
	"net/http"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/admin"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/instance"
	"mcpgateway/internal/requestid"
)

// Status returns how the gateway is now.
func (g *Gateway) Status() (*inspect.Status, error) {
	p := inspect.Process{
		Version: g.version, Mode: "http", Started: g.born, Waiting: g.waitingFor(withoutReason), Failing: g.failingParts(), Reload: g.lastReload.Load(), Change: g.lastChange.Load(), Metrics: g.registry, Slowest: g.routerMetrics.Slowest,
	}
	if file := g.configSource.File; file != "" {
		var err error
		if p.File, err = filepath.Abs(file); err != nil {
			return nil, err
		}
	}
	if g.audit != nil {
		if err := g.audit.Failure(); err != nil {
			p.AuditError = err.Error()
		}
	}
	for _, glob := range g.unmatchedRestrictions() {
		p.UnmatchedGlobs = append(p.UnmatchedGlobs, glob.String())
	}
	if g.stdio {
		p.Mode = "stdio"
	} else {
		p.URL, p.AdminURL = g.URL(), g.AdminURL()
	}
	return g.inspector.Status(p)
}

// handleStatus serves GET /-/status.
func (g *Gateway) handleStatus() (any, error) { return g.Status() }

// serveInstance serves this user's verbs until life ends. Without a folder that can be written the gateway runs
// without that.
func (g *Gateway) serveInstance(life context.Context) {
	if len(g.stateDirs) == 0 {
		return
	}
	l, err := instance.Listen(g.stateDirs...)
	if err != nil {
		g.log.Info("gateway status and gateway reload cannot find this gateway; they need its admin address", zap.Error(err))
		return
	}
	srv := &http.Server{
		Handler:     requestid.Handler(admin.NewLocal(g.withHealth(admin.Options{Reload: g.handleReload, Status: g.handleStatus, LogLevel: g.loggerLevel, LevelChanging: g.logLevelChanging}, reasonForOperator))),
		ReadTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: g.errorLog(),
	}
	g.group.Go(func() error { return ignoreClosed(srv.Serve(l)) })
	g.group.Go(func() error {
		<-life.Done()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx) // a reload that is answered now may end
		return ignoreClosed(srv.Close())
	})
}
