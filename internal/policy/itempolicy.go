package policy

import (
	"cmp"
	"slices"

	"mcpgateway/internal/call"
)

// ItemPolicy is the policy for one item and callers with the same rights. It is
// immutable.
type ItemPolicy struct {
	listed Decision
	open   *itemRules  // nil if every call gets listed
	also   *ItemPolicy // the stricter decision holds; nil for none
}

// itemRules are the rules that can apply to an item under one public name.
type itemRules struct {
	rights   *Rights
	item     *Item
	public   candidate
	fallback Effect
	rules    []callerRule // those whose What selects the item, first those that deny
}

// always is the policy for the gateway's own items.
var always = &ItemPolicy{listed: Decision{Effect: Allow, Rule: RuleOwn}}

// Always returns the policy that allows every call: that of the gateway's own tools, whose calls
// of other tools are judged one by one.
func Always() *ItemPolicy { return always }

// ForItem finds the rules that can apply to the item. It takes time in the number of rules
// of the rights. Without rules, and for an upstream without lists of its own, it neither
// takes time nor allocates.
func (r *Rights) ForItem(it Item) *ItemPolicy {
	out := r.byDefault
	if u := r.policy.upstreams[it.Upstream]; len(r.rules) > 0 || u != nil && u[it.Kind].restricts() || r.policy.selected != nil {
		out = r.forItem(it)
	}
	if r.narrower == nil {
		return out
	}
	if own := r.narrower.ForItem(it); own != r.narrower.byDefault || own.listed.Denied() {
		return Strictest(out, own)
	}
	return out
}

// forItem is the slow path of ForItem. It allocates the item.
func (r *Rights) forItem(it Item) *ItemPolicy {
	if refusal := r.refusal(&it); refusal != "" {
		return r.refused[refusal]
	}
	out := r.itemPolicy(r.itemRules(&it, it.Public, true))
	if it.PreferredName == "" {
		return out
	}
	if own := r.itemPolicy(r.itemRules(&it, it.PreferredName, false)); own != r.byDefault || out != r.byDefault {
		out = Strictest(out, own)
	}
	return out
}

// refusal returns what denies the item before any rule is asked, "" for nothing.
func (r *Rights) refusal(it *Item) string {
	if it.Noncanonical && r.dependsOnURI(it.Upstream, it.Leads) {
		return RuleURI
	}
	return r.policy.leavesOut(it)
}

// leavesOut returns the kind of list that keeps the item out, "" for none.
func (p *Policy) leavesOut(it *Item) string {
	if s := p.selected; s != nil && s[it.Kind].restricts() {
		public := candidateOf(it.Public, isURI(it.Kind))
		switch {
		case s[it.Kind].denies(public), it.PreferredName != "" && s[it.Kind].denies(candidateOf(it.PreferredName, isURI(it.Kind))):
			return RuleProfileDeny
		case s[it.Kind].lacks(public):
			return RuleProfileAllow
		}
	}
	u := p.upstreams[it.Upstream]
	if u == nil || !u[it.Kind].restricts() {
		return ""
	}
	switch native := candidateOf(it.Native, isURI(it.Kind)); {
	case u[it.Kind].denies(native):
		return p.listRule(RuleUpstreamDeny)
	case u[it.Kind].lacks(native):
		return p.listRule(RuleUpstreamAllow)
	}
	return ""
}

// listRule returns the reason of a refusal by the lists of an upstream. In the policy of a
// profile they are made of the tags that it selects.
func (p *Policy) listRule(upstream string) string {
	if p.isOwn() {
		return RuleProfileAllow
	}
	return upstream
}

func isURI(kind call.Kind) bool { return kind == call.Resource || kind == call.Template }

// itemRules finds the rules for one public name of the item. If the name grants nothing,
// only rules that deny, confirm or count take part.
func (r *Rights) itemRules(it *Item, public string, grants bool) *itemRules {
	j := &itemRules{rights: r, item: it, public: candidateOf(public, isURI(it.Kind)), fallback: r.policy.fallback}
	if !grants {
		j.fallback = Allow
	}
	for _, h := range r.rules {
		switch {
		case !grants && (h.Effect == Allow && h.Limit == nil || h.lacking):
		case j.covers(h.rule):
			j.rules = append(j.rules, h)
		case h.Effect == Allow && h.Limit != nil && !h.lacking && j.restricts(h.rule):
			h.countsOnly = true
			j.rules = append(j.rules, h)
		}
	}
	slices.SortStableFunc(j.rules, func(a, b callerRule) int { return cmp.Compare(rank(a.Effect), rank(b.Effect)) })
	return j
}

// rank is the place of a rule among those of an item. A rule that denies decides immediately.
func rank(e Effect) int {
	if e == Deny {
		return 0
	}
	return 1
}

func (r *Rights) itemPolicy(j *itemRules) *ItemPolicy {
	if len(j.rules) == 0 && j.fallback == r.policy.fallback {
		return r.byDefault
	}
	out := &ItemPolicy{listed: j.decide(Request{Method: j.item.Kind.Method(), Open: true}, 0)}
	if slices.ContainsFunc(j.rules, func(h callerRule) bool { return h.when != nil }) {
		out.open = j
	}
	return out
}

// Strictest returns the policy for something that may be either of two items: the stricter
// decision holds, with the obligations of both.
func Strictest(a, b *ItemPolicy) *ItemPolicy {
	out := *a
	if out.fixed() && b.fixed() { // so that no decision has to compare them
		out.listed = both(a.listed, b.listed)
		return &out
	}
	for last := &out; ; last = last.also {
		if last.also == nil {
			last.also = b
			break
		}
		next := *last.also
		last.also = &next
	}
	return &out
}

// fixed reports whether every call gets the decision for lists.
func (j *ItemPolicy) fixed() bool { return j.open == nil && j.also == nil }

// covers reports whether the What of a rule selects the item.
func (j *itemRules) covers(r *rule) bool {
	if r.Effect != Allow {
		return j.restricts(r)
	}
	names := r.kinds[j.item.Kind]
	return r.at(j.item.Upstream) && (names == nil && r.anyKind || names != nil && names.allows(j.public))
}

// restricts reports whether the What of a rule would select the item if the rule denied.
func (j *itemRules) restricts(r *rule) bool {
	names := r.kinds[j.item.Kind]
	return r.at(j.item.Upstream) && (names == nil && r.anyKind || names != nil && names.restricts(j.public))
}

// Listed returns the decision for lists.
func (j *ItemPolicy) Listed() Decision {
	if j.also == nil {
		return j.listed
	}
	return both(j.listed, j.also.Listed())
}

// Decide returns the decision about a call. The caller must not change it.
func (j *ItemPolicy) Decide(q Request) Decision {
	d := j.listed
	if j.open != nil {
		d = j.open.decide(q, 0)
	}
	if j.also != nil {
		d = both(d, j.also.Decide(q))
	}
	return d
}

// MayBeVisible reports whether Listed could be visible if the item had another definition.
func (j *ItemPolicy) MayBeVisible() bool {
	for ; j != nil; j = j.also {
		d := j.listed
		if j.open != nil {
			d = j.open.decide(Request{Method: j.open.item.Kind.Method(), Open: true}, openItem)
		}
		if !d.Visible() {
			return false
		}
	}
	return true
}

// decide returns the decision about a request of which also the parts in unknown are not known.
func (j *itemRules) decide(q Request, unknown open) Decision {
	var obligations Obligations
	var by *rule
	var challenged Decision
	v := j.vars(&q)
	v.open |= unknown
	e := evaluationOf(v)
	for i := range j.rules {
		h := &j.rules[i]
		if h.changesNothing(by) {
			continue
		}
		switch o := e.eval(h.when); {
		case o == no, o == maybe && h.Effect == Deny, o == failed && h.Effect == Allow:
		case h.Effect == Deny:
			return Decision{Effect: Deny, Rule: h.Name, File: h.File, Line: h.Line}
		case h.lacking:
			if !challenged.Challenge {
				challenged = Decision{Rule: h.Name, File: h.File, Line: h.Line, Challenge: true}
			}
			challenged.Scopes = union(challenged.Scopes, h.Who.Scopes)
		default:
			if h.Limit != nil {
				obligations.Limits = append(obligations.Limits, h.Limit)
			}
			obligations = obligations.and(effects[h.Effect].obligations)
			if !h.countsOnly && (by == nil || effects[h.Effect].precedence > effects[by.Effect].precedence) {
				by = h.rule
			}
		}
	}
	d := newDecision(j.fallback)
	switch d.Rule = RuleDefault; {
	case by != nil:
		d = newDecision(by.Effect)
		d.Rule, d.File, d.Line = by.Name, by.File, by.Line
	case d.Denied() && challenged.Challenge:
		return challenged
	}
	if d.Allowed() {
		d.Obligations = d.Obligations.and(obligations)
	}
	return d
}

// changesNothing reports whether the decision does not depend on the rule. No rule that denies
// has matched, and by is the strictest rule that has matched, nil for none.
func (h *callerRule) changesNothing(by *rule) bool {
	switch {
	case by == nil || h.Effect == Deny:
		return false
	case h.lacking:
		return true
	}
	return h.Limit == nil && effects[h.Effect].precedence <= effects[by.Effect].precedence
}

func (j *itemRules) vars(q *Request) vars {
	v := vars{caller: &j.rights.caller, item: j.item, about: j.item.Raw, req: *q, public: j.public.written}
	if q.Open && (j.item.Kind == call.Tool || j.item.Kind == call.Prompt) { // resources have no arguments
		v.open |= openArgs
	}
	if j.rights.caller.Revision == "" {
		v.open |= openClient
	}
	return v
}
