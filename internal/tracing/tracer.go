package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// scope names the instrumentation in what is exported.
const scope = "mcpgateway"

// maxSpans bounds the spans of one call, with those of the calls that it makes.
const maxSpans = 256

// Tracer implements [call.Tracer].
type Tracer struct {
	ratio    sdktrace.Sampler // of traces that begin here
	resource *resource.Resource
	exports  func(sdktrace.ReadOnlySpan)
	slow     func() time.Duration
}

// newTracer returns a tracer. It samples the ratio of the traces that begin here, exports kept
// spans with export, and keeps calls that take as long as slow returns; 0 keeps none.
func newTracer(ratio float64, res *resource.Resource, slow func() time.Duration, export func(sdktrace.ReadOnlySpan)) *Tracer {
	return &Tracer{ratio: sdktrace.TraceIDRatioBased(ratio), resource: res, exports: export, slow: slow}
}

// Begin implements [call.Tracer].
func (t *Tracer) Begin(c *call.Call, method string, parent call.Span, at time.Time) call.Span {
	if p, ok := parent.(*span); ok {
		s, ok := p.under(at)
		if ok {
			s.kind, s.method = trace.SpanKindInternal, method
			s.call = new(infoOf(c))
		}
		return s
	}
	r := &record{tracer: t, rootCall: infoOf(c)}
	s := r.add()
	s.record, s.id, s.begin, s.kind, s.method, s.call = r, newSpanID(), at, trace.SpanKindServer, method, &r.rootCall
	r.begin(c, s)
	return s
}

// begin decides which trace the record belongs to, and what upstreams are told of it. root is its first
// span. The decision of the client holds, and the ratio for traces that begin here.
func (r *record) begin(c *call.Call, root *span) {
	var headers *call.TraceContext
	if c.Trace != nil {
		headers = c.Trace.Incoming
	}
	meta := contextIn(c.Params)
	parent, transport := parse(meta), parse(headers)
	if r.baggage = cleanBaggage(meta); r.baggage == "" {
		r.baggage = cleanBaggage(headers)
	}
	switch {
	case !parent.IsValid():
		parent = transport
	case transport.IsValid() && !transport.Equal(parent):
		root.links = append(root.links, transport)
	}
	if parent.IsValid() {
		r.trace, r.flags, r.state = parent.TraceID(), parent.TraceFlags(), parent.TraceState()
		root.parent, root.remote = parent.SpanID(), true
		return
	}
	r.trace = newTraceID()
	decision := r.tracer.ratio.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: r.trace})
	r.flags = r.flags.WithSampled(decision.Decision == sdktrace.RecordAndSample)
}

// infoOf returns what is known of a call when it begins.
func infoOf(c *call.Call) callInfo {
	info := callInfo{request: c.ID, profile: c.Principal.Profile, overHTTP: c.Remote != ""}
	if c.Trace != nil {
		info.message = c.Trace.Message.String()
	}
	if c.Client.Era() != wire.EraUnknown { // otherwise the client may have invented it
		info.revision = c.Client.Revision
	}
	return info
}
