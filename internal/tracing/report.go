package tracing

import (
	"context"
	"errors"
	"sync"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"mcpgateway/internal/plaintext"
)

// maxReason bounds the text of an error, which may quote the answer of a collector, in bytes.
const maxReason = 512

// health reports when the export of one signal begins to fail, and when it works again.
type health struct {
	signal     string
	onError    func(string, error)
	onRecovery func(string, int)

	mu     sync.Mutex
	failed int // exports in a row
}

func (o *Options) health(signal string) *health {
	return &health{signal: signal, onError: o.OnError, onRecovery: o.OnRecovery}
}

// ended takes the result of an export.
func (h *health) ended(err error) {
	h.mu.Lock()
	before := h.failed
	if h.failed++; err == nil {
		h.failed = 0
	}
	h.mu.Unlock()
	switch {
	case err != nil && before == 0:
		h.onError(h.signal, errors.New(plaintext.Clip(err.Error(), maxReason)))
	case err == nil && before > 0:
		h.onRecovery(h.signal, before)
	}
}

// The exporters below report their errors themselves: the SDK would hand them to one handler of
// the whole process.

type reportingSpans struct {
	sdktrace.SpanExporter
	health *health
}

func (r reportingSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	r.health.ended(r.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

type reportingMetrics struct {
	metric.Exporter
	health *health
}

func (r reportingMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	r.health.ended(r.Exporter.Export(ctx, m))
	return nil
}

type reportingLogs struct {
	sdklog.Exporter
	health *health
}

func (r reportingLogs) Export(ctx context.Context, records []sdklog.Record) error {
	r.health.ended(r.Exporter.Export(ctx, records))
	return nil
}
