package catalog

import (
	"fmt"
	"sync"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

func who(subject string, groups ...string) *call.Principal {
	return &call.Principal{Subject: subject, Groups: groups}
}

func condition(t *testing.T, text string) *policy.Condition {
	t.Helper()
	c, faults := policy.NewCondition(text)
	if faults != nil {
		t.Fatal(faults)
	}
	return c
}

func TestViewsAreSharedByRights(t *testing.T) {
	tbl := Build(Options{Policy: policy.MustNew(policy.Options{Rules: []policy.Rule{
		{Name: "a", Effect: policy.Allow, Who: policy.Who{Groups: []string{"a"}}, What: policy.What{Tools: []string{"f__*"}}},
		{Name: "b", Effect: policy.Confirm, Who: policy.Who{Groups: []string{"b"}}, What: policy.What{Tools: []string{"f__*"}}},
		{Name: "c", Effect: policy.Allow, Who: policy.Who{Groups: []string{"c"}}, What: policy.What{Tools: []string{"f__one"}}},
	}})}, []Source{source(t, "f", "f", tool("one"), tool("two"))})
	ann := tbl.View(who("ann", "a"), nil)
	if tbl.View(who("bob", "a", "z"), &call.Client{Revision: wire.Rev20251125}) != ann {
		t.Error("two principals with the same rights do not share a view")
	}
	confirming := tbl.View(who("cid", "b"), nil)
	if confirming == ann || confirming.listings != ann.listings {
		t.Error("views with equal lists and other decisions must share only the lists")
	}
	if less := tbl.View(who("dee", "c"), nil); less.listings == ann.listings || len(less.listed[call.Tool]) != 1 {
		t.Error("different lists are shared")
	}
	page := pageOf(t, ann, wire.Rev20260728, "")
	if !wire.ValueOf(page).Get("cacheScope").IsString("private") {
		t.Errorf("the list depends on the caller, but is not private: %s", page)
	}
}

// Principals whose rules are the same share a view, also if rules name them one by one.
func TestPrincipalsWithTheSameRulesShareAView(t *testing.T) {
	const principals, rights = 10_000, 100
	o := policy.Options{}
	for i := range rights {
		var subjects []string
		for p := i; p < principals; p += rights {
			subjects = append(subjects, fmt.Sprint("p", p))
		}
		o.Rules = append(o.Rules, policy.Rule{
			Name: fmt.Sprint("r", i), Effect: policy.Allow, Who: policy.Who{Subjects: subjects}, What: policy.What{Tools: []string{fmt.Sprint("u0__tool_", i)}},
		})
	}
	tbl := Build(Options{Policy: policy.MustNew(o)}, many(t, 1000))
	views := make(map[*View]bool)
	for p := range principals {
		v := tbl.View(who(fmt.Sprint("p", p)), nil)
		views[v] = true
		if want := fmt.Sprint("u0__tool_", p%rights); len(v.listed[call.Tool]) != 1 || v.listed[call.Tool][0].Public != want {
			t.Fatalf("principal %d sees %d tools, want %s alone", p, len(v.listed[call.Tool]), want)
		}
	}
	if len(views) != rights || len(tbl.views.views) != rights || len(tbl.views.callers) > maxCallers {
		t.Errorf("%d views, %d kept for %d callers, want %d", len(views), len(tbl.views.views), len(tbl.views.callers), rights)
	}
}

func TestViewsAreBounded(t *testing.T) {
	tbl := Build(Options{Policy: policy.MustNew(policy.Options{Rules: []policy.Rule{
		{Name: "own", Effect: policy.Allow, When: condition(t, `principal.subject.startsWith("s") || args.x == principal.subject`)},
	}})}, []Source{source(t, "f", "f", tool("one"))})
	first := tbl.View(who("s0"), nil)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range maxViews {
				if v := tbl.View(who(fmt.Sprint("s", i+g)), nil); v.listings != first.listings {
					t.Error("equal lists are not shared")
					return
				}
				tbl.View(who("s0"), nil)
			}
		})
	}
	wg.Wait()
	if n := len(tbl.views.views); n > maxViews {
		t.Errorf("%d views are kept, want at most %d", n, maxViews)
	}
	if tbl.View(who("s0"), nil) != first {
		t.Error("the most used view was dropped")
	}
}

// A cursor reveals nothing about upstreams that its holder may not see, and causes no
// request to them.
func TestCursorsRevealNothingHidden(t *testing.T) {
	rule := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{{Name: "d", Effect: policy.Deny, What: policy.What{Upstreams: []string{"secret"}}}}})
	open, secret, last := source(t, "a", "a", tool("1")), source(t, "secret", "secret", tool("2")), source(t, "z", "z", tool("3"), tool("4"))
	with := Build(Options{Policy: rule, PageItems: 1}, []Source{open, secret, last}).View(call.Anonymous, nil)
	without := Build(Options{Policy: rule, PageItems: 1}, []Source{open, last}).View(call.Anonymous, nil)
	for i := range 3 {
		if a, b := with.after(call.Tool, i).String(), without.after(call.Tool, i).String(); a != b {
			t.Errorf("the cursor after item %d is %s, and %s without the hidden items", i, a, b)
		}
	}
	made := cursor{kind: call.Tool, upstream: "secret"}
	if a, b := with.locate(made), without.locate(made); a != b {
		t.Errorf("a forged cursor leads to item %d, and to %d without the hidden items", a, b)
	}
}

// The metadata of a listed resource applies to every spelling of its URI.
func TestSpellingsOfListedResources(t *testing.T) {
	secret := `{"name":"s","uri":"file:///s","mimeType":"secret/x"}`
	tbl := Build(Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		{Name: "d", Effect: policy.Deny, When: condition(t, `has(resource.mimeType) && resource.mimeType == "secret/x"`)},
	}})}, []Source{source(t, "f", "f", secret)})
	v := tbl.View(call.Anonymous, nil)
	for _, uri := range []string{"f+file:///s", "f+file:///./s", "f+file:///%73", "f+file:///x/../s", "f+file:////s", "f+0:FILE:///s", "f+file:///s?q"} {
		if _, ok := v.Resolve(call.Resource, uri); ok {
			t.Errorf("%s resolves", uri)
		}
	}
	if _, ok := v.Resolve(call.Resource, "f+file:///t"); !ok {
		t.Error("an unlisted URI does not resolve")
	}
}

// ruledByGroups returns a table of 1,000 tools with 1,000 rules for fifty groups.
func ruledByGroups(t testing.TB) *Table {
	o := policy.Options{}
	for i := range 1000 {
		o.Rules = append(o.Rules, policy.Rule{
			Name: fmt.Sprint("r", i), Effect: policy.Allow, Who: policy.Who{Groups: []string{fmt.Sprint("g", i%50)}},
			What: policy.What{Tools: []string{fmt.Sprint("u*__tool_", i)}},
		})
	}
	return Build(Options{Policy: policy.MustNew(o)}, many(t, 1000))
}

// A list is built once for a set of rights. For another caller with the same rights, only the
// key of these rights is computed, at no cost for each item or rule.
func TestListsAreBuiltOnceForRights(t *testing.T) {
	tbl := ruledByGroups(t)
	first, _, err := tbl.View(who("ann", "g1", "g2", "staff"), nil).Page(call.Tool, wire.Rev20260728, "", since)
	if err != nil || first.Raw == nil {
		t.Fatal(err)
	}
	bob := who("bob", "g2", "g1", "other")
	var page call.Result
	allocs := testing.AllocsPerRun(100, func() {
		if page, _, err = tbl.View(bob, nil).Page(call.Tool, wire.Rev20260728, "", since); err != nil {
			t.Fatal(err)
		}
	})
	if string(page.Raw) != string(first.Raw) || &page.Raw[0] != &first.Raw[0] {
		t.Error("the list was built again for a principal with the same rights")
	}
	if allocs > 3 {
		t.Errorf("%v allocations, want only those for a key", allocs)
	}
}

// BenchmarkListOfRights measures a cached list for another caller with the same rights.
func BenchmarkListOfRights(b *testing.B) {
	tbl := ruledByGroups(b)
	ann := who("ann", "g1", "g2", "staff")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := tbl.View(ann, nil).Page(call.Tool, wire.Rev20260728, "", since); err != nil {
			b.Fatal(err)
		}
	}
}
