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
	return new(found) // a copy, so that no context costs no memory
}

// parse returns the span that a trace context names. It is not valid if the context is nil or
// malformed; a malformed tracestate is ignored.
func parse(c *call.TraceContext) trace.SpanContext {
	if c == nil || c.Traceparent == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), (*carrier)(c)))
}

// carrier implements propagation.TextMapCarrier.
type carrier call.TraceContext

// Get implements propagation.TextMapCarrier.
func (c *carrier) Get(key string) string {
	switch key {
	case "traceparent":
		return c.Traceparent
	case "tracestate":
		return c.Tracestate
	default:
		return ""
	}
}

// Set implements propagation.TextMapCarrier. Nothing is written with a carrier.
func (c *carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (c *carrier) Keys() []string { return []string{"traceparent", "tracestate"} }

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
