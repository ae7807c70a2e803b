package policy

import (
	"fmt"
	"slices"

	"mcpgateway/internal/call"
)

// Step is the contribution of a rule, an upstream's list or the default to a decision.
type Step struct {
	Rule    string
	File    string // "" for a list and for the default
	Line    int
	Effect  Effect
	Matches bool
	Open    bool   // the arguments, which the request does not have, decide whether it matches
	Reason  string // in one line
}

// Explanation is a decision with all steps: the selection of a profile, and what follows in the
// order of the configuration.
type Explanation struct {
	Decision Decision
	Steps    []Step
}

// Explain explains the decision about a call, or the one for lists if the request is Open.
// It is the decision of [ItemPolicy.Decide].
func (p *Policy) Explain(c Caller, it Item, q Request) Explanation {
	e := p.explainOwn(c, it, q)
	if p.narrower == nil {
		return e
	}
	own := p.narrower.explainOwn(c, it, q)
	e.Decision = both(e.Decision, own.Decision)
	last := len(e.Steps) - 1
	e.Steps[last].Matches = e.Decision.Rule == RuleDefault
	e.Steps = slices.Insert(e.Steps, last, own.Steps[:len(own.Steps)-1]...) // the default of a profile always allows
	if rule := p.narrower.leavesOut(&it); rule != "" {
		reason := "neither allow globs nor tags of the profile cover the item"
		if rule == RuleProfileDeny {
			reason = "a deny glob of the profile covers the ordinary name"
		}
		e.Steps = slices.Insert(e.Steps, 0, Step{Rule: rule, Effect: Deny, Matches: true, Reason: reason})
	}
	return e
}

// explainOwn is Explain without regard to a narrower policy.
func (p *Policy) explainOwn(c Caller, it Item, q Request) Explanation {
	r := p.newRights(c)
	r.narrower = nil
	refusal := r.refusal(&it)
	j := r.itemRules(&it, it.Public, true)
	var steps []Step
	if !p.isOwn() && p.HasLists(it.Upstream, it.Kind) {
		s := Step{Rule: it.Upstream, Effect: Allow, Matches: true, Reason: "the upstream's own lists let it through"}
		switch refusal {
		case RuleUpstreamDeny:
			s = Step{Rule: refusal, Effect: Deny, Matches: true, Reason: "a deny glob of the upstream covers the native name"}
		case RuleUpstreamAllow:
			s = Step{Rule: refusal, Effect: Deny, Matches: true, Reason: "no allow glob of the upstream covers the native name"}
		}
		steps = append(steps, s)
	}
	if refusal == RuleURI {
		steps = append(steps, Step{Rule: RuleURI, Effect: Deny, Matches: true, Reason: "the URI is neither listed nor canonical"})
	}
	for _, rule := range p.rules {
		s := Step{Rule: rule.Name, File: rule.File, Line: rule.Line, Effect: rule.Effect}
		s.Matches, s.Open, s.Reason = j.explain(rule, c.Principal, &q)
		steps = append(steps, s)
	}
	d := r.ForItem(it).Decide(q)
	if refusal == "" && it.PreferredName != "" {
		own := r.itemRules(&it, it.PreferredName, false).decide(q, 0)
		if !own.AllowedOutright() && own.Rule == d.Rule && own.Effect == d.Effect {
			reason := fmt.Sprintf("it would be named %q if no other item had that name", it.PreferredName)
			steps = append(steps, Step{Rule: d.Rule, File: d.File, Line: d.Line, Effect: d.Effect, Matches: true, Reason: reason})
		}
	}
	steps = append(steps, Step{Rule: RuleDefault, Effect: p.fallback, Matches: d.Rule == RuleDefault, Reason: "applies if no rule decides"})
	return Explanation{d, steps}
}

// explain reports whether a rule matches, whether that is open, and why.
func (j *itemRules) explain(r *rule, who *call.Principal, q *Request) (matches, open bool, why string) {
	lacks := r.Who.missing(who)
	switch {
	case lacks == "scopes" && r.Challenge && r.Effect != Deny && j.covers(r):
		return false, false, fmt.Sprintf("the principal lacks the scopes, and the error names them: one of %q", r.Who.Scopes)
	case lacks != "":
		return false, false, "who: the principal has none of the " + lacks
	case !r.at(j.item.Upstream):
		return false, false, "what: the upstream is none of upstreams"
	case !j.covers(r):
		return false, false, fmt.Sprintf("what: no glob covers this %s", j.item.Kind)
	case r.When == nil:
		return true, false, "who and what hold"
	}
	v := j.vars(q)
	switch r.When.eval(&v) {
	case yes:
		return true, false, "who, what and when hold"
	case maybe:
		return r.Effect != Deny, true, "who and what hold; when depends on the arguments"
	case failed:
		return r.Effect != Allow, false, "when cannot be evaluated: " + clean(v.failure.Error())
	default:
		return false, false, "when does not hold"
	}
}
