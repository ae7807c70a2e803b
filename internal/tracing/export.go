package tracing

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelzap"
	prombridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap/zapcore"
)

// Options configure an [Exporter].
type Options struct {
	// Endpoint is the URL of the collector, and Protocol "grpc" or "http". Over HTTP the paths
	// /v1/traces, /v1/metrics and /v1/logs are appended.
	Endpoint, Protocol string
	Headers            map[string]string // of every request
	TLS                *tls.Config       // for an endpoint with https; nil trusts the authorities of the system
	// Traces, Metrics and Logs say what is exported.
	Traces, Metrics, Logs bool
	Sample                float64              // the ratio of traces that begin here and are exported
	Slow                  func() time.Duration // calls that take as long are exported; 0 is none
	Version, Instance     string               // of the gateway
	Gatherer              prometheus.Gatherer  // of the metrics
	// OnError is called when a signal, "traces", "metrics" or "logs", cannot be exported any more,
	// and OnRecovery when it can again. failed is the number of exports that failed in between. Calls
	// for several signals may overlap.
	OnError    func(signal string, err error)
	OnRecovery func(signal string, failed int)

	client *http.Client // nil over gRPC
}

// Exporter sends telemetry to a collector. Its goroutines end with [Exporter.Shutdown].
type Exporter struct {
	tracer *Tracer                // nil without traces
	logs   *sdklog.LoggerProvider // nil without logs
	stops  []func(context.Context) error
}

// New returns an exporter. It does not wait for the collector.
func New(o Options) (*Exporter, error) {
	ctx := context.Background()
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "mcpgateway"), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Instance)),
		resource.WithFromEnv(), // OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	e := new(Exporter)
	if o.overHTTP() {
		o.client = newHTTPClient(o.TLS)
	}
	for _, begin := range []func(context.Context, *Options, *resource.Resource) error{e.beginTraces, e.beginMetrics, e.beginLogs} {
		if err := begin(ctx, &o, res); err != nil {
			return nil, errors.Join(err, e.Shutdown(ctx))
		}
	}
	if o.client != nil {
		e.stops = append(e.stops, func(context.Context) error { o.client.CloseIdleConnections(); return nil })
	}
	return e, nil
}

// Tracer returns the tracer of calls, nil if traces are not exported.
func (e *Exporter) Tracer() *Tracer { return e.tracer }

// Shutdown exports what is left, until ctx ends, and ends all goroutines.
func (e *Exporter) Shutdown(ctx context.Context) error {
	var errs []error
	for _, stop := range e.stops {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}

// WrapCore returns a core that exports the entries that it writes to c. It is c if log lines are
// not exported. Use it with [go.uber.org/zap.WrapCore].
func (e *Exporter) WrapCore(c zapcore.Core) zapcore.Core {
	if e.logs == nil {
		return c
	}
	out, err := zapcore.NewIncreaseLevelCore(otelzap.NewCore(scope, otelzap.WithLoggerProvider(e.logs)), c)
	if err != nil { // a core that is enabled at no level says so
		return c
	}
	return zapcore.NewTee(c, out)
}

func (e *Exporter) beginTraces(ctx context.Context, o *Options, res *resource.Resource) error {
	if !o.Traces {
		return nil
	}
	to, err := newTraceExporter(ctx, o)
	if err != nil {
		return err
	}
	batch := sdktrace.NewBatchSpanProcessor(reportingSpans{to, o.health("traces")})
	e.stops = append(e.stops, batch.Shutdown)
	e.tracer = newTracer(o.Sample, res, o.Slow, batch.OnEnd)
	return nil
}

func (e *Exporter) beginMetrics(ctx context.Context, o *Options, res *resource.Resource) error {
	if !o.Metrics {
		return nil
	}
	to, err := newMetricExporter(ctx, o)
	if err != nil {
		return err
	}
	from := completed{prombridge.NewMetricProducer(prombridge.WithGatherer(o.Gatherer))}
	provider := metric.NewMeterProvider(metric.WithResource(res), metric.WithReader(metric.NewPeriodicReader(reportingMetrics{to, o.health("metrics")}, metric.WithProducer(from))))
	e.stops = append(e.stops, provider.Shutdown)
	return nil
}

func (e *Exporter) beginLogs(ctx context.Context, o *Options, res *resource.Resource) error {
	if !o.Logs {
		return nil
	}
	to, err := newLogExporter(ctx, o)
	if err != nil {
		return err
	}
	e.logs = sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(withTraces{sdklog.NewBatchProcessor(reportingLogs{to, o.health("logs")})}))
	e.stops = append(e.stops, e.logs.Shutdown)
	return nil
}
