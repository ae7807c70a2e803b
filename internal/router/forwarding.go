package router

import (
	"context"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// forwarding is one request on its way from a client to an upstream and back. The
// stages of the pipeline fill it in, in their order.
type forwarding struct {
	ctx    context.Context // of the request, once it runs
	router *Router
	call   *call.Call // as the client sent it
	method *wire.Method
	log    logFields
	// routes are those that were current when the request was resolved; view is what
	// the caller sees of them.
	routes *Routes
	view   *catalog.View
	ref    namespace.ItemRef // the item that the client named
	target catalog.Target    // what it resolved to; its Part is nil before
	task   *knownTask        // the task that the request is about, nil for none

	decision   policy.Decision
	authorized bool
	state      *bridge.State // of the round that the call continues, nil for none
	consented  bool          // the user has confirmed the call
	// reservation is the call's share of limits, nil for none.
	reservation *reservation

	upstream Upstream
	down     *call.Call  // as the upstream gets it, under native names
	back     backChannel // to the client, for what comes before the answer
	asks     unansweredAsks
	sent     bool       // the upstream was reached, so that errors may be its own
	used     *usedItems // by the inner calls of an own item, nil for none
	result   call.Result
}

// newForwarding returns the forwarding of a call that is not resolved yet.
func (r *Router) newForwarding(c *call.Call) *forwarding {
	return &forwarding{ctx: context.Background(), router: r, call: c, method: wire.MethodOf(c.Method)}
}

// space returns the names of the upstream.
func (f *forwarding) space() *namespace.Naming { return f.target.Part.Naming() }

// upstreamName returns the name of the upstream, "" while there is none.
func (f *forwarding) upstreamName() string {
	if f.target.Part == nil {
		return ""
	}
	return f.target.Part.Upstream()
}

// itemMethod returns the method of the call that used the item: that of the request, or
// tools/call if the request is about a task.
func (f *forwarding) itemMethod() string {
	if f.task != nil {
		return call.Tool.Method()
	}
	return f.call.Method
}

// session returns the session with the upstream, once openBackChannel was called.
func (f *forwarding) session() string { return f.back.session }

// openBackChannel prepares the way from the upstream, in this session, to the client.
func (f *forwarding) openBackChannel(session string) *backChannel {
	f.back = backChannel{
		asker: asker{f.router, f.routes, f.target.Part, session, f.call.Client},
		to:    f.call.Back, principal: f.call.Principal, reservation: f.reservation, trace: f.call.Trace, asks: &f.asks,
	}
	return &f.back
}
