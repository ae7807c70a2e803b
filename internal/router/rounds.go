package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// defaultStateTTL is how long a client may take to come back with a
// requestState of a modern upstream.
const defaultStateTTL = 24 * time.Hour

// errState is all that a client learns of a requestState that is refused.
var errState = wire.Errorf(wire.CodeInvalidParams,
	"invalid requestState: it was not issued for this request, or has expired; send the request again without it")

// journey is one call between a client and an upstream.
type journey struct {
	r     *Router
	c     *call.Call // as the client sent it
	ref   namespace.Ref
	to    Upstream
	space *namespace.Space
	// session is that with the upstream which the call goes through.
	session string
	asked   namespace.Asked
	// target is what is called.
	target catalog.Target
	// decision is what policy said of it; consented, that the user has confirmed it.
	decision  policy.Decision
	consented bool
	routes    *Routes // that the call began with, and what its caller sees of them
	view      *catalog.View
}

// The kinds of states that belong to a round of a call, and not to a parked one.
var roundKinds = []bridge.Kind{bridge.Relay, bridge.Bare, bridge.Again, bridge.Consent}

// unwrap returns params, those of the call under native names, as the upstream
// shall see them in a retry: with its own requestState in place of the sealed
// one, and without any where the state is the gateway's own. Params without
// requestState come back as they are, with the zero state.
func (j *journey) unwrap(params wire.Raw) (wire.Raw, bridge.State, error) {
	switch {
	case !wire.MethodOf(j.c.Method).Rounds:
		return params, bridge.State{}, nil
	case !j.c.TakesRounds:
		return j.withoutRounds(params), bridge.State{}, nil
	}
	sealed := wire.ValueOf(params).Get("requestState")
	if !sealed.Exists() {
		return params, bridge.State{}, nil
	}
	st, err := j.r.sealer.Open(sealed.Str(), bridge.BindingOf(j.c), time.Now())
	if err == nil && (st.Holder != j.space.Upstream() || !slices.Contains(roundKinds, st.Kind)) {
		err = fmt.Errorf("%w: it is of kind %q for %q", bridge.ErrRequest, st.Kind, st.Holder)
	}
	if err != nil {
		j.refuseState(err)
		return nil, bridge.State{}, errState
	}
	e := wire.NewEdit(params)
	switch st.Kind {
	case bridge.Relay:
		e.ReplaceString(sealed, st.Text)
	case bridge.Bare:
		e.Remove(e.Root(), "requestState")
	default:
		return bridge.Retry(params, nil, nil), st, nil
	}
	return e.Bytes(), st, nil
}

// withoutRounds returns the params of a client that takes no rounds, for an upstream
// that may have them. Members with the names of theirs mean nothing in the client's
// revision. To the upstream they would be a state that the gateway never saw, and so
// bound to nobody, and answers that nobody was asked for.
func (j *journey) withoutRounds(params wire.Raw) wire.Raw {
	root := wire.ValueOf(params)
	if j.target.Part.Revision().Era() == wire.EraLegacy || !root.Get("requestState").Exists() && !root.Get("inputResponses").Exists() {
		return params
	}
	return bridge.Retry(params, nil, nil)
}

// refuseState tells the log why a state is not taken.
func (j *journey) refuseState(reason error) {
	j.r.ratelog.Warn("request state refused", zap.String("request", j.c.ID), zap.String("principal", j.c.Principal.Subject),
		zap.String("upstream", j.space.Upstream()), zap.String("method", j.c.Method), zap.NamedError("reason", reason))
}

// conclude turns what the upstream answered into what the client gets: a
// question in a result becomes an ask where the client takes no rounds, and is
// sealed and labelled where it does.
func (j *journey) conclude(ctx context.Context, down *call.Call, res call.Result, err error) (call.Result, error) {
	if rpc, ok := errors.AsType[*wire.Error](err); ok && rpc.Code == wire.CodeURLElicitation {
		return j.urlRequired(rpc)
	}
	switch {
	case err != nil || res.Revision.Era() != wire.EraModern || !bridge.IsInputRequired(res.Raw):
		return res, err
	case !wire.MethodOf(j.c.Method).Rounds:
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream asked for input in answer to %s, where it may not", j.c.Method)
	case !j.c.TakesRounds:
		return bridge.Rounds(ctx, down, res, j.to.Do)
	}
	if res.Raw, err = j.relay(res.Raw); err != nil {
		return call.Result{}, err
	}
	return res, nil
}

// relay returns an input_required result for a client that takes rounds.
func (j *journey) relay(raw wire.Raw) (wire.Raw, error) {
	e := wire.NewEdit(raw)
	sealed := false
	for m := range e.Root().Members() {
		switch {
		case m.Is("inputRequests"):
			if fault := j.r.showQuestions(e, m.Value, j.target.Part, j.session, j.c.Client, j.r.metrics.asked); fault != nil {
				return nil, fault
			}
		case m.Is("requestState"):
			if text, ok := m.Value.Text(); ok {
				e.ReplaceString(m.Value, j.seal(bridge.Relay, text))
				sealed = true
			}
		}
	}
	if j.consented && !sealed { // the user is asked once, also where the upstream needs no state
		e.Set(e.Root(), "requestState", wire.String(j.seal(bridge.Bare, "")))
	}
	return e.Bytes(), nil
}

// errUnclear is the answer in place of a question that can be read in two ways.
var errUnclear = wire.Errorf(wire.CodeInternal, "the upstream asked a question that has a member twice")

// showQuestions puts in the place of each question of a result, in the session with this
// name, what the client sees of it. The error says that the client may not be asked. count
// is told of each kind of question and of what becomes of it.
func (r *Router) showQuestions(e *wire.Edit, requests wire.Value, part *catalog.Part, session string, client *call.Client, count func(method, outcome string)) *wire.Error {
	for request := range requests.Members() {
		method, params := request.Value.Get("method").Str(), request.Value.Get("params")
		if bridge.Unclear(request.Value) || bridge.Unclear(params) {
			return errUnclear
		}
		if lacks := bridge.Required(client, method, params.Raw()); lacks != nil {
			count(method, askUndeclared)
			return missing(lacks)
		}
		count(method, askRelayed)
		if params.Exists() {
			e.Replace(params, r.shown(part, session, client, method, params.Raw()))
		}
	}
	return nil
}

// seal returns the state of a further round. The consent to the call goes on in
// it, for one round each time.
func (j *journey) seal(kind bridge.Kind, text string) string {
	st := bridge.State{Kind: kind, Holder: j.space.Upstream(), Text: text, Expires: time.Now().Add(j.r.terms().StateTTL)}
	if j.consented {
		st.Ticket = j.r.tickets.Ticket()
	}
	return j.r.sealer.Seal(st, bridge.BindingOf(j.c))
}

// missing is the error for a client that lacks capabilities (2026-07-28, basic,
// "Error Codes").
func missing(capabilities wire.Raw) *wire.Error {
	data := wire.SetMember(wire.Raw(`{}`), "requiredCapabilities", capabilities)
	return wire.Errorf(wire.CodeMissingCapability, "the request needs a capability that the client did not declare").WithData(data)
}

// urlRequired turns the error of a legacy upstream that wants URLs to be opened
// first (2025-11-25, client/elicitation, "URL Elicitation Required Error") into
// what the client knows: for modern ones questions, whose answer sends the call
// again; for legacy ones the same error, with who asks and ids of their own.
func (j *journey) urlRequired(rpc *wire.Error) (call.Result, error) {
	list := wire.ValueOf(rpc.Data).Get("elicitations")
	if j.c.Client.Era() != wire.EraModern {
		return call.Result{}, j.r.shownURLs(j.target.Part, j.session, j.c.Client, rpc)
	}
	if j.c.TakesRounds && wire.MethodOf(j.c.Method).Rounds && list.Kind() == '[' {
		if !j.c.Client.Can("elicitation", "url") {
			j.r.metrics.asked(wire.MethodElicit, askUndeclared)
			return call.Result{}, missing(wire.Raw(`{"elicitation":{"url":{}}}`))
		}
		requests := wire.Raw{'{'}
		n := 0
		for el := range list.Elements() {
			if bridge.Unclear(el) {
				return call.Result{}, errUnclear
			}
			if el.Kind() != '{' {
				continue
			}
			if n++; n > 1 {
				requests = append(requests, ',')
			}
			j.r.metrics.asked(wire.MethodElicit, askRelayed)
			request := wire.SetMember(wire.Raw(`{"method":"`+wire.MethodElicit+`"}`), "params", j.r.shownURL(j.target.Part, j.session, j.c.Client, el))
			requests = append(fmt.Appendf(requests, `"url-%d":`, n), request...)
		}
		if n > 0 {
			raw := wire.SetMember(wire.Raw(`{"resultType":"input_required"}`), "inputRequests", append(requests, '}'))
			return call.Result{Raw: wire.SetMember(raw, "requestState", wire.String(j.seal(bridge.Again, "")))}, nil
		}
	}
	// No modern client may see the code of the error.
	return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream wants URLs to be opened and does not say which: %s", clip(rpc.Message))
}

// shownURL returns one of the elicitations of such an error, as the client sees it.
func (r *Router) shownURL(part *catalog.Part, session string, client *call.Client, el wire.Value) wire.Raw {
	return r.shown(part, session, client, wire.MethodElicit, wire.SetMember(el.Raw(), "mode", wire.String("url")))
}

// shownURLs returns an error of an upstream's as a legacy client sees it: with the name
// of who asks, and ids of the client's own, where it is such an error.
func (r *Router) shownURLs(part *catalog.Part, session string, client *call.Client, rpc *wire.Error) *wire.Error {
	if rpc.Code != wire.CodeURLElicitation || client.Revision != wire.Rev20251125 {
		return rpc // older clients know neither the code nor its data
	}
	e := wire.NewEdit(rpc.Data)
	if bridge.Unclear(e.Root()) {
		return errUnclear
	}
	for el := range e.Root().Get("elicitations").Elements() {
		switch {
		case bridge.Unclear(el):
			return errUnclear
		case el.Kind() == '{':
			e.Replace(el, r.shownURL(part, session, client, el))
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
