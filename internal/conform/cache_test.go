package conform

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcpgateway/internal/call"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// sameItem compares checked items, except for cached values.
var sameItem = cmp.Options{cmpopts.IgnoreUnexported(CheckedItem{}), cmpopts.IgnoreTypes(&toolschema.Schema{})}

// TestKeptItemsAreAsLookedAt compares cached checks with new ones, in every mode and
// revision, and after changes of the configuration.
func TestKeptItemsAreAsLookedAt(t *testing.T) {
	items := map[call.Kind][]wire.Raw{}
	for _, f := range corpus(t) {
		kinds := map[string]call.Kind{
			"tools/list": call.Tool, "prompts/list": call.Prompt, "resources/list": call.Resource, "resources/templates/list": call.Template,
		}
		kind, ok := kinds[f.section("method")]
		if !ok {
			continue
		}
		for m := range wire.ValueOf(wire.Raw(f.section("sent"))).Members() {
			for el := range m.Value.Elements() {
				items[kind] = append(items[kind], el.Raw())
			}
		}
	}
	items[call.Tool] = append(items[call.Tool], wire.Raw(`{"name":"a","description":"d\u200b","inputSchema":{"type":"object"},"outputSchema":{"type":"objekt"}}`))
	if len(items[call.Tool]) < 10 || len(items) != call.Kinds {
		t.Fatalf("the corpus has %d tools, and %d kinds", len(items[call.Tool]), len(items))
	}
	var kept Cache
	for range 3 {
		for _, lists := range []ItemChecker{
			{Mode: Warn}, {Mode: Repair}, {Mode: Strict}, {Mode: Off}, {Mode: Off, Inputs: true},
			{Mode: Warn, Revision: wire.Rev20241105}, {Mode: Warn, Revision: wire.Rev20260728}, {Mode: Repair, Sanitize: sanitize.Invisible},
		} {
			for range 2 { // the first build after a change, and the next one
				end := kept.Begin()
				for kind, all := range items {
					for _, item := range all {
						want := lists.Check(kind, item)
						with := lists
						with.Cache, with.Budget = &kept, toolschema.NewBudget()
						got := with.Check(kind, wire.Raw(string(item)))
						if diff := cmp.Diff(want, got, sameItem); diff != "" {
							t.Errorf("mode %d: %s (-looked at +kept):\n%s", lists.Mode, item, diff)
						}
						if (want.Input == nil) != (got.Input == nil) || (want.Output == nil) != (got.Output == nil) {
							t.Errorf("mode %d: %s: other schemas", lists.Mode, item)
						}
					}
				}
				end()
			}
		}
	}
}

func TestKeptItems(t *testing.T) {
	const text = `{"name":"a","inputSchema":{"type":"object","required":["x"]},"outputSchema":{"type":"object"},"readOnlyHint":true}`
	var kept Cache
	lists := ItemChecker{Mode: Warn, Revision: wire.Rev20251125, Cache: &kept}
	check := func(item string) CheckedItem {
		defer kept.Begin()()
		return lists.Check(call.Tool, wire.Raw(item))
	}
	first := check(text)
	if len(first.Violations) != 1 || first.Input == nil || first.Output == nil {
		t.Fatalf("%+v", first)
	}
	raw := wire.Raw(text)
	end := kept.Begin()
	again := lists.Check(call.Tool, raw)
	end()
	if again.Input != first.Input || &again.Violations[0] != &first.Violations[0] {
		t.Error("an item that is as it was is looked at again")
	}
	if !sameSlice(again.Item, raw) {
		t.Error("the item is that of the list before, which is kept for it")
	}
	for name, schema := range map[string]*toolschema.Schema{"inputSchema": first.Input, "outputSchema": first.Output} {
		if kept.schema(wire.ValueOf(raw).Get(name).Raw()) != schema {
			t.Errorf("the %s of a cached item was not kept", name)
		}
	}
	other := check(strings.Replace(text, `"readOnlyHint":true`, `"title":"t"`, 1))
	if len(other.Violations) != 0 || other.Input != first.Input {
		t.Errorf("of an item that changed: %+v", other)
	}
	if n := len(kept.previous); n != 1 {
		t.Errorf("%d items are kept, want those of the last table", n)
	}
	if outside := lists.Check(call.Tool, wire.Raw(text)); len(outside.Violations) != 1 || len(kept.previous) != 1 {
		t.Error("something is kept between tables")
	}
	// The tables of profiles are one build: one that has fewer items drops nothing.
	end = kept.Begin()
	whole := check(text)
	func() { defer kept.Begin()() }()
	end()
	if got := check(text); got.Input != whole.Input || &got.Violations[0] != &whole.Violations[0] {
		t.Error("a build without an item, within another build, dropped the item")
	}
	// Items with the same hash are distinguished by their bytes.
	end = kept.Begin()
	key := lists.key(call.Tool, wire.Raw(text))
	kept.keep(key, wire.Raw(`{"name":"another"}`), CheckedItem{Native: "another"})
	if got := lists.Check(call.Tool, wire.Raw(text)); got.Native != "a" {
		t.Errorf("taken for another: %+v", got)
	}
	end()
}

// TestKeptItemsCostTheSame checks that cached items count against the budget, and that
// items over the budget are not cached.
func TestKeptItemsCostTheSame(t *testing.T) {
	var kept Cache
	item := func(name string) wire.Raw {
		return wire.Raw(`{"name":"` + name + `","inputSchema":{"type":"object","x":[` + strings.Repeat(`{},`, 1000) + `{}]}}`)
	}
	size, err := toolschema.NewBudget().Compile(toolschema.New(wire.ValueOf(item("a")).Get("inputSchema").Raw()))
	if err != nil {
		t.Fatal(err)
	}
	build := func(left int, names ...string) (checked string) {
		defer kept.Begin()()
		budget := toolschema.NewBudget()
		budget.Spend(toolschema.MaxUpstreamNodes - left)
		lists := ItemChecker{Mode: Warn, Cache: &kept, Budget: budget}
		for _, name := range names {
			if it := lists.Check(call.Tool, item(name)); it.Input != nil {
				checked += name
			}
		}
		return checked
	}
	for i, tc := range []struct {
		left  int
		names string
		want  string
	}{{3 * size, "abc", "abc"}, {2 * size, "abc", "ab"}, {2 * size, "bca", "bc"}, {3*size - 1, "abc", "ab"}, {3 * size, "cba", "cba"}} {
		if got := build(tc.left, strings.Split(tc.names, "")...); got != tc.want {
			t.Errorf("%d: of %s are checked %q, want %q", i, tc.names, got, tc.want)
		}
	}
}

func TestExhaustedBudget(t *testing.T) {
	budget := toolschema.NewBudget()
	budget.Spend(toolschema.MaxUpstreamNodes)
	lists := ItemChecker{Mode: Warn, Budget: budget}
	it := lists.Check(call.Tool, wire.Raw(`{"name":"a","inputSchema":{"type":"object"}}`))
	if it.Unusable != "" || it.Input != nil || len(it.Violations) != 1 || it.Violations[0].Kind != SchemaUnchecked {
		t.Errorf("beyond the budget: %+v", it)
	}
}
