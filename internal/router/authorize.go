package router

import (
	"context"
	"errors"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// authorize asks policy whether the call may be made. It does not ask about the gateway's own
// items: the calls that an own tool makes are judged one by one.
func (f *forwarding) authorize(ctx context.Context) (bool, error) {
	if f.target.Part.Own() {
		return false, nil
	}
	d, err := f.decide(ctx, itemOf(&f.target))
	switch {
	case err != nil:
		return false, err
	case d.Denied():
		return false, refused(f.target, &d, &f.log)
	}
	f.decision, f.authorized = d, true
	return false, nil
}

// authorizeTask asks policy whether the caller may use the tool that began the task. A
// task whose tool is refused looks like one that does not exist; the log says more.
func (f *forwarding) authorizeTask(ctx context.Context) (bool, error) {
	t := &f.target
	it := auditedItem{call.Tool, t.OrdinaryName(), f.upstreamName(), t.Native, true}
	d, err := f.decide(ctx, it)
	switch {
	case err != nil:
		return false, err
	case d.Denied():
		return false, f.refuseTask(errors.New("the tool that began the task is refused"))
	}
	f.decision, f.authorized = d, true
	return false, nil
}

// decide asks policy about the call, whose item is that of the target, as [Router.decide] does.
func (f *forwarding) decide(ctx context.Context, it auditedItem) (policy.Decision, error) {
	timer := f.call.Trace.Start(ctx, call.StageAuthorize, call.SpanStart{})
	d, err := f.router.decide(auditDecision, f.call, it, f.target.Policy, &f.log)
	timer.End(err)
	return d, err
}

// decide asks policy about one call. Lists asked the same function when the view
// was made. A request that names an item without its arguments, as requests about
// tasks and completions do, is judged as lists are: policy asks whether any arguments
// are allowed.
//
// When decide returns, the decision is in the audit. After an error it is not, and
// nothing may follow from it. event says which line the audit gets.
func (r *Router) decide(event string, c *call.Call, it auditedItem, j *policy.ItemPolicy, log *logFields) (policy.Decision, error) {
	q := policy.Request{Method: c.Method, Params: c.Params}
	if wire.MethodOf(c.Method).Open {
		q.Params, q.Open = nil, true
	}
	d := j.Decide(q)
	return d, r.decided(event, c, it, &d, log)
}

// decided counts a decision, records it in the audit, and keeps it for the log, which
// may be nil.
func (r *Router) decided(event string, c *call.Call, it auditedItem, d *policy.Decision, log *logFields) error {
	if log != nil {
		log.decision(&it, d)
	}
	r.metrics.decisionCounters.get(decisionLabels{d.Effect.String(), d.Rule}).Inc()
	if r.audit == nil {
		return nil
	}
	return r.audit.record(event, c, &it, d)
}

// itemOf returns the item of a target for the audit.
func itemOf(t *catalog.Target) auditedItem {
	return auditedItem{t.Kind, t.OrdinaryName(), t.Part.Upstream(), t.Native, t.Entry != nil}
}

// refused is the answer to a call that policy denies of an item that the caller sees.
// An item that policy hides did not resolve. The reason is kept for the log, which may be nil.
func refused(t catalog.Target, d *policy.Decision, log *logFields) error {
	if log != nil {
		log.denial = denial{made: true, kind: t.Kind, listed: true, scopes: d.Scopes}
	}
	if d.Challenge {
		rpcErr := wire.Errorf(wire.CodeInvalidParams, "the %s %q needs a scope that the caller lacks: %s", t.Kind, clip(t.Public), strings.Join(d.Scopes, " or ")).
			WithData(wire.SetMember(wire.Raw(`{}`), "requiredScopes", wire.Strings(d.Scopes)))
		return &call.Refused{Err: rpcErr, Scopes: d.Scopes}
	}
	return wire.Errorf(wire.CodeInvalidParams, "the %s %q is refused with these arguments", t.Kind, clip(t.Public))
}
