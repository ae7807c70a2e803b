package gateway

import (
	"encoding/json"

	"golang.org/x/time/rate"

	"mcpgateway/internal/frontend"
	"mcpgateway/internal/wire"
)

// kindElicited is the kind of the notes about URL elicitations that an upstream says are completed.
const kindElicited = "elicited"

// Bounds of these notes, which an upstream may cause at will.
const (
	maxElicitationID = 1 << 10
	elicitedRate     = 100 // a second
)

// elicitedNote is a note about a URL elicitation.
type elicitedNote struct {
	Upstream string `json:"upstream"`
	Session  string `json:"session"`
	ID       string `json:"id"`
}

func newElicitedLimit() *rate.Limiter { return rate.NewLimiter(elicitedRate, elicitedRate) }

// elicitationCompleted notifies the client that was asked to open a URL. If this replica has not
// asked it, another one may have: each replica has a session of its own with an upstream.
func (g *Gateway) elicitationCompleted(upstream, session string, params wire.Raw) {
	if g.notifyElicited(upstream, session, params) || g.sharing == nil {
		return
	}
	id := wire.ValueOf(params).Get("elicitationId").Str()
	if id == "" || len(id) > maxElicitationID || !g.sharing.elicited.Allow() {
		return
	}
	note, err := json.Marshal(elicitedNote{upstream, session, id})
	if err == nil {
		g.sharing.replicas.Tell(kindElicited, note)
	}
}

// notifyElicited reports whether this replica has asked the client.
func (g *Gateway) notifyElicited(upstream, session string, params wire.Raw) bool {
	client, own, ok := g.router.ElicitationCompleted(upstream, session, params)
	if ok {
		g.front.Notify(frontend.Audience{Client: client}, wire.NoteElicitComplete, own)
	}
	return ok
}

// heardElicited takes a note of another replica.
func (g *Gateway) heardElicited(note []byte) {
	var n elicitedNote
	if json.Unmarshal(note, &n) == nil {
		g.notifyElicited(n.Upstream, n.Session, wire.SetMember(wire.Raw(`{}`), "elicitationId", wire.String(n.ID)))
	}
}
