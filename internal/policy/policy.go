package policy

import "mcpgateway/internal/call"

// Effect is what a decision means.
type Effect uint8

// The effects. The zero Effect denies.
const (
	Deny Effect = iota
	Allow
)

// String returns "deny" or "allow".
func (e Effect) String() string {
	if e == Allow {
		return "allow"
	}
	return "deny"
}

// Globs select native names of one kind.
type Globs struct {
	Allow []string // nil lets everything through, an empty list nothing
	Deny  []string
}

// Upstream selects what one upstream is let through with.
type Upstream struct {
	Tools     Globs
	Prompts   Globs
	Resources Globs // of URIs and of templates
}

// Options are what a policy is made of.
type Options struct {
	Default   Effect
	Upstreams map[string]Upstream // by name; one that is not here is let through with everything
}

// Item is what a decision is about.
type Item struct {
	Kind     call.Kind
	Upstream string
	Public   string // name or URI as clients see it
	Native   string // the same at the upstream
}

// Decision is an effect and what led to it. Rule is one of few values, fit for
// the label of a metric.
type Decision struct {
	Effect Effect
	Rule   string
}

// The values of Decision.Rule.
const (
	RuleDefault       = "default"
	RuleUpstreamDeny  = "upstream.deny"  // a deny glob of the upstream matched
	RuleUpstreamAllow = "upstream.allow" // no allow glob of the upstream matched
)

// Policy is compiled Options.
type Policy struct {
	fallback  Effect
	upstreams map[string]*[call.Kinds]selection
}

// selection is compiled Globs.
type selection struct {
	all   bool // there is no allow list
	allow []glob
	deny  []glob
}

// New compiles a policy.
func New(opts Options) *Policy {
	p := &Policy{fallback: opts.Default, upstreams: make(map[string]*[call.Kinds]selection, len(opts.Upstreams))}
	for name, u := range opts.Upstreams {
		resources := selectionOf(u.Resources)
		p.upstreams[name] = &[call.Kinds]selection{
			call.Tool:     selectionOf(u.Tools),
			call.Prompt:   selectionOf(u.Prompts),
			call.Resource: resources,
			call.Template: resources,
		}
	}
	return p
}

func selectionOf(g Globs) selection {
	s := selection{all: g.Allow == nil}
	for _, pattern := range g.Allow {
		s.allow = append(s.allow, compile(pattern))
	}
	for _, pattern := range g.Deny {
		s.deny = append(s.deny, compile(pattern))
	}
	return s
}

// Decide says whether a principal may see and use an item.
func (p *Policy) Decide(_ *call.Principal, it Item) Decision {
	if u := p.upstreams[it.Upstream]; u != nil {
		if rule := u[it.Kind].refuses(it.Native); rule != "" {
			return Decision{Deny, rule}
		}
	}
	return Decision{p.fallback, RuleDefault}
}

// refuses returns the rule that keeps a native name out, "" when none does.
func (s *selection) refuses(native string) string {
	for _, g := range s.deny {
		if g.match(native) {
			return RuleUpstreamDeny
		}
	}
	if s.all {
		return ""
	}
	for _, g := range s.allow {
		if g.match(native) {
			return ""
		}
	}
	return RuleUpstreamAllow
}

// MaySee reports whether an upstream may be named to a principal: in error
// messages, and among those that a list lacks. A principal to whom nothing is
// allowed learns of no upstream.
func (p *Policy) MaySee(_ *call.Principal, _ string) bool { return p.fallback == Allow }

// Rights returns a key that is equal for principals who get the same decision
// about every item. No decision depends on the principal as yet, so there is
// one.
func (p *Policy) Rights(*call.Principal) string { return "" }
