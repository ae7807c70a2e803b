package gateway

import (
	"fmt"
	"os"

	"go.uber.org/zap"

	"mcpgateway/internal/router"
	"mcpgateway/internal/telemetry"
)

// newAudit makes the audit of decisions and calls, nil if none is configured. If standard
// output carries messages, an audit to standard output goes to standard error instead.
func (g *Gateway) newAudit() *router.Audit {
	cfg := g.cfg.Telemetry.Audit
	if cfg.File == "" {
		return nil
	}
	o := telemetry.AuditOptions{
		File: cfg.File, MaxBytes: int64(cfg.MaxSize), MaxFiles: cfg.MaxFiles, Sync: cfg.Sync, Logger: g.log, Metrics: telemetry.NewAuditMetrics(),
	}
	if g.stdio {
		o.Stdout = os.Stderr
	}
	g.audit = telemetry.NewAudit(o)
	g.registry.MustRegister(o.Metrics.Collectors()...)
	a := &router.Audit{To: g.audit, Arguments: cfg.Arguments}
	for _, path := range cfg.Redact {
		a.Redact = append(a.Redact, router.ParsePath(path))
	}
	return a
}

// openAudit opens the audit, so that a gateway that serves clients knows from the start
// that it can be written. A gateway that serves no clients does not open it.
func (g *Gateway) openAudit() error {
	if g.audit == nil {
		return nil
	}
	if err := g.audit.Open(); err != nil {
		return fmt.Errorf("telemetry.audit.file: %w; the gateway does not serve without its audit", err)
	}
	return nil
}

// closeAudit closes the audit. A later line opens it again.
func (g *Gateway) closeAudit() {
	if g.audit == nil {
		return
	}
	if err := g.audit.Close(); err != nil {
		g.log.Error("the audit is not complete", zap.Error(err))
	}
}
