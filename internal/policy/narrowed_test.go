package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// narrowedItems are what random policies decide about. Public names are ordinary ones.
func narrowedItems() []Item {
	var items []Item
	for _, upstream := range []string{"a", "b"} {
		for _, name := range []string{"read", "write"} {
			items = append(items,
				Item{Kind: call.Tool, Upstream: upstream, Public: upstream + "__" + name, Native: name, Raw: wire.Raw(`{"annotations":{"readOnlyHint":` + fmt.Sprint(name == "read") + `}}`)},
				Item{Kind: call.Resource, Upstream: upstream, Public: upstream + "+file:///" + name, Native: "file:///" + name, Leads: []string{upstream + "+"}},
				Item{Kind: call.Resource, Upstream: upstream, Public: upstream + "+FILE:///" + name, Native: "FILE:///" + name, Leads: []string{upstream + "+"}, Noncanonical: true},
			)
		}
	}
	return append(items, Item{Kind: call.Tool, Upstream: "b", Public: "b__x", Native: "x", PreferredName: "a__read"})
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomOptions(t *testing.T, r *rand.Rand, name string) Options {
	globs := func() Globs {
		return Globs{
			Allow: pick(r, nil, nil, []string{"a__*"}, []string{"*+file:///read", "b__*"}, []string{}), Deny: pick(r, nil, nil, []string{"*write"}, []string{"a__read", "b+FILE*"}),
		}
	}
	o := Options{Default: pick(r, Deny, Allow, Allow), Profile: name}
	if r.IntN(2) == 0 {
		o.Upstreams = map[string]Upstream{"a": {Tools: Globs{Deny: []string{"write"}}}}
	}
	if name != "" {
		o.Default, o.Select = Allow, Selection{Tools: globs(), Resources: globs()}
	}
	for i := range r.IntN(4) {
		rule := Rule{Name: fmt.Sprint(name, i), Effect: pick(r, Allow, Deny, Confirm)}
		rule.Who = pick(r, Who{}, Who{}, Who{Groups: []string{"g"}}, Who{Subjects: []string{"ann"}})
		rule.What = pick(r, What{}, What{Tools: []string{"a__*"}}, What{Resources: []string{"*read"}}, What{Upstreams: []string{"b"}}, What{Tools: []string{"a__read"}})
		rule.When = pick(r, nil, nil, when(t, `tool.annotations.readOnlyHint`), when(t, `request.profile == "p"`), when(t, `"g" in principal.groups && request.era == "legacy"`))
		if rule.Effect != Deny && r.IntN(3) == 0 {
			rule.Limit = &Limit{Rate: 1}
		}
		o.Rules = append(o.Rules, rule)
	}
	return o
}

// TestNarrowed checks against both policies: the stricter decision holds with the obligations of
// both, and what is said about all items is true of each.
func TestNarrowed(t *testing.T) {
	callers := []Caller{
		{Principal: &call.Principal{Subject: "ann"}, Revision: wire.Rev20251125}, {Principal: &call.Principal{Subject: "bob", Groups: []string{"g"}}, Revision: wire.Rev20251125},
		{Principal: &call.Principal{Subject: "ann", Groups: []string{"g"}}, Revision: wire.Rev20260728},
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 14))
		common, own := randomOptions(t, r, ""), randomOptions(t, r, "p")
		p := MustNew(common).Narrowed(MustNew(own))
		alone, profile := MustNew(common).Narrowed(MustNew(Options{Default: Allow, Profile: "p"})), MustNew(own) // conditions of both see the profile
		for _, c := range callers {
			rights := p.Rights(c)
			for _, it := range narrowedItems() {
				q := Request{Method: it.Kind.Method(), Params: wire.Raw(`{}`)}
				a, b := alone.Rights(c).ForItem(it).Decide(q), profile.Rights(c).ForItem(it).Decide(q)
				got := rights.ForItem(it).Decide(q)
				if want := both(a, b); got.Effect != want.Effect || got.Rule != want.Rule || got.Confirm != want.Confirm || !sameLimits(got.Limits, want.Limits) {
					t.Fatalf("seed %d, %s: %+v of %+v and %+v", seed, it.Public, got, a, b)
				}
				if e := p.Explain(c, it, q); e.Decision.Effect != got.Effect || e.Decision.Rule != got.Rule {
					t.Fatalf("seed %d, %s: explained as %+v, is %+v", seed, it.Public, e.Decision, got)
				}
				var leads [call.Kinds][]string
				leads[it.Kind] = []string{it.Upstream}
				listed := rights.ForItem(it).Listed()
				if listed.Visible() && !rights.MayAllow(it.Upstream, leads) {
					t.Fatalf("seed %d, %s is visible, and nothing of its upstream may be", seed, it.Public)
				}
				if listed.Denied() && !it.Noncanonical && it.PreferredName == "" && !rights.MayRefuse(it.Kind, it.Upstream, nil) {
					t.Fatalf("seed %d, %s is denied, and nothing of its upstream may be: %+v", seed, it.Public, listed)
				}
				if profile.Selects(it) != (profile.leavesOut(&it) == "") || !profile.Selects(it) && listed.Visible() {
					t.Fatalf("seed %d, %s is visible, and not selected", seed, it.Public)
				}
				for _, other := range callers {
					if p.Key(c) == p.Key(other) && p.Rights(other).ForItem(it).Decide(q).Effect != got.Effect {
						t.Fatalf("seed %d, %s: two callers with one key have different rights", seed, it.Public)
					}
					k1, ok1 := rights.Key()
					if k2, ok2 := p.Rights(other).Key(); ok1 && ok2 && k1 == k2 && p.Rights(other).ForItem(it).Decide(q).Effect != got.Effect {
						t.Fatalf("seed %d, %s: two callers with the same rights get different decisions", seed, it.Public)
					}
				}
			}
		}
	}
}

// sameLimits compares limits by their rules, since two compiled policies have two of each.
func sameLimits(a, b []*Limit) bool {
	names := func(limits []*Limit) []string {
		var out []string
		for _, l := range limits {
			out = append(out, l.Rule)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return slices.Equal(names(a), names(b))
}

// TestNarrowedCountsTogether checks that profiles share the limits of the common policy.
func TestNarrowedCountsTogether(t *testing.T) {
	common := MustNew(Options{Default: Allow, Rules: []Rule{{Name: "slow", Effect: Allow, Limit: &Limit{Rate: 1}}}})
	it := Item{Kind: call.Tool, Upstream: "a", Public: "a__t", Native: "t"}
	limits := func(p *Policy) []*Limit {
		return p.Rights(Caller{Principal: call.Anonymous}).ForItem(it).Listed().Limits
	}
	want := limits(common)
	for _, name := range []string{"p", "q"} {
		own := MustNew(Options{Default: Allow, Profile: name, Rules: []Rule{{Name: "of " + name, Effect: Confirm, Limit: &Limit{Concurrent: 1}}}})
		if got := limits(common.Narrowed(own)); len(got) != 2 || got[0] != want[0] && got[1] != want[0] {
			t.Errorf("%s: limits %v, without that of all profiles", name, got)
		}
	}
}

// TestNarrowedWithoutRules checks that an item that the profile selects costs nothing more.
func TestNarrowedWithoutRules(t *testing.T) {
	p := MustNew(Options{Default: Allow}).Narrowed(MustNew(Options{Default: Allow, Profile: "p"}))
	if p.TellsCallersApart() {
		t.Error("a profile without rules tells callers apart")
	}
	rights, it := p.Rights(Caller{Principal: call.Anonymous}), Item{Kind: call.Tool, Upstream: "a", Public: "a__t", Native: "t"}
	if n := testing.AllocsPerRun(100, func() { rights.ForItem(it) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
