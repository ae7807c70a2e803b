package park

import (
	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// startTrace gives the call a separate trace, because the call outlives its first request.
func (k *parkable) startTrace() {
	k.trace.Follow(k.call.Trace)
	k.call.Trace = &k.trace
}

// continueTrace links the span of a retry with that of the call which its state names, and names the item,
// which is that of the call, and the request that began the call.
func continueTrace(retry *call.Call, st bridge.State) {
	retry.Trace.Continue(st.Trace)
	if retry.Trace != nil {
		retry.Trace.First = st.Request
	}
	if m := wire.MethodOf(retry.Method); retry.Trace.Span() != nil && m.Member == "name" { // a URI may be an argument
		retry.Trace.Resumed = wire.ValueOf(retry.Params).Get(m.Member).Str()
	}
}

// linkPause links the span of the pause with that of the retry that ends it, which is nil if another replica
// got the retry. The caller holds mu.
func (k *parkable) linkPause(retry call.Span) {
	if k.pause.Span != nil && retry != nil {
		k.pause.Span.Link(retry.Context())
	}
}
