package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func some[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func subset(r *rand.Rand, of ...string) []string {
	var out []string
	for _, s := range of {
		if r.IntN(2) == 0 {
			out = append(out, s)
		}
	}
	return out
}

// TestKeyIsSound tries random policies and callers: callers with the same key get the same
// decisions.
func TestKeyIsSound(t *testing.T) {
	conditions := []*Condition{nil, nil,
		when(t, `principal.subject == "ann"`), when(t, `principal.subject.startsWith("b")`), when(t, `size(principal.groups) > 1`), when(t, `principal.groups[0] == "g2"`),
		when(t, `"s2" in principal.scopes`), when(t, `principal.claims.team == "blue"`), when(t, `size(principal.claims) > 0`), when(t, `principal.proof == "jwt" || principal.issuer == "i2"`),
		when(t, `request.era == "modern"`), when(t, `request.revision > "2025-06-18"`), when(t, `args.n == 1`),
	}
	shared := 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := Options{Default: some(r, Deny, Allow)}
		for i := range 1 + r.IntN(4) {
			o.Rules = append(o.Rules, Rule{
				Name: fmt.Sprint(i), Effect: some(r, Deny, Allow, Confirm), Challenge: r.IntN(3) == 0,
				Who:  Who{some(r, nil, []string{"ann", "bob"}), some(r, nil, []string{"g1"}, []string{"g2", "g3"}), some(r, nil, []string{"s1", "s2"}), some(r, nil, []string{"i1"})},
				When: conditions[r.IntN(len(conditions))],
			})
		}
		p := MustNew(o)
		seen := map[string]Caller{}
		for range 200 {
			c := Caller{
				Principal: &call.Principal{
					Subject: some(r, "ann", "bob", "bea", "cid", ""), Groups: subset(r, "g1", "g2", "g3", "other"), Scopes: subset(r, "s1", "s2", "other"),
					Issuer: some(r, "i1", "i2", ""), AuthMethod: some(r, "jwt", "api-key"), Claims: some(r, nil, wire.Raw(`{"team":"blue"}`), wire.Raw(`{"team":"red"}`), wire.Raw(`{"team":"blue","x":1}`)),
				},
				Revision: some(r, wire.Rev20250618, wire.Rev20251125, wire.Rev20260728),
			}
			key := p.Key(c)
			first, again := seen[key]
			if !again {
				seen[key] = c
				continue
			}
			shared++
			for _, q := range []Request{{}, {Open: true}, {Params: withArgs(`{"n":1}`)}} {
				for _, it := range []Item{query, doc, greet} {
					a, b := decide(p, first, it, q), decide(p, c, it, q)
					if diff := cmp.Diff(a, b); diff != "" {
						t.Fatalf("policy %d: %+v and %+v have the same key and different decisions:\n%s", seed, first.Principal, c.Principal, diff)
					}
				}
			}
		}
	}
	if shared < 1000 {
		t.Errorf("only %d pairs of callers share a key: the test is too weak", shared)
	}
}

func TestKeyIgnoresUnusedAttributes(t *testing.T) {
	p := MustNew(Options{Rules: []Rule{{Name: "r", Effect: Allow, Who: Who{Groups: []string{"a"}}}}})
	if p.Key(caller(alice)) != p.Key(caller(bob)) {
		t.Error("principals that differ only in attributes without rules have different keys")
	}
	if MustNew(Options{Rules: []Rule{{Name: "r", Effect: Allow}}}).TellsCallersApart() {
		t.Error("TellsCallersApart is true without a rule about callers")
	}
}

// thousandRules returns a policy of a thousand rules for fifty groups, one with a condition.
func thousandRules(t testing.TB) (*Policy, Caller) {
	o := Options{}
	for i := range 1000 {
		r := Rule{
			Name: fmt.Sprint("r", i), Effect: some(rand.New(rand.NewPCG(uint64(i), 0)), Allow, Allow, Confirm, Deny),
			Who:  Who{Groups: []string{fmt.Sprint("g", i%50)}},
			What: What{Tools: []string{fmt.Sprintf("db__%d_*", i), "*_x_*_y"}, Upstreams: []string{"db"}},
		}
		if i == 500 {
			r.Effect, r.Who, r.What = Allow, Who{}, What{Tools: []string{"db__*"}}
			r.When = when(t, `tool.annotations.readOnlyHint && (!has(args.limit) || args.limit <= 1000)`)
		}
		o.Rules = append(o.Rules, r)
	}
	return MustNew(o), caller(&call.Principal{Subject: "ann", Groups: []string{"g1", "g2", "g7"}})
}

// median runs f and reports the median time of a run besides the mean, because other work on
// the machine disturbs the mean.
func median(b *testing.B, f func()) {
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		f()
		if len(took) < 1<<20 {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "median-ns")
}

// BenchmarkDecide measures the decision of one call: it looks up the rights of the caller by
// key, and the item is already evaluated for these rights.
func BenchmarkDecide(b *testing.B) {
	b.Run("no rules", func(b *testing.B) {
		p := MustNew(Options{Default: Allow})
		j := p.Rights(anyone).ForItem(query)
		b.ReportAllocs()
		for b.Loop() {
			p.Key(anyone)
			j.Decide(Request{Method: wire.MethodToolsCall})
		}
	})
	b.Run("1000 rules and a condition", func(b *testing.B) {
		p, c := thousandRules(b)
		j := p.Rights(c).ForItem(query)
		q := Request{Method: wire.MethodToolsCall, Params: withArgs(`{"sql":"select 1","limit":100}`)}
		if d := j.Decide(q); d.Effect != Allow || d.Rule != "r500" {
			b.Fatalf("%+v", d)
		}
		b.ReportAllocs()
		median(b, func() {
			p.Key(c)
			j.Decide(q)
		})
	})
	b.Run("1000 rules, an unlisted resource", func(b *testing.B) {
		p, c := thousandRules(b)
		r := p.Rights(c)
		it := Item{Kind: call.Resource, Upstream: "db", Native: "file:///a%20b/c", Public: "db+file:///a%20b/c"}
		b.ReportAllocs()
		median(b, func() { r.ForItem(it).Decide(Request{Method: wire.MethodResourcesRead}) })
	})
	b.Run("1000 rules, an item judged anew", func(b *testing.B) {
		p, c := thousandRules(b)
		r := p.Rights(c)
		b.ReportAllocs()
		for b.Loop() {
			r.ForItem(query)
		}
	})
}

// A condition about the caller alone decides for all items whether the caller can reach an
// upstream, before the items are known.
func TestReachesByConditionsOnCallers(t *testing.T) {
	leads := [call.Kinds][]string{call.Tool: {"db__"}, call.Resource: {"db+"}}
	rule := func(effect Effect, condition string) Options {
		o := Options{Rules: []Rule{{Name: "r", Effect: effect, When: when(t, condition)}}}
		if effect == Deny {
			o.Default = Allow
		}
		return o
	}
	for _, c := range []struct {
		name       string
		opts       Options
		alice, bob bool
	}{
		{"allow", rule(Allow, `"analyst" in principal.groups`), true, false},
		{"confirm", rule(Confirm, `"analyst" in principal.groups`), true, false},
		{"deny", rule(Deny, `!("analyst" in principal.groups)`), true, false},
		{"deny with the method", rule(Deny, `request.method != "x" || !("analyst" in principal.groups)`), true, false},
		{"allow some tools", rule(Allow, `has(principal.claims.team) && tool.name == "x"`), true, false},
		{"the era", rule(Deny, `request.era == "legacy" && !("analyst" in principal.groups)`), true, false},
		{"a missing claim denies", rule(Deny, `principal.claims.level < 3`), true, false},
		{"an item is not known", rule(Deny, `tool.name == "x"`), true, true},
		{"an argument is not known", rule(Deny, `args.x == "x"`), true, true},
		{"an annotation is not known", rule(Allow, `has(tool.annotations.readOnlyHint)`), true, true},
	} {
		p := MustNew(c.opts)
		for who, want := range map[*call.Principal]bool{alice: c.alice, bob: c.bob} {
			if got := p.Rights(caller(who)).MayAllow("db", leads); got != want {
				t.Errorf("%s: %s reaches the upstream: %v", c.name, who.Subject, got)
			}
		}
	}
}
