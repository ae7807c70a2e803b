package policy

import (
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

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
	Rules     []Rule              // the names differ
}

// Rule is one rule.
type Rule struct {
	Name   string
	Effect Effect
	Who    Who
	What   What
	When   *Condition // nil: always
	Limit  *Limit     // nil: none; of rules that deny it means nothing
	// Challenge lists what the rule is about also for those who lack only one of
	// its scopes. It means nothing for rules that deny or name no scopes.
	Challenge bool
	File      string // where the rule stands, for people
	Line      int
}

// Who selects principals. A list that is nil holds for all, another for those
// who have one of its values; all lists are to hold.
type Who struct {
	Subjects, Groups, Scopes, Issuers []string
}

// What selects items by globs of public names and of the names of upstreams.
// Without any list of a kind it selects items of all kinds.
type What struct {
	Tools, Resources, Prompts []string
	Upstreams                 []string // nil: all
}

// Per says for what a limit counts.
type Per uint8

// The values of Per.
const (
	PerPrincipal Per = iota
	PerRule          // for all together
	PerUpstream
	PerTool // or prompt, or resource that is listed
)

// Limit bounds the calls that a rule matches. Whoever makes the calls keeps it.
type Limit struct {
	Rule       string
	Rate       float64 // calls a second; 0: unbounded
	Burst      int     // how many of them at once, at least 1 where there is a rate
	Concurrent int     // calls at one time; 0: unbounded
	Per        Per
}

// Caller is who asks, as far as a decision may depend on it.
type Caller struct {
	Principal *call.Principal
	Revision  wire.Revision // "" where it is not known: then what depends on it may hold
}

// Item is what a decision is about.
type Item struct {
	Kind     call.Kind
	Upstream string
	Public   string   // name or URI as clients see it
	Native   string   // the same at the upstream
	Raw      wire.Raw // as clients see it in a list; nil for one that no list has
	// Own is the public name that the item would have if no other had it, "" where it
	// has that. What refuses or has confirmed the one does so for the other: which of
	// them an item has may be up to another upstream. Nothing is allowed by it.
	PreferredName string
	// Noncanonical says that the item is an unlisted resource whose URI is not in its
	// canonical spelling. Policy refuses it where it might refuse another resource of
	// the upstream.
	Noncanonical bool
}

// Request is what a call may be judged by beside its item.
type Request struct {
	Method string
	Params wire.Raw // as the client sent them; its arguments are the member "arguments"
	// Open says that the arguments of a tool or prompt are not known: what depends
	// on them may hold.
	Open bool
}

// Policy is compiled Options.
type Policy struct {
	fallback  Effect
	upstreams map[string]*[call.Kinds]selection
	rules     []*rule
	facts     callerFacts
	everyone  *Rights // of all callers, where no rule tells them apart
}

// selection is compiled Globs.
type selection struct {
	all   bool // there is no allow list
	allow globs
	deny  globs
}

// rule is a compiled Rule.
type rule struct {
	Rule
	kinds     [call.Kinds]*globs // nil: none of the kind; a template goes by the resources
	anyKind   bool
	upstreams *globs // nil: all
	uses      use
}

// New compiles a policy. The error says which effect does not exist.
func New(opts Options) (*Policy, error) {
	if !opts.Default.known() {
		return nil, fmt.Errorf("the default of the policy is no effect: %s", opts.Default)
	}
	for _, r := range opts.Rules {
		if !r.Effect.known() {
			return nil, fmt.Errorf("the effect of the rule %q does not exist: %s", r.Name, r.Effect)
		}
	}
	return compile(opts), nil
}

// MustNew is New for options that are part of a program, such as those of tests.
func MustNew(opts Options) *Policy {
	p, err := New(opts)
	if err != nil {
		panic(err)
	}
	return p
}

func compile(opts Options) *Policy {
	p := &Policy{fallback: opts.Default, upstreams: make(map[string]*[call.Kinds]selection, len(opts.Upstreams))}
	for name, u := range opts.Upstreams {
		resources := selectionOf(u.Resources, compileURIs)
		p.upstreams[name] = &[call.Kinds]selection{
			call.Tool:     selectionOf(u.Tools, compileNames),
			call.Prompt:   selectionOf(u.Prompts, compileNames),
			call.Resource: resources,
			call.Template: resources,
		}
	}
	for _, r := range opts.Rules {
		p.rules = append(p.rules, compileRule(r))
	}
	p.facts = facetsOf(p.rules)
	if p.facts.none() {
		p.everyone = p.newRights(Caller{Principal: call.Anonymous})
	}
	return p
}

func selectionOf(g Globs, compile func([]string) globs) selection {
	return selection{all: g.Allow == nil, allow: compile(g.Allow), deny: compile(g.Deny)}
}

func compileRule(r Rule) *rule {
	c := &rule{Rule: r}
	compiled := func(patterns []string, compile func([]string) globs) *globs {
		if patterns == nil {
			return nil
		}
		g := compile(patterns)
		return &g
	}
	uris := compiled(r.What.Resources, compileURIs)
	c.kinds = [call.Kinds]*globs{
		call.Tool: compiled(r.What.Tools, compileNames), call.Prompt: compiled(r.What.Prompts, compileNames),
		call.Resource: uris, call.Template: uris,
	}
	c.anyKind = c.kinds == [call.Kinds]*globs{}
	c.upstreams = compiled(r.What.Upstreams, compileNames)
	if r.When != nil {
		c.uses = r.When.uses
	}
	if l := r.Limit; l != nil {
		own := *l
		own.Rule, own.Burst = r.Name, max(1, l.Burst, int(min(l.Rate, 1e9)))
		if l.Burst > 0 {
			own.Burst = l.Burst
		}
		c.Limit = &own
	}
	return c
}

// at reports whether the rule is about the upstream.
func (r *rule) at(upstream string) bool {
	return r.upstreams == nil || r.upstreams.allows(candidate{upstream, ""})
}

// refuses returns the rule that keeps a native name out, "" if none does.
func (s *selection) refuses(native candidate) string {
	switch {
	case s.deny.restricts(native):
		return RuleUpstreamDeny
	case !s.all && !s.allow.allows(native):
		return RuleUpstreamAllow
	}
	return ""
}

// restricts reports whether the selection keeps anything out.
func (s *selection) restricts() bool {
	return !s.all && !s.allow.matchesAll() || len(s.deny.written) > 0
}
