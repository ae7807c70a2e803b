package router

import (
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// decide asks policy about one call. Lists asked the same function when the view
// was made. A call that names an item without its arguments, as requests about
// tasks and completions do, is judged as lists are: may there be arguments with
// which it is allowed?
//
// The decision is in the audit when decide returns; the error says that it is not,
// and then nothing may follow from it. event says what the line is.
func (r *Router) decide(event string, c *call.Call, it auditedItem, j *policy.Judgement, n *noted) (policy.Decision, error) {
	q := policy.Request{Method: c.Method, Params: c.Params}
	if wire.MethodOf(c.Method).Open {
		q.Params, q.Open = nil, true
	}
	d := j.Decide(q)
	return d, r.decided(event, c, it, &d, n)
}

// decided counts a decision, records it, and notes it for the log, which may be nil.
func (r *Router) decided(event string, c *call.Call, it auditedItem, d *policy.Decision, n *noted) error {
	n.note(&it, d)
	r.metrics.decided.get(decided{d.Effect.String(), d.Rule}).Inc()
	if r.audit == nil {
		return nil
	}
	return r.audit.record(event, c, &it, d)
}

// itemOf is what the audit says of a target.
func itemOf(t *catalog.Target) auditedItem {
	return auditedItem{t.Kind, t.Public, t.Part.Upstream(), t.Native, t.Entry != nil}
}

// refused is the answer to a call of an item that the caller sees, which policy
// does not allow like this: what would hide the item has hidden it before.
func refused(t catalog.Target, d *policy.Decision) error {
	if d.Challenge {
		data := wire.Raw{'['}
		for i, s := range d.Scopes {
			if i > 0 {
				data = append(data, ',')
			}
			data = wire.AppendString(data, s)
		}
		fault := wire.Errorf(wire.CodeInvalidParams, "the %s %q needs a scope that the caller lacks: %s", t.Kind, clip(t.Public), strings.Join(d.Scopes, " or ")).
			WithData(wire.SetMember(wire.Raw(`{}`), "requiredScopes", append(data, ']')))
		return &call.Refused{Fault: fault, Scopes: d.Scopes}
	}
	return wire.Errorf(wire.CodeInvalidParams, "the %s %q is refused with these arguments", t.Kind, clip(t.Public))
}

// needsConsent reports whether the user has to consent to the call: to one that uses what
// the item is there for. Completions, subscriptions and what tells of a task are
// no such calls.
func needsConsent(c *call.Call, d *policy.Decision) bool {
	return d.Effect == policy.Confirm && wire.MethodOf(c.Method).Kind == wire.KindCall
}
