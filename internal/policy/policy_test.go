package policy

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestDecide(t *testing.T) {
	upstreams := map[string]Upstream{
		"files": {
			Tools:     Globs{Allow: []string{"read_*", "list_*"}, Deny: []string{"*_secret"}},
			Prompts:   Globs{Allow: []string{}},
			Resources: Globs{Deny: []string{"file:///etc/*"}},
		},
	}
	tests := []struct {
		name     string
		fallback Effect
		item     Item
		want     Decision
	}{
		{"allowed by glob", Allow, Item{Kind: call.Tool, Upstream: "files", Native: "read_file"}, Decision{Effect: Allow, Rule: RuleDefault}},
		{"matched by no allow glob", Allow, Item{Kind: call.Tool, Upstream: "files", Native: "write_file"}, Decision{Effect: Deny, Rule: RuleUpstreamAllow}},
		{"deny wins over allow", Allow, Item{Kind: call.Tool, Upstream: "files", Native: "read_secret"}, Decision{Effect: Deny, Rule: RuleUpstreamDeny}},
		{"public names are not judged", Allow, Item{Kind: call.Tool, Upstream: "files", Public: "read_x", Native: "write"}, Decision{Effect: Deny, Rule: RuleUpstreamAllow}},
		{"an empty allow list lets nothing through", Allow, Item{Kind: call.Prompt, Upstream: "files", Native: "p"}, Decision{Effect: Deny, Rule: RuleUpstreamAllow}},
		{"no allow list lets everything through", Allow, Item{Kind: call.Resource, Upstream: "files", Native: "file:///a"}, Decision{Effect: Allow, Rule: RuleDefault}},
		{"slashes match", Allow, Item{Kind: call.Resource, Upstream: "files", Native: "file:///etc/ssl/key"}, Decision{Effect: Deny, Rule: RuleUpstreamDeny}},
		{"a template by its text", Allow, Item{Kind: call.Template, Upstream: "files", Native: "file:///etc/{name}"}, Decision{Effect: Deny, Rule: RuleUpstreamDeny}},
		{"an upstream without globs", Allow, Item{Kind: call.Tool, Upstream: "other", Native: "x"}, Decision{Effect: Allow, Rule: RuleDefault}},
		{"the default denies", Deny, Item{Kind: call.Tool, Upstream: "other", Native: "x"}, Decision{Effect: Deny, Rule: RuleDefault}},
		{"an allow glob grants nothing", Deny, Item{Kind: call.Tool, Upstream: "files", Native: "read_file"}, Decision{Effect: Deny, Rule: RuleDefault}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := MustNew(Options{Default: tt.fallback, Upstreams: upstreams})
			if diff := cmp.Diff(tt.want, decide(p, anyone, tt.item, Request{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// anyone is the caller of tests with a single principal.
var anyone = Caller{Principal: call.Anonymous, Revision: wire.Rev20251125}

func decide(p *Policy, c Caller, it Item, q Request) Decision {
	return p.Rights(c).ForItem(it).Decide(q)
}

func TestZeroOptionsDeny(t *testing.T) {
	if d := decide(MustNew(Options{}), anyone, Item{Native: "x"}, Request{}); d.Effect != Deny || d.Effect.String() != "deny" {
		t.Errorf("the zero policy: %+v", d)
	}
}

func TestDecideDoesNotAllocate(t *testing.T) {
	p := MustNew(Options{Default: Allow, Upstreams: map[string]Upstream{
		"files": {Tools: Globs{Allow: []string{"a*b*c", "read_*"}, Deny: []string{"*x*y*"}}},
	}})
	j := p.Rights(anyone).ForItem(Item{Kind: call.Tool, Upstream: "files", Public: "files__read_file", Native: "read_file"})
	if n := testing.AllocsPerRun(100, func() { j.Decide(Request{}) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	// A decision about a URI with a limit does not allocate either.
	p = MustNew(Options{Rules: []Rule{
		{Name: "all", Effect: Allow, What: What{Resources: []string{"files+*"}}, Limit: &Limit{Rate: 1}},
		{Name: "big", Effect: Allow, What: What{Resources: []string{"files+file:///big"}}, Limit: &Limit{Rate: 1}},
	}})
	j = p.Rights(anyone).ForItem(resource("file:///big?y"))
	if n := testing.AllocsPerRun(100, func() { j.Decide(Request{}) }); n != 0 {
		t.Errorf("a URI: %v allocations, want none", n)
	}
}

// Deny, confirm and limit rules about a name also apply to an item that has another name only
// because of a clash. Allow rules do not.
func TestPreferredName(t *testing.T) {
	it := Item{Kind: call.Tool, Upstream: "two", Public: "two__x", PreferredName: "x", Native: "x"}
	rule := func(effect Effect, what What, more func(*Rule)) *Policy {
		r := Rule{Name: "r", Effect: effect, What: what}
		if more != nil {
			more(&r)
		}
		fallback := Allow
		if effect == Allow {
			fallback = Deny
		}
		return MustNew(Options{Default: fallback, Rules: []Rule{r}})
	}
	x := What{Tools: []string{"x"}}
	for name, tt := range map[string]struct {
		p    *Policy
		want Effect
	}{
		"deny":                      {rule(Deny, x, nil), Deny},
		"deny, of the upstream":     {rule(Deny, What{Tools: []string{"x"}, Upstreams: []string{"two"}}, nil), Deny},
		"deny, of another upstream": {rule(Deny, What{Tools: []string{"x"}, Upstreams: []string{"one"}}, nil), Allow},
		"deny, by a condition":      {rule(Deny, What{}, func(r *Rule) { r.When = when(t, `tool.name == "x"`) }), Deny},
		"confirm":                   {rule(Confirm, x, nil), Confirm},
		"allow":                     {rule(Allow, x, nil), Deny},
		"allow the public name":     {rule(Allow, What{Tools: []string{"two__x"}}, nil), Allow},
	} {
		if d := decide(tt.p, anyone, it, Request{}); d.Effect != tt.want {
			t.Errorf("%s: %s, want %s", name, d.Effect, tt.want)
		}
	}
	both := MustNew(Options{Rules: []Rule{
		{Name: "two", Effect: Allow, What: What{Upstreams: []string{"two"}}},
		{Name: "x", Effect: Allow, What: x, Limit: &Limit{Concurrent: 1}},
	}})
	if d := decide(both, anyone, it, Request{}); d.Effect != Allow || d.Rule != "two" || len(d.Limits) != 1 {
		t.Errorf("a limit of the name: %+v", d)
	}
	e := rule(Deny, x, nil).Explain(anyone, it, Request{})
	if i := slices.IndexFunc(e.Steps, func(s Step) bool { return s.Reason == `it would be named "x" if no other item had that name` }); i < 0 {
		t.Errorf("explained as %+v", e.Steps)
	}
}

func TestReaches(t *testing.T) {
	leads := [call.Kinds][]string{call.Tool: {"db__"}, call.Prompt: {"db__"}, call.Resource: {"db+", "ui://db"}, call.Template: {"db+"}}
	for _, tt := range []struct {
		name string
		opts Options
		want bool
	}{
		{"the default allows", Options{Default: Allow}, true},
		{"the default denies", Options{}, false},
		{"a rule for all", Options{Rules: []Rule{{Effect: Allow}}}, true},
		{"a rule for the upstream", Options{Rules: []Rule{{Effect: Confirm, What: What{Upstreams: []string{"d*"}}}}}, true},
		{"a rule for another", Options{Rules: []Rule{{Effect: Allow, What: What{Upstreams: []string{"files"}}}}}, false},
		{"possible names", Options{Rules: []Rule{{Effect: Allow, What: What{Tools: []string{"*_read"}}}}}, true},
		{"impossible names", Options{Rules: []Rule{{Effect: Allow, What: What{Tools: []string{"files__*"}, Resources: []string{"files+*"}}}}}, false},
		{"a deny rule for the upstream", Options{Default: Allow, Rules: []Rule{{Effect: Deny, What: What{Upstreams: []string{"db"}}}}}, false},
		{"a deny rule for all tools", Options{Default: Allow, Rules: []Rule{{Effect: Deny, What: What{Tools: []string{"*"}}}}}, true},
		{"nothing is let through", Options{Default: Allow, Upstreams: map[string]Upstream{"db": {
			Tools: Globs{Allow: []string{}}, Prompts: Globs{Deny: []string{"*"}}, Resources: Globs{Allow: []string{}},
		}}}, false},
	} {
		if got := MustNew(tt.opts).Rights(anyone).MayAllow("db", leads); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
