package policy

import (
	"fmt"
	"slices"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Globs select native names of one kind.
type Globs struct {
	Allow []string // nil selects every item, an empty list none
	Deny  []string
}

// Upstream selects the items of one upstream that the gateway publishes.
type Upstream struct {
	Tools     Globs
	Prompts   Globs
	Resources Globs // of URIs and of templates
}

// Selection selects items of all upstreams by globs of public names. An item that is published
// under another name because of a clash is kept out by a deny glob of either name, and let
// through by an allow glob of the name that it has.
type Selection Upstream

// Options configure a policy.
type Options struct {
	Default   Effect
	Upstreams map[string]Upstream // by name; the gateway passes on every item of others
	Rules     []Rule              // the names differ

	// Profile is the name of the profile whose policy it is, "" for the policy of all profiles: see
	// [Policy.Narrowed]. Conditions see it; that of all profiles is taken for DefaultProfile.
	Profile string
	Select  Selection // the zero Selection selects every item
}

// DefaultProfile is the name that conditions see where there is no profile.
const DefaultProfile = "default"

// Rule is one rule.
type Rule struct {
	Name   string
	Effect Effect
	Who    Who
	What   What
	When   *Condition // nil: always
	Limit  *Limit     // nil for none; without effect in rules that deny
	// Challenge also lists the items of the rule for callers who lack only one of its
	// scopes. It has no effect in rules that deny or name no scopes.
	Challenge bool
	File      string // where the rule is written
	Line      int
}

// Who selects principals. A nil list selects every principal. Another list selects principals with
// one of its values. All lists have to match.
type Who struct {
	Subjects, Groups, Scopes, Issuers []string
}

// What selects items by globs of public names and of names of upstreams. Without a list
// of any kind it selects items of all kinds.
type What struct {
	Tools, Resources, Prompts []string
	Upstreams                 []string // nil: all
	Admin                     bool     // the console, and no item: see [Policy.Console]
}

// Per says which calls a limit counts together.
type Per uint8

// The values of Per.
const (
	PerPrincipal Per = iota
	PerRule          // all calls that the rule matches
	PerUpstream
	PerTool // or prompt, or listed resource
)

// String returns the name of p in configurations.
func (p Per) String() string { return [...]string{"principal", "rule", "upstream", "tool"}[p] }

// Limit bounds the calls that a rule matches. The router enforces it.
type Limit struct {
	Rule       string
	Rate       float64       // calls a second; 0: unbounded
	Unit       time.Duration // of the rate as the rule states it: a second, a minute or an hour; 0: a second
	Burst      int           // calls at the same time, at least 1
	Concurrent int           // calls at one time; 0: unbounded
	Per        Per
}

// Stated returns the rate as the rule states it: 60 and "minute" for 60/m.
func (l *Limit) Stated() (calls float64, unit string) {
	switch l.Unit {
	case time.Minute:
		return l.Rate * 60, "minute"
	case time.Hour:
		return l.Rate * 3600, "hour"
	}
	return l.Rate, "second"
}

// Caller has the properties of the caller on which a decision may depend.
type Caller struct {
	Principal *call.Principal
	Revision  wire.Revision // "" if unknown: a condition that depends on it may hold

	profile string // of the policy that judges
}

// Item is the item of a decision.
type Item struct {
	Kind     call.Kind
	Upstream string
	Public   string   // name or URI as clients see it
	Native   string   // the same at the upstream
	Raw      wire.Raw // as lists show it to clients; nil for an unlisted item
	// PreferredName is the public name that the item would have if no other item had it, ""
	// if it has that name. A rule that denies, confirms or counts that name does so for this
	// item, too: which item has the name may depend on another upstream. A rule that allows
	// the name does not allow this item.
	PreferredName string
	// Leads are the beginnings of all public names that items of the kind at the upstream
	// may have, nil if unknown.
	Leads []string
	// Noncanonical says that the item is an unlisted resource whose URI is not in its
	// canonical spelling. Policy refuses it where it might refuse another resource of
	// the upstream.
	Noncanonical bool
}

// Request has the properties of the request on which a decision may depend.
type Request struct {
	Method string
	Params wire.Raw // as the client sent them; its arguments are the member "arguments"
	// Open says that the arguments of a tool or prompt are unknown. A condition that
	// depends on them may hold.
	Open bool
}

// Policy is compiled Options.
type Policy struct {
	fallback  Effect
	upstreams map[string]*[call.Kinds]selection
	rules     []*rule
	console   []Rule // about the console, and no item
	facts     callerFacts
	everyone  *Rights // of all callers, if no rule distinguishes them

	profile  string
	selected *[call.Kinds]selection // of public names; nil if it restricts nothing
	narrower *Policy                // also has to allow; nil for none
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

// New compiles a policy. It returns an error if an effect does not exist.
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
	p := &Policy{fallback: opts.Default, profile: opts.Profile, upstreams: make(map[string]*[call.Kinds]selection, len(opts.Upstreams))}
	for name, u := range opts.Upstreams {
		p.upstreams[name] = selectionsOf(u)
	}
	if s := selectionsOf(Upstream(opts.Select)); slices.ContainsFunc(s[:], func(s selection) bool { return s.restricts() }) {
		p.selected = s
	}
	for _, r := range opts.Rules {
		if r.What.Admin {
			p.console = append(p.console, r)
			continue
		}
		p.rules = append(p.rules, compileRule(r))
	}
	p.facts = facetsOf(p.rules)
	if p.facts.none() {
		p.everyone = p.newRights(Caller{Principal: call.Anonymous})
	}
	return p
}

func selectionsOf(u Upstream) *[call.Kinds]selection {
	resources := selectionOf(u.Resources, compileURIs)
	return &[call.Kinds]selection{
		call.Tool:     selectionOf(u.Tools, compileNames),
		call.Prompt:   selectionOf(u.Prompts, compileNames),
		call.Resource: resources,
		call.Template: resources,
	}
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
		own.Rule, own.Burst = r.Name, max(1, l.Burst)
		c.Limit = &own
	}
	return c
}

// at reports whether the rule applies to the upstream.
func (r *rule) at(upstream string) bool {
	return r.upstreams == nil || r.upstreams.allows(candidate{upstream, ""})
}

// denies reports whether a deny glob keeps a name out.
func (s *selection) denies(name candidate) bool { return s.deny.restricts(name) }

// lacks reports whether there is an allow list without a glob for the name.
func (s *selection) lacks(name candidate) bool { return !s.all && !s.allow.allows(name) }

// restricts reports whether the selection keeps anything out.
func (s *selection) restricts() bool {
	return !s.all && !s.allow.matchesAll() || len(s.deny.written) > 0
}
