package gateway

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/mask"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/tracing"
)

// flushTimeout bounds how long the end of the gateway waits for the collector.
const flushTimeout = 5 * time.Second

// newExporter returns the exporter of telemetry.otlp, nil if there is none. A verb that serves its
// own process exports nothing.
func newExporter(o *Options, secrets *mask.Secrets, metrics prometheus.Gatherer, instance string, slow func() time.Duration) (*tracing.Exporter, error) {
	c := &o.Config.Telemetry.OTLP
	if c.Endpoint == "" || o.InProcess {
		return nil, nil
	}
	headers := make(map[string]string, len(c.Headers))
	for name, value := range c.Headers {
		headers[name] = value.Reveal()
	}
	// Lines about the exporter are not exported.
	own := o.Logger.WithOptions(zap.WrapCore(secrets.WrapCore))
	protected, err := collectorTLS(c, own)
	if err != nil {
		return nil, err
	}
	log := ratelog.New(own)
	return tracing.New(tracing.Options{
		Endpoint: c.Endpoint, Protocol: string(c.Protocol), Headers: headers, TLS: protected, Sample: c.Sample,
		Traces: c.Has(config.SignalTraces), Metrics: c.Has(config.SignalMetrics), Logs: c.Has(config.SignalLogs),
		Slow: slow, Version: o.Version, Instance: instance, Gatherer: metrics,
		OnError: func(signal string, err error) {
			log.Warn("telemetry cannot be exported", zap.String("signal", signal), zap.Error(err))
		},
		OnRecovery: func(signal string, failed int) {
			log.Info("telemetry is exported again", zap.String("signal", signal), zap.Int("failed", failed))
		},
	})
}

// collectorTLS returns the configuration of TLS toward the collector, nil if the authorities of the
// system are enough. New files of the gateway's own certificate are used from the next handshake
// on, those of the authorities after a restart.
func collectorTLS(c *config.OTLP, log *zap.Logger) (*tls.Config, error) {
	if c.TLS == (config.ClientTLS{}) {
		return nil, nil
	}
	files := filesToward("telemetry.otlp.tls", c.TLS, log.Named("otlp"))
	first, err := files.Get()
	if err != nil {
		return nil, err
	}
	out := first.Clone()
	if out.Certificates != nil {
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			now, err := files.Get()
			if err != nil {
				return nil, err
			}
			return &now.Certificates[0], nil
		}
	}
	return out, nil
}

// tracer returns the tracer of calls, nil if calls are not traced.
func (g *Gateway) tracer() call.Tracer {
	if g.exporter == nil || g.exporter.Tracer() == nil {
		return nil // and not an interface that holds nil
	}
	return g.exporter.Tracer()
}

// stopExporter exports what is left.
func (g *Gateway) stopExporter() {
	if g.exporter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	_ = g.exporter.Shutdown(ctx) // what cannot be exported is logged
}
