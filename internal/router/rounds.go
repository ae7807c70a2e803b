package router

import (
	"fmt"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// relay returns an input_required result for a client that takes rounds.
func (f *forwarding) relay(raw wire.Raw) (wire.Raw, error) {
	e := wire.NewEdit(raw)
	sealed := false
	for m := range e.Root().Members() {
		switch {
		case m.Is("inputRequests"):
			if refusal := f.back.showQuestions(e, m.Value, f.router.metrics.countAsk); refusal != nil {
				return nil, refusal
			}
		case m.Is("requestState"):
			if text, ok := m.Value.Text(); ok {
				e.ReplaceString(m.Value, f.seal(bridge.UpstreamState, text))
				sealed = true
			}
		}
	}
	if f.consented && !sealed { // the user is asked once, even if the upstream needs no state
		e.Set(e.Root(), "requestState", wire.String(f.seal(bridge.NoUpstreamState, "")))
	}
	return e.Bytes(), nil
}

// seal returns the state of a further round. It carries the consent to the call on, for
// one round each time.
func (f *forwarding) seal(kind bridge.StateKind, text string) string {
	st := bridge.State{Kind: kind, Recipient: f.upstreamName(), Text: text, Expires: time.Now().Add(f.routes.bridgeSettings().StateTTL), Trace: f.call.Trace.Traceparent()}
	if f.consented {
		st.Token = f.router.tokens.New(f.ctx)
	}
	return f.router.sealer.Seal(st, bridge.BindingOf(f.call))
}

// urlRequired turns the error of a legacy upstream that wants URLs to be opened first
// (2025-11-25, client/elicitation, "URL Elicitation Required Error") into what the client
// knows. A modern client gets questions, whose answer sends the call again; a legacy one
// gets the same error, with the name of the upstream and ids of its own.
func (f *forwarding) urlRequired(rpc *wire.Error) (call.Result, error) {
	list := wire.ValueOf(rpc.Data).Get("elicitations")
	if f.call.Client.Era() != wire.EraModern {
		return call.Result{}, f.back.shownURLs(rpc)
	}
	if f.call.TakesRounds && f.method.Rounds && list.Kind() == '[' {
		if !f.call.Client.Can("elicitation", "url") {
			f.router.metrics.countAsk(wire.MethodElicit, askUndeclared)
			return call.Result{}, f.cannotOpenPages()
		}
		requests := wire.Raw{'{'}
		n := 0
		for el := range list.Elements() {
			if bridge.HasDuplicateMember(el) {
				return call.Result{}, errUnclear
			}
			if el.Kind() != '{' {
				continue
			}
			if n++; n > 1 {
				requests = append(requests, ',')
			}
			f.router.metrics.countAsk(wire.MethodElicit, askRelayed)
			request := wire.SetMember(wire.Raw(`{"method":"`+wire.MethodElicit+`"}`), "params", f.back.shownURL(el))
			requests = append(fmt.Appendf(requests, `"url-%d":`, n), request...)
		}
		if n > 0 {
			raw := wire.SetMember(wire.Raw(`{"resultType":"input_required"}`), "inputRequests", append(requests, '}'))
			return call.Result{Raw: wire.SetMember(raw, "requestState", wire.String(f.seal(bridge.Resend, "")))}, nil
		}
	}
	// No modern client may see the code of the error.
	return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream wants URLs to be opened and does not say which: %s", clip(rpc.Message))
}

// cannotOpenPages is the error for a modern client that cannot open the pages of an upstream. The reason, which has been set,
// also says why it should.
func (f *forwarding) cannotOpenPages() *wire.Error {
	const lacks = "it did not declare elicitation.url"
	f.log.reason = f.router.short("the client cannot open pages (" + lacks + "): " + f.log.reason)
	err := missingCapability(wire.Raw(`{"elicitation":{"url":{}}}`))
	err.Message = fmt.Sprintf("upstream %s needs its user to open a page, and the client cannot: %s", f.upstreamName(), lacks)
	return err
}

// missingCapability is the error for a client that lacks capabilities (2026-07-28, basic,
// "Error Codes").
func missingCapability(capabilities wire.Raw) *wire.Error {
	data := wire.SetMember(wire.Raw(`{}`), "requiredCapabilities", capabilities)
	return wire.Errorf(wire.CodeMissingCapability, "the request needs a capability that the client did not declare").WithData(data)
}
