package park

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// startTrace gives the call a trace of its own: it outlives its first request.
func (k *parkable) startTrace() {
	k.trace.Follow(k.call.Trace)
	k.call.Trace = &k.trace
}

// linkTrace links the spans of the parked call and of the retry that resumes it, and names the item of
// the call. The caller holds mu.
func (k *parkable) linkTrace(retry *call.Trace) {
	call, resumed := k.trace.Span(), retry.Span()
	if call == nil || resumed == nil {
		return
	}
	resumed.Link(call.Context())
	if m := wire.MethodOf(k.call.Method); m.Member == "name" { // a URI may be an argument
		retry.Resumed = wire.ValueOf(k.call.Params).Get(m.Member).Str()
	}
	if k.pause.Span != nil {
		k.pause.Span.Link(resumed.Context())
	}
}
