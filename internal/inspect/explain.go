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
	d := view.RefusalOf(t.Kind, t.Public, target)
	switch {
	case ok:
		d = target.Policy.Decide(request)
	case d.Rule == policy.RuleUnknown: // the upstream has no resources, or is not known yet
		return out, true
	}
	if d.Effect != out.Decision.Effect {
		reason := "the URI is the canonical spelling of a listed one"
		if item.PreferredName != "" {
			reason = fmt.Sprintf("it may come to be named %q", item.PreferredName)
		}
		out.Steps = append(out.Steps, policy.Step{Rule: d.Rule, File: d.File, Line: d.Line, Effect: d.Effect, Matches: true, Reason: reason})
		out.Decision = d
	}
	return out, true
}

// ExplanationReport is an Explanation with its question, for programs. Its JSON form is
// public: members are added in later versions, never renamed or removed.
type ExplanationReport struct {
	Kind      string       `json:"kind"`
	Item      string       `json:"item"` // the public name or URI
	Upstream  string       `json:"upstream"`
	Native    string       `json:"native"`
	Subject   string       `json:"subject"`
	Effect    string       `json:"effect"` // allow, deny or confirm
	Rule      string       `json:"rule"`
	File      string       `json:"file,omitempty"`
	Line      int          `json:"line,omitempty"`
	Challenge []string     `json:"challenge,omitempty"` // the caller lacks only one of these scopes
	Steps     []StepReport `json:"steps"`
}

// StepReport is what one rule says about the call.
type StepReport struct {
	Rule    string `json:"rule"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Effect  string `json:"effect"`
	Matches bool   `json:"matches"`
	Reason  string `json:"reason"`
}

// Report returns the explanation of a question for programs.
func (e *Explanation) Report(q *Question) *ExplanationReport {
	d := &e.Decision
	r := &ExplanationReport{
		Kind: q.Kind.String(), Item: q.Public, Upstream: e.Upstream, Native: e.Native, Subject: q.Principal.Subject,
		Effect: d.Effect.String(), Rule: d.Rule, File: d.File, Line: d.Line, Challenge: d.Scopes,
	}
	for _, s := range e.Steps {
		r.Steps = append(r.Steps, StepReport{s.Rule, s.File, s.Line, s.Effect.String(), s.Matches, s.Reason})
	}
	return r
}
