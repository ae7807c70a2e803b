package protocol

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// WithTrace returns params whose _meta has a trace context, in the place of any other (SEP-414). It
// returns params that are not an object, or whose _meta is not one, as they are.
func WithTrace(params wire.Raw, t *call.TraceContext) wire.Raw {
	if params == nil {
		params = wire.Raw(`{}`)
	}
	e := wire.NewEdit(params)
	meta := e.Root().Get("_meta")
	if e.Root().Kind() != '{' || meta.Exists() && meta.Kind() != '{' {
		return params
	}
	own := wire.Raw(`{}`)
	for _, m := range []struct{ name, value string }{
		{wire.MetaTraceparent, t.Traceparent}, {wire.MetaTracestate, t.Tracestate}, {wire.MetaBaggage, t.Baggage},
	} {
		switch {
		case !meta.Exists() && m.value != "":
			own = wire.SetMember(own, m.name, wire.String(m.value))
		case m.value != "":
			e.Set(meta, m.name, wire.String(m.value))
		case meta.Exists():
			e.Remove(meta, m.name)
		}
	}
	if !meta.Exists() {
		e.Set(e.Root(), "_meta", own)
	}
	return e.Bytes()
}
