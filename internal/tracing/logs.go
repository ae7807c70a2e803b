package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"
)

// traceField is the field of log lines with the id of a trace.
const traceField = "trace_id"

// withTraces gives log records the trace that their field trace_id names, so that the collector
// finds the lines of a trace.
type withTraces struct{ sdklog.Processor }

// OnEmit implements sdklog.Processor.
func (p withTraces) OnEmit(ctx context.Context, r *sdklog.Record) error {
	r.WalkAttributes(func(a attribute.KeyValue) bool {
		if a.Key != traceField {
			return true
		}
		if id, err := trace.TraceIDFromHex(a.Value.AsString()); err == nil {
			r.SetTraceID(id)
		}
		return false
	})
	return p.Processor.OnEmit(ctx, r)
}
