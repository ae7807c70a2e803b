package tracing

import (
	"context"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// maxBaggage bounds the baggage that is passed on (W3C Baggage, "Limits").
const maxBaggage = 8192

// remoteContext returns the context whose span is the parent of a call, the context of the headers
// if that is another one, and the baggage that is passed on. That of _meta wins.
func remoteContext(c *call.Call) (ctx context.Context, other trace.SpanContext, bag string) {
	var headers *call.TraceContext
	if c.Trace != nil {
		headers = c.Trace.Incoming
	}
	meta := contextIn(c.Params)
	parent, transport := parse(meta), parse(headers)
	if bag = cleanBaggage(meta); bag == "" {
		bag = cleanBaggage(headers)
	}
	switch {
	case !parent.IsValid():
		parent = transport
	case transport.IsValid() && !transport.Equal(parent):
		other = transport
	}
	return trace.ContextWithRemoteSpanContext(context.Background(), parent), other, bag
}

// contextIn returns the trace context in the _meta of params, nil if there is none.
func contextIn(params wire.Raw) *call.TraceContext {
	if params == nil {
		return nil
	}
	var found call.TraceContext
	for m := range wire.ValueOf(params).Get("_meta").Members() {
		switch {
		case m.Is(wire.MetaTraceparent):
			found.Traceparent = m.Value.Str()
		case m.Is(wire.MetaTracestate):
			found.Tracestate = m.Value.Str()
		case m.Is(wire.MetaBaggage):
			found.Baggage = m.Value.Str()
		}
	}
	if found == (call.TraceContext{}) {
		return nil
	}
	return &found
}

// parse returns the span that a trace context names. It is not valid if the context is nil or
// malformed; a malformed tracestate is ignored.
func parse(c *call.TraceContext) trace.SpanContext {
	if c == nil || c.Traceparent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": c.Traceparent, "tracestate": c.Tracestate}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// cleanBaggage returns the baggage of a context in a form that fits into a header, "" if there is
// none or if it is malformed.
func cleanBaggage(c *call.TraceContext) string {
	if c == nil || c.Baggage == "" || len(c.Baggage) > maxBaggage {
		return ""
	}
	b, err := baggage.Parse(c.Baggage)
	if err != nil {
		return ""
	}
	return b.String()
}
