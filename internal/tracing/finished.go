package tracing

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// finished is a span that is exported. It implements every method of sdktrace.ReadOnlySpan that can be
// called from outside of the SDK; the embedded interface is nil, and has the others.
type finished struct {
	sdktrace.ReadOnlySpan
	*span
	attrs   []attribute.KeyValue
	dropped int // spans that the call had besides
	links   []sdktrace.Link
	failed  bool
}

// finished returns the span for the exporter. The caller holds the mutex of the record.
func (s *span) finished() *finished {
	f := &finished{span: s}
	if s.isRoot() {
		f.dropped = s.record.dropped
	}
	for _, to := range s.links {
		f.links = append(f.links, sdktrace.Link{SpanContext: to})
	}
	f.attrs, f.failed = s.attributes()
	if f.dropped > 0 {
		f.attrs = append(f.attrs, attrDropped.Int(f.dropped))
	}
	return f
}

// Name implements sdktrace.ReadOnlySpan.
func (f *finished) Name() string { return f.name() }

// SpanContext implements sdktrace.ReadOnlySpan. Exporters skip spans of traces that are not sampled.
func (f *finished) SpanContext() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: f.record.trace, SpanID: f.id, TraceFlags: f.record.flags | trace.FlagsSampled, TraceState: f.record.state,
	})
}

// Parent implements sdktrace.ReadOnlySpan.
func (f *finished) Parent() trace.SpanContext {
	if !f.parent.IsValid() {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: f.record.trace, SpanID: f.parent, TraceFlags: f.record.flags, TraceState: f.record.state, Remote: f.remote,
	})
}

// SpanKind implements sdktrace.ReadOnlySpan.
func (f *finished) SpanKind() trace.SpanKind { return f.kind }

// StartTime implements sdktrace.ReadOnlySpan.
func (f *finished) StartTime() time.Time { return f.begin }

// EndTime implements sdktrace.ReadOnlySpan.
func (f *finished) EndTime() time.Time { return f.begin.Add(f.took) }

// Attributes implements sdktrace.ReadOnlySpan.
func (f *finished) Attributes() []attribute.KeyValue { return f.attrs }

// Links implements sdktrace.ReadOnlySpan.
func (f *finished) Links() []sdktrace.Link { return f.links }

// Events implements sdktrace.ReadOnlySpan.
func (f *finished) Events() []sdktrace.Event { return nil }

// Status implements sdktrace.ReadOnlySpan. It has no description: the message may have arguments.
func (f *finished) Status() sdktrace.Status {
	if f.failed {
		return sdktrace.Status{Code: codes.Error}
	}
	return sdktrace.Status{}
}

// InstrumentationScope implements sdktrace.ReadOnlySpan.
func (f *finished) InstrumentationScope() instrumentation.Scope {
	return instrumentation.Scope{Name: scope}
}

// InstrumentationLibrary implements sdktrace.ReadOnlySpan.
func (f *finished) InstrumentationLibrary() instrumentation.Scope { return f.InstrumentationScope() }

// Resource implements sdktrace.ReadOnlySpan.
func (f *finished) Resource() *resource.Resource { return f.record.tracer.resource }

// DroppedAttributes implements sdktrace.ReadOnlySpan.
func (f *finished) DroppedAttributes() int { return 0 }

// DroppedLinks implements sdktrace.ReadOnlySpan.
func (f *finished) DroppedLinks() int { return 0 }

// DroppedEvents implements sdktrace.ReadOnlySpan.
func (f *finished) DroppedEvents() int { return 0 }

// ChildSpanCount implements sdktrace.ReadOnlySpan.
func (f *finished) ChildSpanCount() int { return 0 }
