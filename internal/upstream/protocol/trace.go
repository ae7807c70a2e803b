package protocol

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Traced returns the call that is sent in a stage: a copy with the trace context of the stage, or c itself if calls are not
// traced.
func Traced(c *call.Call, stage *call.Timer) *call.Call {
	at := stage.Context()
	if at == nil {
		return c
	}
	traced := *c // another attempt may still use c
	traced.TraceContext, traced.Params = at, WithTrace(c.Params, at)
	return &traced
}

// WithTrace returns params whose _meta has a trace context, in the place of any other (SEP-414). It
// returns params that are not an object, or whose _meta is not one, as they are.
func WithTrace(params wire.Raw, t *call.TraceContext) wire.Raw {
	if params == nil {
		params = wire.Raw(`{}`)
	}
	e := wire.NewEdit(params)
	root := e.Root()
	meta := root.Get("_meta")
	if root.Kind() != '{' || meta.Exists() && meta.Kind() != '{' {
		return params
	}
	members := [...]struct{ name, value string }{
		{wire.MetaTraceparent, t.Traceparent}, {wire.MetaTracestate, t.Tracestate}, {wire.MetaBaggage, t.Baggage},
	}
	if !meta.Exists() {
		own := append(make(wire.Raw, 0, 128+len(t.Tracestate)+len(t.Baggage)), '{')
		for _, m := range members {
			if m.value == "" {
				continue
			}
			if len(own) > 1 {
				own = append(own, ',')
			}
			own = wire.AppendString(append(wire.AppendString(own, m.name), ':'), m.value)
		}
		e.Add(root, "_meta", append(own, '}'))
		return e.Bytes()
	}
	for _, m := range members {
		if m.value != "" {
			e.Set(meta, m.name, wire.String(m.value))
		} else {
			e.Remove(meta, m.name)
		}
	}
	return e.Bytes()
}
