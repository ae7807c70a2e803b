package gateway

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/plaintext"
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

// CheckAudit returns why a gateway with this configuration does not start: its audit cannot be written.
func CheckAudit(cfg *config.Config) error {
	if cfg.Telemetry.Audit.File == "" {
		return nil
	}
	return telemetry.CheckAuditFile(cfg.Telemetry.Audit.File)
}

// notReady returns why the gateway must not get traffic, one sentence each. While the audit
// cannot be written, it tries again: without calls nothing else would.
func (g *Gateway) notReady(why reasonFunc) []string {
	waiting := g.waitingFor(why)
	if g.audit == nil || g.audit.Failure() == nil {
		return waiting
	}
	line := plaintext.AppendTime([]byte(`{"time":"`), time.Now())
	if err := g.audit.Before(append(line, `","event":"restored"}`+"\n"...)); err != nil {
		waiting = append(waiting, "the audit cannot be written, and calls are refused: "+err.Error())
	}
	return waiting
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
