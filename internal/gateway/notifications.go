package gateway

import (
	"context"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// Notified implements upstream.Observer. A notification in the session of a client or a
// principal goes to it alone.
func (g *Gateway) Notified(from upstream.Origin, method string, params wire.Raw) {
	to := frontend.Audience{Principal: from.Principal}
	if from.Client != nil {
		to.Client = from.Client.Key
	}
	if wire.MethodOf(method).Kind == wire.KindListChanged {
		g.front.Notify(to, method, nil)
	} else if take := upstreamNotifications[method]; take != nil {
		take(g, from, to, params)
	}
}

// upstreamNotifications are the other notifications that an upstream may send outside of
// calls.
var upstreamNotifications = map[string]func(g *Gateway, from upstream.Origin, to frontend.Audience, params wire.Raw){
	wire.NoteResourceUpdated: func(g *Gateway, from upstream.Origin, _ frontend.Audience, params wire.Raw) {
		g.subscriptions.Updated(from.Upstream, from.Session, params)
	},
	wire.NoteElicitComplete: func(g *Gateway, from upstream.Origin, _ frontend.Audience, params wire.Raw) {
		g.elicitationCompleted(from.Upstream, from.Session, params)
	},
	wire.NoteTaskStatus: func(g *Gateway, from upstream.Origin, _ frontend.Audience, params wire.Raw) {
		if client, translated, ok := g.router.TaskStatus(from.Upstream, from.Session, params); ok {
			g.front.Notify(frontend.Audience{Client: client}, wire.NoteTaskStatus, translated)
		}
	},
	wire.NoteMessage: (*Gateway).upstreamMessage,
}

// upstreamMessage takes a log message outside of calls. In a shared session it goes to the
// gateway's log: no client is known that may see it. Its data is left out, since it may
// contain what a user sent.
func (g *Gateway) upstreamMessage(from upstream.Origin, to frontend.Audience, params wire.Raw) {
	if to != (frontend.Audience{}) {
		g.front.Notify(to, wire.NoteMessage, params)
		return
	}
	p := wire.ValueOf(params)
	g.log.Debug("upstream log message", zap.String("upstream", from.Upstream),
		zap.String("level", plaintext.Clip(p.Get("level").Str(), maxLogField)), zap.String("logger", plaintext.Clip(p.Get("logger").Str(), maxLogField)))
}

// maxLogField bounds a text of an upstream in a field of the log.
const maxLogField = 64

// Client implements upstream.Outside.
func (g *Gateway) Client(from upstream.Origin, c *call.Client) *call.Call {
	back := g.router.OutsideBackChannel(from.Upstream, from.Session, from.Who, c, clientBackChannel{g.front, c})
	if back == nil {
		return nil
	}
	return &call.Call{Client: c, Principal: from.Who, Session: from.Session, Back: back}
}

// Task implements upstream.Outside.
func (g *Gateway) Task(from upstream.Origin, id string) *call.Call {
	return g.router.TaskCall(from.Upstream, from.Session, id, func(c *call.Client) call.BackChannel { return clientBackChannel{g.front, c} })
}

// clientBackChannel is the back channel to a legacy client outside of its calls.
type clientBackChannel struct {
	front  *frontend.Server
	client *call.Client
}

// Notify implements call.BackChannel.
func (b clientBackChannel) Notify(method string, params wire.Raw) {
	b.front.Notify(frontend.Audience{Client: b.client.Key}, method, params)
}

// Ask implements call.BackChannel.
func (b clientBackChannel) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	return b.front.Ask(ctx, b.client, method, params)
}

// sessionEnded closes the upstream sessions of a client whose session has ended.
func (g *Gateway) sessionEnded(client string) {
	for conn := range g.generation.Load().connections() {
		conn.sessions.EndClient(client)
	}
}

// rootsChanged notifies the upstreams that know the roots of a client.
func (g *Gateway) rootsChanged(c *call.Client, principal string) {
	for conn := range g.generation.Load().connections() {
		conn.sessions.RootsChanged(c, principal)
	}
}
