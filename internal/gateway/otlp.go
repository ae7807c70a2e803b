package gateway

import (
	"context"
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
	log := ratelog.New(o.Logger.WithOptions(zap.WrapCore(secrets.WrapCore)))
	return tracing.New(tracing.Options{
		Endpoint: c.Endpoint, Protocol: string(c.Protocol), Headers: headers, Sample: c.Sample,
		Traces: c.Has(config.SignalTraces), Metrics: c.Has(config.SignalMetrics), Logs: c.Has(config.SignalLogs),
		Slow: slow, Version: o.Version, Instance: instance, Gatherer: metrics,
		OnError: func(what string, err error) {
			log.Warn("telemetry cannot be exported", zap.String("signal", what), zap.Error(err))
		},
	})
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
