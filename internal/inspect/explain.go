package inspect

import (
	"cmp"
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// Question is a hypothetical call.
type Question struct {
	Kind      call.Kind // Resource for templates too
	Public    string    // the name or URI as clients see it
	Principal *call.Principal
	Revision  wire.Revision // of the client
	Arguments wire.Raw      // nil: unknown, as for lists
	// Console says that the question is not about an item, but about the console at the address of MCP.
	Console bool
}

// ConsolePath is the path of the console. Verbs that take the name of an item accept it for the
// console.
const ConsolePath = "/ui"

// Explanation says how policy decides a call.
type Explanation struct {
	policy.Explanation
	Upstream, Native string // of the item
	// Down says why the upstream cannot be called now, "" if it can. If it is down, the item
	// comes from its last lists.
	Down string
	// Unlisted says that the upstream is down and none of its lists is known: the decision uses
	// only the name.
	Unlisted bool
	// NameThere is the name of the item in the profile of the principal if that is not the name
	// in the question, which calls in the profile cannot use then. It is "" otherwise.
	NameThere string
	// Arguments says what the gateway makes of the arguments, ArgumentErrors how they violate the schema.
	Arguments      ArgumentsCheck
	ArgumentErrors []string
}

// Explain explains how policy decides a call in the profile of the principal. It returns false if
// no upstream has the item, regardless of the caller and the profile. Upstreams of which nothing
// is known have no items.
func (i *Inspector) Explain(q Question) (Explanation, bool) {
	in := i.gateway.Profile(q.Principal.Profile)
	t, ok := i.allowed(nil).Resolve(q.Kind, q.Public)
	if in != nil { // the profile may have another name for it, and another item with the name
		if there, known := i.allowed(in).Resolve(q.Kind, q.Public); known && (!ok || q.Kind == call.Tool || q.Kind == call.Prompt) {
			t, ok = there, true
		}
	}
	if !ok {
		return Explanation{}, false
	}
	if t.Part.Own() {
		step := policy.Step{Rule: policy.RuleOwn, Effect: policy.Allow, Matches: true, Reason: "the gateway's own tools are for everyone; the calls that they make are judged one by one"}
		return Explanation{Explanation: policy.Explanation{Decision: t.Policy.Listed(), Steps: []policy.Step{step}}, Native: t.Native}, true
	}
	inForce := i.policyIn(in)
	item := t.PolicyItem()
	request := q.request(t.Kind)
	caller := policy.Caller{Principal: q.Principal, Revision: q.Revision}
	out := Explanation{Explanation: inForce.Explain(caller, item, request), Upstream: item.Upstream, Native: item.Native, Down: i.down(item.Upstream)}
	out.Unlisted = out.Down != "" && t.Entry == nil
	out.checkArguments(&q, t)
	shown := i.shownAs(in, t)
	if shown != q.Public {
		out.NameThere = shown
	}
	if out.excludedFrom(in) {
		return out, true
	}
	if in != nil && out.Decision.Allowed() && !in.Selects(item) {
		out.refuse("annotations of the profile select no tool with these hints")
		return out, true
	}

	// The view decides calls. It also knows of which listed resource a URI is the
	// canonical spelling.
	view := i.gateway.TableUnder(i.gateway.Policy(), in).View(q.Principal, &call.Client{Revision: q.Revision})
	target, ok := view.Resolve(q.Kind, shown)
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

// ExplainConsole explains whether a principal may open the console at the address of MCP.
func (i *Inspector) ExplainConsole(who *call.Principal) Explanation {
	return Explanation{Explanation: i.gateway.Policy().Console(who)}
}

// LimitsFor returns the limits that may count calls of a principal.
func (i *Inspector) LimitsFor(who *call.Principal) []LimitReport {
	var out []LimitReport
	for _, l := range i.policyIn(i.gateway.Profile(who.Profile)).LimitsOf(who) {
		out = append(out, reportLimit(l))
	}
	return out
}

// excludedFrom reports whether the upstream of the item is no part of a profile, and says so.
func (e *Explanation) excludedFrom(in *profile.Profile) bool {
	if in == nil || in.HasUpstream(e.Upstream) {
		return false
	}
	e.refuse(fmt.Sprintf("neither upstreams nor tags of the profile %s select anything of %s", in.Name(), e.Upstream))
	return true
}

// refuse makes the decision that the profile does not select the item.
func (e *Explanation) refuse(reason string) {
	e.Decision = policy.Decision{Effect: policy.Deny, Rule: policy.RuleProfileAllow}
	e.Steps = append([]policy.Step{{Rule: policy.RuleProfileAllow, Effect: policy.Deny, Matches: true, Reason: reason}}, e.Steps...)
}

// shownAs returns the name of an item in a profile.
func (i *Inspector) shownAs(in *profile.Profile, t catalog.Target) string {
	if in != nil && t.Entry != nil {
		for _, e := range i.allowed(in).Usable(t.Kind) {
			if e.Native == t.Entry.Native && e.Upstream() == t.Entry.Upstream() {
				return e.Public
			}
		}
	}
	return t.Public
}

// Similar returns the names of items of the kind of q to which its name is near, the nearest
// first, regardless of the caller and the profile.
func (i *Inspector) Similar(q Question) []string {
	return i.allowed(nil).SimilarNames(q.Kind, q.Public)
}

// allowed returns the view of a caller without any restriction by policy, in a profile; nil means
// the table of everything.
func (i *Inspector) allowed(in *profile.Profile) *catalog.View {
	return i.gateway.TableUnder(allowAll(), in).View(call.Anonymous, nil)
}

func allowAll() *policy.Policy { return policy.MustNew(policy.Options{Default: policy.Allow}) }

// policyIn returns the policy of a profile.
func (i *Inspector) policyIn(in *profile.Profile) *policy.Policy {
	if in == nil {
		return i.gateway.Policy()
	}
	return in.Policy(i.gateway.Policy())
}

// down says why an upstream cannot be called now, "" if it can.
func (i *Inspector) down(upstream string) string {
	for _, u := range i.Upstreams() {
		if u.Name == upstream && (u.State == connector.Down || u.State == connector.Connecting) {
			return u.State.String() + ": " + cmp.Or(u.Reason, "it has not answered yet")
		}
	}
	return ""
}

// ExplainUnlisted explains how policy decides a call of an item that an upstream may have of
// which nothing is known, because it is down and nothing of it is remembered. It returns false
// if there is no such upstream. Rules that read the description of the item decide as if it
// had none.
func (i *Inspector) ExplainUnlisted(q Question) (Explanation, bool) {
	in := i.gateway.Profile(q.Principal.Profile)
	all := i.allowed(nil)
	for _, u := range all.UnavailableFor(q.Kind, q.Public) {
		t, ok := all.ResolveUnavailable(q.Kind, q.Public, u.Upstream)
		if !ok {
			continue
		}
		item := policy.Item{Kind: t.Kind, Upstream: u.Upstream, Public: q.Public, Native: t.Native}
		if t.Kind == call.Resource {
			item = t.PolicyItem()
		}
		why := i.policyIn(in).Explain(policy.Caller{Principal: q.Principal, Revision: q.Revision}, item, q.request(t.Kind))
		out := Explanation{Explanation: why, Upstream: u.Upstream, Native: t.Native, Down: i.down(u.Upstream), Unlisted: true}
		out.checkArguments(&q, t)
		out.excludedFrom(in)
		return out, true
	}
	return Explanation{}, false
}

// request returns the call of a question.
func (q *Question) request(kind call.Kind) policy.Request {
	r := policy.Request{Method: kind.Method()}
	if kind == call.Tool || kind == call.Prompt {
		if r.Open = q.Arguments == nil; !r.Open {
			r.Params = wire.SetMember(wire.SetMember(wire.Raw(`{}`), "name", wire.String(q.Public)), "arguments", q.Arguments)
		}
	}
	return r
}

// ExplanationReport is an Explanation with its question, for programs. Its JSON form is
// public: members are added in later versions, never renamed or removed.
type ExplanationReport struct {
	Kind      string   `json:"kind"`
	Item      string   `json:"item"` // the public name or URI
	Upstream  string   `json:"upstream"`
	Native    string   `json:"native"`
	Subject   string   `json:"subject"`
	Profile   string   `json:"profile,omitempty"` // absent for the default one
	Effect    string   `json:"effect"`            // allow, deny or confirm
	Rule      string   `json:"rule"`
	File      string   `json:"file,omitempty"`
	Line      int      `json:"line,omitempty"`
	Challenge []string `json:"challenge,omitempty"` // the caller lacks only one of these scopes
	// Limits are the limits that count the call: those of all matching rules, also of rules that
	// do not decide.
	Limits   []LimitReport `json:"limits,omitempty"`
	Down     string        `json:"down,omitempty"`     // why the upstream cannot be called now
	Unlisted bool          `json:"unlisted,omitempty"` // the decision is about the name alone
	// NameThere is the name of the item in the profile if only that can be called there.
	NameThere string `json:"name_in_profile,omitempty"`
	// Arguments is valid, invalid or unchecked; absent if the gateway does not check them or none are given. It does
	// not make a call whose arguments are invalid, whatever policy decides.
	Arguments      string       `json:"arguments,omitempty"`
	ArgumentErrors []string     `json:"argument_errors,omitempty"`
	Steps          []StepReport `json:"steps"`
}

// LimitReport is a limit of a rule.
type LimitReport struct {
	Rule       string `json:"rule"`
	Rate       string `json:"rate,omitempty"`  // as in the file: 10/s, 100/m or 1000/h
	Burst      int    `json:"burst,omitempty"` // calls at the same time
	Concurrent int    `json:"concurrent,omitempty"`
	Per        string `json:"per"` // principal, rule, upstream or tool
}

func reportLimit(l *policy.Limit) LimitReport {
	r := LimitReport{Rule: l.Rule, Concurrent: l.Concurrent, Per: l.Per.String()}
	if l.Rate > 0 {
		calls, unit := l.Stated()
		r.Rate, r.Burst = fmt.Sprintf("%.0f/%s", calls, unit[:1]), l.Burst
	}
	return r
}

// StepReport says whether one rule matches the call, and why.
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
		Kind: q.Kind.String(), Item: q.Public, Upstream: e.Upstream, Native: e.Native, Subject: q.Principal.Subject, Profile: q.Principal.Profile,
		Effect: d.Effect.String(), Rule: d.Rule, File: d.File, Line: d.Line, Challenge: d.Scopes,
	}
	r.Down, r.Unlisted, r.NameThere = e.Down, e.Unlisted, e.NameThere
	r.Arguments, r.ArgumentErrors = string(e.Arguments), e.ArgumentErrors
	if q.Console {
		r.Kind, r.Item = "console", ConsolePath
	}
	for _, l := range d.Limits {
		r.Limits = append(r.Limits, reportLimit(l))
	}
	for _, s := range e.Steps {
		r.Steps = append(r.Steps, StepReport{s.Rule, s.File, s.Line, s.Effect.String(), s.Matches, s.Reason})
	}
	return r
}
