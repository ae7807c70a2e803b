package inspect

import (
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// Question is a hypothetical call.
type Question struct {
	Kind      call.Kind // Resource for templates too
	Public    string    // the name or URI as clients see it
	Principal *call.Principal
	Revision  wire.Revision // of the client
	Arguments wire.Raw      // nil: unknown, as for lists
}

// Explanation says how policy decides a call.
type Explanation struct {
	policy.Explanation
	Upstream, Native string // of the item
}

// Explain explains how policy decides a call. It returns false if no upstream that is up
// has the item, regardless of the caller.
func (i *Inspector) Explain(q Question) (Explanation, bool) {
	inForce := i.gateway.Policy()
	everything := i.gateway.TableUnder(policy.MustNew(policy.Options{Default: policy.Allow}))
	t, ok := everything.View(call.Anonymous, nil).Resolve(q.Kind, q.Public)
	if !ok {
		return Explanation{}, false
	}
	item := t.PolicyItem()
	request := policy.Request{Method: t.Kind.Method()}
	if t.Kind == call.Tool || t.Kind == call.Prompt {
		if request.Open = q.Arguments == nil; !request.Open {
			request.Params = wire.SetMember(wire.SetMember(wire.Raw(`{}`), "name", wire.String(q.Public)), "arguments", q.Arguments)
		}
	}
	caller := policy.Caller{Principal: q.Principal, Revision: q.Revision}
	out := Explanation{inForce.Explain(caller, item, request), item.Upstream, item.Native}

	// The view decides calls. It also knows of which listed resource a URI is the
	// canonical spelling.
	view := i.gateway.TableUnder(inForce).View(q.Principal, &call.Client{Revision: q.Revision})
	target, ok := view.Resolve(q.Kind, q.Public)
	d := view.Verdict(t.Kind, t.Public, target)
	switch {
	case ok:
		d = target.Judgement.Decide(request)
	case d.Rule == policy.RuleUnknown: // the upstream has no resources, or is not known yet
		return out, true
	}
	if d.Effect != out.Decision.Effect {
		reason := "the URI is the canonical spelling of a listed one"
		if item.Own != "" {
			reason = fmt.Sprintf("it may come to be named %q", item.Own)
		}
		out.Steps = append(out.Steps, policy.Step{Rule: d.Rule, File: d.File, Line: d.Line, Effect: d.Effect, Matches: true, Reason: reason})
		out.Decision = d
	}
	return out, true
}
