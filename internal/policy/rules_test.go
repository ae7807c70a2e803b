package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// when compiles a valid condition.
func when(t testing.TB, text string) *Condition {
	t.Helper()
	c, faults := NewCondition(text)
	if faults != nil {
		t.Fatalf("%s: %v", text, faults)
	}
	return c
}

var (
	alice = &call.Principal{Subject: "alice", Issuer: "https://idp", Groups: []string{"analyst", "staff"}, Scopes: []string{"read"}, AuthMethod: "jwt", Claims: wire.Raw(`{"team":"blue","level":3}`)}
	bob   = &call.Principal{Subject: "bob", Issuer: "https://idp", Groups: []string{"staff"}, AuthMethod: "jwt"}
	query = Item{Kind: call.Tool, Upstream: "db", Public: "db__query", Native: "query",
		Raw: wire.Raw(`{"name":"db__query","annotations":{"readOnlyHint":true}}`)}
	drop = Item{Kind: call.Tool, Upstream: "db", Public: "db__drop", Native: "drop", Raw: wire.Raw(`{"name":"db__drop"}`)}
	doc  = Item{Kind: call.Resource, Upstream: "files", Public: "files+file:///a", Native: "file:///a",
		Raw: wire.Raw(`{"uri":"files+file:///a","mimeType":"text/plain"}`)}
	greet = Item{Kind: call.Prompt, Upstream: "db", Public: "db__greet", Native: "greet"}
)

// withArgs returns params with the arguments; "" means no arguments.
func withArgs(args string) wire.Raw {
	if args == "" {
		return nil
	}
	return wire.Raw(`{"name":"x","arguments":` + args + `}`)
}

func caller(p *call.Principal) Caller { return Caller{Principal: p, Revision: wire.Rev20251125} }

func TestRules(t *testing.T) {
	limit := &Limit{Rate: 2, Burst: 2}
	rules := func(rs ...Rule) Options { return Options{Rules: rs} }
	tests := []struct {
		name   string
		opts   Options
		who    *call.Principal
		item   Item
		args   string
		listed bool
		want   Decision
	}{
		{"nothing matches", rules(Rule{Name: "r", Effect: Allow, Who: Who{Groups: []string{"admin"}}}), alice, query, "", false, Decision{Rule: RuleDefault}},
		{"one value of a list is enough", rules(Rule{Name: "r", Effect: Allow, Who: Who{Groups: []string{"admin", "staff"}}, File: "f", Line: 3}), alice, query, "", true, Decision{Effect: Allow, Rule: "r", File: "f", Line: 3}},
		{"all lists have to hold", rules(Rule{Name: "r", Effect: Allow, Who: Who{Groups: []string{"staff"}, Subjects: []string{"bob"}}}), alice, query, "", false, Decision{Rule: RuleDefault}},
		{"issuers", rules(Rule{Name: "r", Effect: Allow, Who: Who{Issuers: []string{"https://other"}}}), alice, query, "", false, Decision{Rule: RuleDefault}},
		{"an empty list matches no principal", rules(Rule{Name: "r", Effect: Allow, Who: Who{Groups: []string{}}}), alice, query, "", false, Decision{Rule: RuleDefault}},
		{"kinds are alternatives", rules(Rule{Name: "r", Effect: Allow, What: What{Tools: []string{"x"}, Prompts: []string{"*"}}}), alice, greet, "", true, Decision{Effect: Allow, Rule: "r"}},
		{"an unnamed kind", rules(Rule{Name: "r", Effect: Allow, What: What{Tools: []string{"*"}}}), alice, doc, "", false, Decision{Rule: RuleDefault}},
		{"upstreams narrow all kinds", rules(Rule{Name: "r", Effect: Allow, What: What{Tools: []string{"*"}, Upstreams: []string{"files"}}}), alice, query, "", false, Decision{Rule: RuleDefault}},
		{"upstreams alone mean all kinds", rules(Rule{Name: "r", Effect: Allow, What: What{Upstreams: []string{"files"}}}), alice, doc, "", true, Decision{Effect: Allow, Rule: "r"}},
		{"public names are matched", rules(Rule{Name: "r", Effect: Allow, What: What{Tools: []string{"query"}}}), alice, query, "", false, Decision{Rule: RuleDefault}},
		{"deny wins", rules(Rule{Name: "a", Effect: Allow}, Rule{Name: "c", Effect: Confirm}, Rule{Name: "d", Effect: Deny}), alice, query, "", false, Decision{Rule: "d"}},
		{"confirm wins over allow", rules(Rule{Name: "a", Effect: Allow}, Rule{Name: "c", Effect: Confirm}), alice, query, "", true, Decision{Effect: Confirm, Obligations: Obligations{Confirm: true}, Rule: "c"}},
		{"the first of one effect decides", rules(Rule{Name: "a", Effect: Allow}, Rule{Name: "b", Effect: Allow}), alice, query, "", true, Decision{Effect: Allow, Rule: "a"}},
		{"a rule wins over the default", Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny, What: What{Tools: []string{"db__d*"}}}}}, alice, drop, "", false, Decision{Rule: "d"}},
		{"the upstream's own lists win over rules", Options{Rules: []Rule{{Name: "a", Effect: Allow}}, Upstreams: map[string]Upstream{"db": {Tools: Globs{Deny: []string{"drop"}}}}}, alice, drop, "", false, Decision{Rule: RuleUpstreamDeny}},
		{"limits of all matching rules", rules(Rule{Name: "a", Effect: Allow, Limit: limit}, Rule{Name: "b", Effect: Allow, Limit: limit}, Rule{Name: "c", Effect: Allow, Limit: limit, Who: Who{Groups: []string{"admin"}}}), alice, query, "", true,
			Decision{Effect: Allow, Rule: "a", Obligations: Obligations{Limits: []*Limit{{Rule: "a", Rate: 2, Burst: 2}, {Rule: "b", Rate: 2, Burst: 2}}}}},
		{"no limits for a denied call", rules(Rule{Name: "a", Effect: Allow, Limit: limit}, Rule{Name: "d", Effect: Deny}), alice, query, "", false, Decision{Rule: "d"}},

		{"a condition on annotations", rules(Rule{Name: "r", Effect: Allow, When: when(t, `tool.annotations.readOnlyHint`)}), alice, query, "", true, Decision{Effect: Allow, Rule: "r"}},
		{"a missing annotation: allow does not match", rules(Rule{Name: "r", Effect: Allow, When: when(t, `tool.annotations.readOnlyHint`)}), alice, drop, "", false, Decision{Rule: RuleDefault}},
		{"deny does", Options{Default: Allow, Rules: []Rule{{Name: "r", Effect: Deny, When: when(t, `tool.annotations.destructiveHint`)}}}, alice, drop, "", false, Decision{Rule: "r"}},
		{"confirm too", rules(Rule{Name: "r", Effect: Confirm, When: when(t, `tool.annotations.destructiveHint`)}), alice, drop, "", true, Decision{Effect: Confirm, Obligations: Obligations{Confirm: true}, Rule: "r"}},
		{"a condition with a result other than true or false: allow does not match", rules(Rule{Name: "r", Effect: Allow, When: when(t, `args.x`)}), alice, query, `{"x":"yes"}`, true, Decision{Rule: RuleDefault}},
		{"a true condition on arguments", rules(Rule{Name: "r", Effect: Allow, When: when(t, `!has(args.limit) || args.limit <= 1000`)}), alice, query, `{"limit":1000}`, true, Decision{Effect: Allow, Rule: "r"}},
		{"a false condition on arguments: listed, and refused", rules(Rule{Name: "r", Effect: Allow, When: when(t, `!has(args.limit) || args.limit <= 1000`)}), alice, query, `{"limit":1e4}`, true, Decision{Rule: RuleDefault}},
		{"an argument of another type than the rule expects", rules(Rule{Name: "r", Effect: Allow, When: when(t, `args.limit <= 1000`)}), alice, query, `{"limit":"10"}`, true, Decision{Rule: RuleDefault}},
		{"deny on arguments: listed", Options{Default: Allow, Rules: []Rule{{Name: "r", Effect: Deny, When: when(t, `args.force == true`)}}}, alice, query, `{"force":true}`, true, Decision{Rule: "r"}},
		{"a missing argument: deny matches", Options{Default: Allow, Rules: []Rule{{Name: "r", Effect: Deny, When: when(t, `args.force == true`)}}}, alice, query, `{}`, true, Decision{Rule: "r"}},
		{"arguments other than an object", rules(Rule{Name: "r", Effect: Allow, When: when(t, `!has(args.limit)`)}), alice, query, `[{"limit":1}]`, true, Decision{Rule: RuleDefault}},
		{"an item that arguments cannot allow is not listed", rules(Rule{Name: "r", Effect: Allow, When: when(t, `principal.subject == "bob" && args.x == 1`)}), alice, query, `{"x":1}`, false, Decision{Rule: RuleDefault}},
		{"all of a principal", rules(Rule{Name: "r", Effect: Allow, When: when(t, `principal.claims.team == "blue" && principal.claims.level >= 3 && "staff" in principal.groups && "read" in principal.scopes && principal.proof == "jwt" && principal.issuer == "https://idp"`)}), alice, query, "", true, Decision{Effect: Allow, Rule: "r"}},
		{"all of a request", rules(Rule{Name: "r", Effect: Allow, When: when(t, `request.method == "tools/call" && request.era == "legacy" && request.revision == "2025-11-25"`)}), alice, query, "", true, Decision{Effect: Allow, Rule: "r"}},
		{"all of a resource", rules(Rule{Name: "r", Effect: Allow, When: when(t, `resource.uri == "files+file:///a" && resource.native == "file:///a" && resource.upstream == "files" && resource.mimeType == "text/plain" && !has(tool.name)`)}), alice, doc, "", true, Decision{Effect: Allow, Rule: "r"}},
		{"a prompt", rules(Rule{Name: "r", Effect: Allow, When: when(t, `prompt.name == "db__greet" && prompt.native == "greet" && prompt.upstream == "db"`)}), alice, greet, "", true, Decision{Effect: Allow, Rule: "r"}},
		{"a field of another kind is an error", rules(Rule{Name: "r", Effect: Allow, When: when(t, `tool.name != ""`)}), alice, doc, "", false, Decision{Rule: RuleDefault}},

		{"only scopes are missing", rules(Rule{Name: "r", Effect: Allow, Who: Who{Groups: []string{"staff"}, Scopes: []string{"write", "admin"}}, Challenge: true, File: "f", Line: 1}, Rule{Name: "s", Effect: Allow, Who: Who{Scopes: []string{"admin", "root"}}, Challenge: true}), alice, query, "", true,
			Decision{Rule: "r", File: "f", Line: 1, Challenge: true, Scopes: []string{"write", "admin", "root"}}},
		{"more than scopes is missing", rules(Rule{Name: "r", Effect: Allow, Who: Who{Groups: []string{"admin"}, Scopes: []string{"write"}}, Challenge: true}), alice, query, "", false, Decision{Rule: RuleDefault}},
		{"without challenge it is hidden", rules(Rule{Name: "r", Effect: Allow, Who: Who{Scopes: []string{"write"}}}), alice, query, "", false, Decision{Rule: RuleDefault}},
		{"a principal with the scope is not challenged", rules(Rule{Name: "r", Effect: Allow, Who: Who{Scopes: []string{"read"}}, Challenge: true}), alice, query, "", true, Decision{Effect: Allow, Rule: "r"}},
		{"a denied call is not challenged", rules(Rule{Name: "r", Effect: Allow, Who: Who{Scopes: []string{"write"}}, Challenge: true}, Rule{Name: "d", Effect: Deny}), alice, query, "", false, Decision{Rule: "d"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := MustNew(tt.opts)
			q := Request{Method: tt.item.Kind.Method(), Params: withArgs(tt.args)}
			j := p.Rights(caller(tt.who)).ForItem(tt.item)
			if diff := cmp.Diff(tt.want, j.Decide(q)); diff != "" {
				t.Errorf("the call:\n%s", diff)
			}
			if got := j.Listed().Visible(); got != tt.listed {
				t.Errorf("listed: %v, want %v", got, tt.listed)
			}
			e := p.Explain(caller(tt.who), tt.item, q)
			if diff := cmp.Diff(tt.want, e.Decision); diff != "" {
				t.Errorf("Explain decides otherwise:\n%s", diff)
			}
			if n := len(tt.opts.Rules) + 1; len(e.Steps) < n {
				t.Errorf("%d steps, want at least %d", len(e.Steps), n)
			}
			for _, s := range e.Steps {
				if s.Reason == "" || (s.Rule == tt.want.Rule) != s.Matches && !tt.want.Challenge && s.Rule == tt.want.Rule {
					t.Errorf("step %+v does not match the decision %+v", s, tt.want)
				}
			}
		})
	}
}

func TestUnknownRevision(t *testing.T) {
	p := MustNew(Options{Rules: []Rule{{Name: "r", Effect: Allow, When: when(t, `request.era == "modern"`)}}})
	for rev, want := range map[wire.Revision]bool{"": true, wire.Rev20251125: false, wire.Rev20260728: true} {
		if got := p.Rights(Caller{Principal: bob, Revision: rev}).ForItem(query).Listed().Visible(); got != want {
			t.Errorf("revision %q: listed %v, want %v", rev, got, want)
		}
	}
}
