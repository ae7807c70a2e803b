package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/wire"
)

// An item for which strict clients refuse a whole list is left out in every mode but off.
// Mode repair keeps it if the violation has a single correct repair.
func TestConformanceOfLists(t *testing.T) {
	const (
		bare = `{"name":"bare","inputSchema":{}}`
		odd  = `{"name":"odd","inputSchema":{"type":"object"},"title":null}`
		none = `{"name":"none","inputSchema":{"type":"array"}}`
		mild = `{"name":"mild","inputSchema":{"type":"object"},"readOnlyHint":true}`
	)
	tests := []struct {
		mode     conform.Mode
		listed   string
		findings []Issue
	}{
		{conform.Off, `[{"name":"u__bare","inputSchema":{}},{"name":"u__odd","inputSchema":{"type":"object"},"title":null},{"name":"u__none","inputSchema":{"type":"array"}},{"name":"u__mild","inputSchema":{"type":"object"},"readOnlyHint":true}]`, nil},
		{conform.Warn, `[{"name":"u__mild","inputSchema":{"type":"object"},"readOnlyHint":true}]`, []Issue{Quarantined, Quarantined, Quarantined, Nonconforming}},
		{conform.Repair, `[{"name":"u__bare","inputSchema":{"type":"object"}},{"name":"u__odd","inputSchema":{"type":"object"}},{"name":"u__mild","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]`, []Issue{Nonconforming, Nonconforming, Quarantined, Nonconforming}},
		{conform.Strict, `[]`, []Issue{Quarantined, Quarantined, Quarantined, Quarantined}},
	}
	for _, tt := range tests {
		s := source(t, "u", "u", bare, odd, none, mild)
		s.Revision, s.Rules.Conformance = wire.Rev20251125, tt.mode
		tbl := build(s)
		page, _, err := tbl.View(call.Anonymous, nil).Page(call.Tool, wire.Rev20260728, "", since)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.listed, string(wire.ValueOf(page.Raw).Get("tools").Raw())); diff != "" {
			t.Errorf("mode %d (-want +got):\n%s", tt.mode, diff)
		}
		var got []Issue
		for _, f := range tbl.Findings() {
			got = append(got, f.Issue)
		}
		if diff := cmp.Diff(tt.findings, got); diff != "" {
			t.Errorf("mode %d, findings (-want +got):\n%s", tt.mode, diff)
		}
	}
}

// Schemas of tools are compiled once for all tables.
func TestSchemasOfTools(t *testing.T) {
	const typed = `{"name":"typed","inputSchema":{"type":"object","required":["a"]},"outputSchema":{"type":"object"}}`
	entry := func(tbl *Table) *Entry {
		target, ok := tbl.View(call.Anonymous, nil).Resolve(call.Tool, "u__typed")
		if !ok {
			t.Fatal("the tool does not resolve")
		}
		return target.Entry
	}
	var schemas conform.Cache
	with := func(rules Rules) *Entry {
		s := source(t, "u", "u", typed)
		s.Rules = rules
		return entry(Build(Options{Policy: allowAll, Schemas: &schemas}, []Source{s}))
	}
	first := with(Rules{})
	if first.Input == nil || first.Output == nil {
		t.Fatalf("no schemas: %+v", first)
	}
	if again := with(Rules{}); again.Input != first.Input || again.Output != first.Output {
		t.Error("the next table has other schemas")
	}
	if off := with(Rules{Conformance: conform.Off}); off.Input != nil || off.Output != nil {
		t.Error("conformance off leaves compiled schemas")
	}
	if inputs := with(Rules{Conformance: conform.Off, ValidateInput: true}); inputs.Input == nil || inputs.Output != nil {
		t.Error("validate_input needs the input schema only")
	}
}

func TestSanitizedLists(t *testing.T) {
	s := source(t, "u", "u", `{"name":"a","description":"d\u200b\u001b[0m","inputSchema":{"type":"object"}}`)
	s.Instructions = "i\u200b"
	s.Rules.Sanitize = sanitize.ANSI | sanitize.Invisible
	tbl := build(s)
	view := tbl.View(call.Anonymous, nil)
	target, _ := view.Resolve(call.Tool, "u__a")
	if got := string(target.Entry.Raw); got != `{"name":"u__a","description":"d","inputSchema":{"type":"object"}}` {
		t.Errorf("the item is %s", got)
	}
	if got := view.Instructions(); strings.ContainsRune(got, 0x200b) {
		t.Errorf("instructions %q", got)
	}
	want := []Finding{
		{Issue: Sanitized, Upstream: "u", Removed: sanitize.Counts{0, 0, 1}, Reason: "characters were taken out of its instructions"},
		{Issue: Sanitized, Upstream: "u", Native: "a", Removed: sanitize.Counts{1, 0, 1}, Reason: "characters were taken out of its text"},
	}
	if diff := cmp.Diff(want, tbl.Findings()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// Items are published under the names of their overrides. For policy and for their
// upstream they keep the native ones.
func TestOverrides(t *testing.T) {
	s := source(t, "files", "files", tool("read_text_file"), tool("write_file"), tool("list"), tool("old"), prompt("review"))
	s.Rules.ToolOverride = map[string]Override{
		"read_text_file": {Name: "read", Title: "Read", Description: "Reads \"a\" file."},
		"write_file":     {Hidden: true},
		"old":            {Name: "list"},
		"gone":           {Title: "T"},
	}
	s.Rules.PromptOverride = map[string]Override{"review": {Name: "check"}}
	open := source(t, "open", "", tool("one"), tool("two"))
	open.Rules.ToolOverride = map[string]Override{"one": {Name: "two"}, "two": {Name: "three"}}
	allow := policy.MustNew(policy.Options{Default: policy.Allow, Upstreams: map[string]policy.Upstream{
		"files": {Tools: policy.Globs{Allow: []string{"read_text_file", "write_file", "list", "old"}}},
	}})
	tbl := Build(Options{Policy: allow}, []Source{s, open})
	hashed := s.Naming.HashedName("list")
	wantNames(t, tbl, call.Tool, "files__read", "files__list", hashed, "two", "three")
	wantNames(t, tbl, call.Prompt, "files__check")
	view := tbl.View(call.Anonymous, nil)
	for public, native := range map[string]string{"files__read": "read_text_file", "files__list": "list", hashed: "old", "two": "one", "three": "two"} {
		if target, ok := view.Resolve(call.Tool, public); !ok || target.Native != native {
			t.Errorf("%s leads to %q, %v; want %q", public, target.Native, ok, native)
		}
	}
	for _, public := range []string{"files__read_text_file", "files__write_file", "files__old", "one"} {
		if target, ok := view.Resolve(call.Tool, public); ok {
			t.Errorf("%s leads to %q", public, target.Native)
		}
	}
	target, _ := view.Resolve(call.Tool, "files__read")
	if want := `{"name":"files__read","inputSchema":{"type":"object"},"title":"Read","description":"Reads \"a\" file.","_meta":{"mcpgateway/native":"read_text_file"}}`; string(target.Entry.Raw) != want {
		t.Errorf("got  %s\nwant %s", target.Entry.Raw, want)
	}
	want := []string{
		`files: tool "gone" unmatched: the override is for an item that the upstream does not list`,
		`files: tool "old" clash: another item of this upstream has the name "files__list" (published as "` + hashed + `")`,
	}
	if diff := cmp.Diff(want, findings(tbl)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// A tool that is held back is not published and cannot be used. An override of it still
// has an item.
func TestHeldTools(t *testing.T) {
	space, err := namespace.New("files", "files", "__")
	if err != nil {
		t.Fatal(err)
	}
	src := Source{Naming: space, HeldTools: []string{"it is new", "", ""}, Rules: Rules{ToolOverride: map[string]Override{"a": {Title: "A"}}}}
	src.Items[call.Tool] = []wire.Raw{
		wire.Raw(`{"name":"a","inputSchema":{"type":"object"}}`), wire.Raw(`{"name":"b","inputSchema":{"type":"object"}}`), wire.Raw(`{"name":"a","inputSchema":{"type":"object"},"description":"as accepted"}`),
	}
	src.Items[call.Prompt] = []wire.Raw{wire.Raw(`{"name":"a"}`)}
	table := Build(Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow})}, []Source{src})
	var got []string
	for _, e := range table.View(call.Anonymous, nil).Entries(call.Tool) {
		got = append(got, e.Public+" "+wire.ValueOf(e.Raw).Get("description").Str())
	}
	if want := []string{"files__b ", "files__a as accepted"}; !slices.Equal(got, want) {
		t.Errorf("published are %q, want %q", got, want)
	}
	if f := table.Findings(); len(f) != 1 || f[0] != (Finding{Issue: Held, Kind: call.Tool, Upstream: "files", Native: "a", HeldName: "files__a", Reason: "it is new"}) {
		t.Errorf("findings %v", f)
	}
	if n := len(table.View(call.Anonymous, nil).Entries(call.Prompt)); n != 1 {
		t.Errorf("%d prompts", n)
	}
}
