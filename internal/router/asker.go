package router

import (
	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/enrich"
	"mcpgateway/internal/wire"
)

// asker puts the questions of an upstream, in one session with it, into the form in which
// a client sees them.
type asker struct {
	router  *Router
	routes  *Routes // of the call
	part    *catalog.Part
	session string
	client  *call.Client
}

// errUnclear is the answer in place of a question that can be read in two ways.
var errUnclear = wire.Errorf(wire.CodeInternal, "the upstream asked a question that has a member twice")

// shown returns the params of a question as the client sees them: under public names,
// sanitized, and with the name of the upstream.
func (a *asker) shown(method string, params wire.Raw) wire.Raw {
	params, taken := a.part.Rules().Sanitize.Request(method, params)
	a.router.metrics.countSanitized(a.part.Upstream(), taken)
	params = bridge.WithoutContext(method, params)
	if a.routes.Table.Enriches() {
		params = enrich.RequestAnnotations(method, params)
	}
	if !a.routes.Bridge.Unlabeled {
		params = bridge.LabelUpstream(a.part.Upstream(), method, params)
	}
	if method == wire.MethodElicit && isURL(params) {
		params = a.ownID(params)
	}
	return params
}

// ownID gives a URL elicitation an id of the client's own. Legacy clients need one, modern
// ones do not know it.
func (a *asker) ownID(params wire.Raw) wire.Raw {
	e := wire.NewEdit(params)
	id := e.Root().Get("elicitationId")
	if a.client.Era() == wire.EraModern {
		if !id.Exists() {
			return params
		}
		e.Remove(e.Root(), "elicitationId")
		return e.Bytes()
	}
	public := a.router.elicitations.PublicID(elicitationScope(a.part.Upstream(), a.session), id.Str(), a.client.Key)
	e.Set(e.Root(), "elicitationId", wire.String(public))
	return e.Bytes()
}

// elicitationScope names where an upstream's own ids are unique: a session may be a
// separate process.
func elicitationScope(upstream, session string) string {
	if session == "" {
		return upstream
	}
	return upstream + "\x00" + session
}

// showQuestions puts the form that the client sees in the place of each question of a
// result. The error says that the client may not be asked. count gets the method of each
// question and its outcome.
func (a *asker) showQuestions(e *wire.Edit, requests wire.Value, count func(method, outcome string)) *wire.Error {
	for request := range requests.Members() {
		method, params := request.Value.Get("method").Str(), request.Value.Get("params")
		if bridge.HasDuplicateMember(request.Value) || bridge.HasDuplicateMember(params) {
			return errUnclear
		}
		if lacks := bridge.MissingCapabilities(a.client, method, params.Raw()); lacks != nil {
			count(method, askUndeclared)
			return missingCapability(lacks)
		}
		count(method, askRelayed)
		if params.Exists() {
			e.Replace(params, a.shown(method, params.Raw()))
		}
	}
	return nil
}

// shownURL returns one of the elicitations of a URL elicitation required error as the
// client sees it.
func (a *asker) shownURL(el wire.Value) wire.Raw {
	return a.shown(wire.MethodElicit, wire.SetMember(el.Raw(), "mode", wire.String("url")))
}

// shownURLs returns an error of an upstream as a legacy client sees it. A URL elicitation
// required error gets the name of the upstream and ids of the client's own.
func (a *asker) shownURLs(rpc *wire.Error) *wire.Error {
	if rpc.Code != wire.CodeURLElicitation || a.client.Revision != wire.Rev20251125 {
		return rpc // older clients know neither the code nor its data
	}
	e := wire.NewEdit(rpc.Data)
	if bridge.HasDuplicateMember(e.Root()) {
		return errUnclear
	}
	for el := range e.Root().Get("elicitations").Elements() {
		switch {
		case bridge.HasDuplicateMember(el):
			return errUnclear
		case el.Kind() == '{':
			e.Replace(el, a.shownURL(el))
		}
	}
	if !e.Changed() {
		return rpc
	}
	own := *rpc
	own.Data = e.Bytes()
	if rpc.Raw != nil {
		own.Raw = wire.SetMember(rpc.Raw, "data", own.Data)
	}
	return &own
}
