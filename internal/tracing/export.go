package tracing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelzap"
	prombridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
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
	// Traces, Metrics and Logs say what is exported.
	Traces, Metrics, Logs bool
	Sample                float64              // the ratio of traces that begin here and are exported
	Slow                  func() time.Duration // calls that take as long are exported; 0 is none
	Version, Instance     string               // of the gateway
	Gatherer              prometheus.Gatherer  // of the metrics
	// OnError is called when something cannot be exported: "traces", "metrics" or "logs". Its calls
	// may overlap.
	OnError func(what string, err error)
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
	for _, begin := range []func(context.Context, *Options, *resource.Resource) error{e.beginTraces, e.beginMetrics, e.beginLogs} {
		if err := begin(ctx, &o, res); err != nil {
			return nil, errors.Join(err, e.Shutdown(ctx))
		}
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
	batch := sdktrace.NewBatchSpanProcessor(reportingSpans{to, o.OnError})
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
	from := prombridge.NewMetricProducer(prombridge.WithGatherer(o.Gatherer))
	provider := metric.NewMeterProvider(metric.WithResource(res), metric.WithReader(metric.NewPeriodicReader(reportingMetrics{to, o.OnError}, metric.WithProducer(from))))
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
	e.logs = sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewBatchProcessor(reportingLogs{to, o.OnError})))
	e.stops = append(e.stops, e.logs.Shutdown)
	return nil
}

// The exporters below report their errors themselves: the SDK would hand them to one handler of
// the whole process.

type reportingSpans struct {
	sdktrace.SpanExporter
	report func(string, error)
}

func (r reportingSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := r.SpanExporter.ExportSpans(ctx, spans); err != nil {
		r.report("traces", err)
	}
	return nil
}

type reportingMetrics struct {
	metric.Exporter
	report func(string, error)
}

func (r reportingMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if err := r.Exporter.Export(ctx, m); err != nil {
		r.report("metrics", err)
	}
	return nil
}

type reportingLogs struct {
	sdklog.Exporter
	report func(string, error)
}

func (r reportingLogs) Export(ctx context.Context, records []sdklog.Record) error {
	if err := r.Exporter.Export(ctx, records); err != nil {
		r.report("logs", err)
	}
	return nil
}
