package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

// profileOf compiles a profile over sources whose upstreams have no tags unless told.
func profileOf(t testing.TB, o profile.Options) *profile.Profile {
	t.Helper()
	if o.Name == "" {
		o.Name = "p"
	}
	if o.Configured == nil {
		for _, name := range []string{"files", "git", "open"} {
			o.Configured = append(o.Configured, profile.Upstream{Name: name})
		}
	}
	p, err := profile.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func threeUpstreams(t testing.TB) []Source {
	return []Source{
		source(t, "files", "files", tool("read"), tool("write"), resource("file:///a"), resource("file:///etc/x"), template("file:///{+p}"), prompt("ask")),
		source(t, "git", "git", tool("read"), tool("push"), resource("https://h/"), prompt("ask")),
		source(t, "open", "", tool("search"), tool("git__read"), resource("https://h/"), resource("test://x"), template("test://{id}")),
	}
}

func TestProfileSelects(t *testing.T) {
	globs := func(allow []string, deny ...string) policy.Globs { return policy.Globs{Allow: allow, Deny: deny} }
	all := []string{"*"}
	tagged := []profile.Upstream{
		{Name: "files", Tags: []string{"local", "core"}},
		{Name: "git", Tags: []string{"remote"}, Tools: map[string][]string{"push": {"writes", "core"}}, Prompts: map[string][]string{"ask": {"writes"}}},
		{Name: "open"},
	}
	tests := []struct {
		name                      string
		o                         profile.Options
		tools, resources, prompts []string
	}{
		{
			"everything", profile.Options{},
			[]string{"files__read", "files__write", "git__read", "git__push", "search", "open__git__read"},
			[]string{"files+file:///a", "files+file:///etc/x", "https://h/", "test://x"}, []string{"files__ask", "git__ask"},
		},
		{
			"upstreams", profile.Options{Upstreams: []string{"open", "git"}},
			[]string{"git__read", "git__push", "search", "open__git__read"}, []string{"https://h/", "test://x"}, []string{"git__ask"},
		},
		{
			"a name stays if its rival is left out", profile.Options{Upstreams: []string{"open"}},
			[]string{"search", "open__git__read"}, []string{"https://h/", "test://x"}, []string{},
		},
		{
			"globs", profile.Options{Select: policy.Selection{
				Tools: globs([]string{"files__*", "*read"}, "files__w*"), Resources: globs(all, "FILES+FILE:///ETC"), Prompts: globs([]string{}),
			}},
			[]string{"files__read", "git__read", "open__git__read"}, []string{"files+file:///a", "https://h/", "test://x"}, []string{},
		},
		{
			"a deny glob covers the name that the item would have", profile.Options{Select: policy.Selection{Tools: globs(nil, "git__read")}},
			[]string{"files__read", "files__write", "git__push", "search"},
			[]string{"files+file:///a", "files+file:///etc/x", "https://h/", "test://x"}, []string{"files__ask", "git__ask"},
		},
		{
			"an allow glob covers the name that the item has", profile.Options{Select: policy.Selection{Tools: globs([]string{"git__read"})}},
			[]string{"git__read"}, []string{"files+file:///a", "files+file:///etc/x", "https://h/", "test://x"}, []string{"files__ask", "git__ask"},
		},
		{
			"a tag of an upstream", profile.Options{Tags: []string{"remote"}, Configured: tagged},
			[]string{"git__read", "git__push"}, []string{"https://h/"}, []string{"git__ask"},
		},
		{
			"any tag, also of an item", profile.Options{Tags: []string{"core", "none"}, Configured: tagged},
			[]string{"files__read", "files__write", "git__push"}, []string{"files+file:///a", "files+file:///etc/x"}, []string{"files__ask"},
		},
		{
			"everything that is given has to hold",
			profile.Options{Upstreams: []string{"git", "open"}, Tags: []string{"core"}, Configured: tagged, Select: policy.Selection{Tools: globs([]string{"*push", "search"})}},
			[]string{"git__push"}, []string{}, []string{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tbl := Build(Options{Policy: allowAll, Profile: profileOf(t, tt.o)}, threeUpstreams(t))
			wantNames(t, tbl, call.Tool, tt.tools...)
			wantNames(t, tbl, call.Resource, tt.resources...)
			wantNames(t, tbl, call.Prompt, tt.prompts...)
		})
	}
}

// TestProfileHidesUnlisted checks URIs that are not listed: by templates, by prefixes, and in
// other spellings.
func TestProfileHidesUnlisted(t *testing.T) {
	o := profile.Options{Upstreams: []string{"files", "open"}, Select: policy.Selection{
		Resources: policy.Globs{Allow: []string{"files+file:///pub/*", "test://*"}, Deny: []string{"*secret*"}},
	}}
	v := Build(Options{Policy: allowAll, Profile: profileOf(t, o)}, threeUpstreams(t)).View(call.Anonymous, nil)
	for _, tt := range []struct{ uri, upstream, native string }{
		{"files+file:///pub/a", "files", "file:///pub/a"},
		{"files+file:///a", "", ""},
		{"files+file:///etc/x", "", ""},
		{"files+file:///pub/secret", "", ""},
		{"files+file:///pub/SECRET", "", ""},
		{"files+file:///pub/%73ecret", "", ""},
		{"files+file:///pub/../etc/x", "", ""},
		{"files+0:file:///etc/x", "", ""},
		{"git+https://h/", "", ""},
		{"git+file:///pub/a", "", ""},
		{"https://h/", "", ""},
		{"https://h", "", ""},
		{"test://x", "open", "test://x"},
		{"test://other", "open", "test://other"},
		{"test://secret", "", ""},
		{"TEST://x", "", ""},
	} {
		resolves(t, v, call.Resource, tt.uri, tt.upstream, tt.native)
	}
}

// TestProfileDoesNotNameOthers checks that an upstream outside the profile is unknown in it,
// also while it is down.
func TestProfileDoesNotNameOthers(t *testing.T) {
	sources := threeUpstreams(t)
	sources[1] = down(sources[1])
	sources = append(sources, down(source(t, "new", "new")))
	o := profile.Options{Upstreams: []string{"files"}, Configured: []profile.Upstream{{Name: "files"}, {Name: "git"}, {Name: "open"}, {Name: "new"}}}
	tbl := Build(Options{Policy: allowAll, Profile: profileOf(t, o)}, sources)
	v := tbl.View(call.Anonymous, nil)
	for _, name := range []string{"git__push", "git__other", "new__x", "search", "other"} {
		resolves(t, v, call.Tool, name, "", "")
		if u := v.UnavailableFor(call.Tool, name); u != nil {
			t.Errorf("%s may belong to %+v", name, u)
		}
	}
	if u := v.Unavailable(); len(u) != 0 {
		t.Errorf("unavailable: %+v", u)
	}
	for _, name := range []string{"git", "open", "new"} {
		if _, ok := tbl.Part(name); ok || v.Part(name) != nil || v.Reaches(name) {
			t.Errorf("the profile knows the upstream %s", name)
		}
	}
	if near := v.SimilarNames(call.Tool, "git__pus"); near != nil {
		t.Errorf("near names: %q", near)
	}
}

// TestProfileSharesBytes checks that a profile costs no copy of an item.
func TestProfileSharesBytes(t *testing.T) {
	all := Build(Options{Policy: allowAll}, threeUpstreams(t))
	own := all.ForProfile(profileOf(t, profile.Options{Upstreams: []string{"git", "open"}}))
	for kind := range call.Kind(call.Kinds) {
		for _, e := range own.entries[kind] {
			if o := e.Ordinary(); &o.Raw[0] != &e.Raw[0] || !slices.Contains(all.entries[kind], o) {
				t.Errorf("%s %s has bytes of its own", kind, e.Public)
			}
		}
	}
	if diff := cmp.Diff([call.Kinds]int{call.Tool: 4, call.Resource: 2, call.Template: 1, call.Prompt: 1}, own.Counts()); diff != "" {
		t.Error(diff)
	}
}

// TestShortNames checks the names of a profile without prefixes. Policy and records use the ordinary names.
func TestShortNames(t *testing.T) {
	sources := func() []Source {
		files := source(t, "files", "files", tool("read"), tool("write"), tool("a b"), tool("call_tool"), prompt("ask"), resource("file:///a"))
		files.Rules.ToolOverride = map[string]Override{"write": {Name: "put"}}
		return []Source{
			files,
			source(t, "git", "git", tool("read"), tool("push"), tool("files__push"), tool(strings.Repeat("x", 61)), prompt("read")),
			source(t, "open", "", tool("search"), tool("push"), tool("git__push")),
		}
	}
	own := []profile.OwnItem{{Kind: call.Tool, Definition: wire.Raw(tool("call_tool"))}}
	for _, tt := range []struct {
		name    string
		o       profile.Options
		tools   []string
		prompts []string
	}{
		{
			"two that clash keep their prefixes", profile.Options{Own: own},
			[]string{
				"call_tool", "files__read", "put", "a_b_hc8687a08aa5d", "files__call_tool",
				"git__read", "git__push", "files__push", strings.Repeat("x", 61), "search", "push", "open__git__push",
			}, []string{"ask", "read"},
		},
		{
			"items that are not selected do not clash", profile.Options{Select: policy.Selection{Tools: policy.Globs{Deny: []string{"files__*", "push", "open__*"}}}},
			[]string{"read", "push", "files__push", strings.Repeat("x", 61), "search"}, []string{"ask", "read"},
		},
		{
			"upstreams that are not selected do not clash", profile.Options{Upstreams: []string{"open"}},
			[]string{"search", "push", "git__push"}, []string{},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.ShortNames = true
			tbl := Build(Options{Policy: allowAll, Profile: profileOf(t, tt.o)}, sources())
			wantNames(t, tbl, call.Tool, tt.tools...)
			wantNames(t, tbl, call.Prompt, tt.prompts...)
			// Names do not depend on which upstreams are up.
			asleep := sources()
			for i := range asleep {
				asleep[i] = down(asleep[i])
			}
			v := Build(Options{Policy: allowAll, Profile: profileOf(t, tt.o)}, asleep).View(call.Anonymous, nil)
			for _, name := range tt.tools {
				up, _ := tbl.View(call.Anonymous, nil).Resolve(call.Tool, name)
				if got, ok := v.Resolve(call.Tool, name); !ok || got.Part.Upstream() != up.Part.Upstream() || got.Native != up.Native {
					t.Errorf("while all are down %s resolves to %+v, %t", name, got, ok)
				}
			}
		})
	}
}

// TestOtherNamesAreSuggested checks that a caller who knows a tool by another name is told the one that this view has.
func TestOtherNamesAreSuggested(t *testing.T) {
	files := source(t, "files", "files", tool("read"), tool("read_with_sizes"), tool("write"))
	files.Rules.ToolOverride = map[string]Override{"write": {Name: "put"}}
	all := Build(Options{Policy: allowAll}, []Source{files})
	short := all.ForProfile(profileOf(t, profile.Options{ShortNames: true}))
	for _, tt := range []struct {
		name  string
		table *Table
		query string
		want  string
	}{
		{"with a prefix where names are short", short, "files__read", "read"},
		{"with a prefix and an override where names are short", short, "files__put", "put"},
		{"the native name with a prefix", short, "files__write", "put"},
		{"the native name with a prefix, in the ordinary view", all, "files__write", "files__put"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.table.View(call.Anonymous, nil).SimilarNames(call.Tool, tt.query); len(got) == 0 || got[0] != tt.want {
				t.Errorf("SimilarNames(%q) = %q, want %q first", tt.query, got, tt.want)
			}
		})
	}
}

// TestShortNamesOfUnknownItems checks names that may belong to an upstream of which nothing is known.
func TestShortNamesOfUnknownItems(t *testing.T) {
	p := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{{Name: "no", Effect: policy.Deny, What: policy.What{Tools: []string{"new__secret"}}}}})
	unknown := down(source(t, "new", "new"))
	unknown.NeverListed = true
	tbl := Build(Options{Policy: p, Profile: profileOf(t, profile.Options{ShortNames: true})}, []Source{source(t, "files", "files", tool("read")), unknown})
	wantNames(t, tbl, call.Tool, "read")
	v := tbl.View(call.Anonymous, nil)
	for name, ordinary := range map[string]string{"x": "new__x", "new__x": "new__x", "files__x": "new__files__x", "secret": "", "new__secret": ""} {
		u := v.UnavailableFor(call.Tool, name)
		target, ok := v.ResolveUnavailable(call.Tool, name, "new")
		if (ordinary != "") != ok || ok != (len(u) == 1) || ok && target.OrdinaryName() != ordinary {
			t.Errorf("%s may belong to %v, as %q, %t", name, u, target.OrdinaryName(), ok)
		}
	}
}

// TestOrdinaryNames checks that rules decide by ordinary names, whatever a profile calls an item.
func TestOrdinaryNames(t *testing.T) {
	rule := func(effect policy.Effect, tools ...string) policy.Rule {
		return policy.Rule{Name: "r" + strings.Join(tools, ""), Effect: effect, What: policy.What{Tools: tools}}
	}
	annotated := policy.Rule{Name: "annotated", Effect: policy.Deny, When: condition(t, "tool.annotations.destructiveHint && tool.name == 'git__wipe'")}
	common := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		rule(policy.Deny, "git__push"), rule(policy.Confirm, "git__pull"), rule(policy.Deny, "status"), annotated,
	}})
	wipe := `{"name":"wipe","annotations":{"destructiveHint":true},"inputSchema":{"type":"object"}}`
	tbl := Build(Options{Policy: common, Profile: profileOf(t, profile.Options{ShortNames: true, Trim: profile.Trim{Annotations: true}})}, []Source{
		source(t, "git", "git", tool("push"), tool("pull"), tool("status"), wipe),
	})
	wantNames(t, tbl, call.Tool, "pull", "status")
	v := tbl.View(call.Anonymous, nil)
	for _, name := range []string{"push", "git__push", "git__pull", "git__status", "wipe"} {
		resolves(t, v, call.Tool, name, "", "")
	}
	pull, _ := v.Resolve(call.Tool, "pull")
	if d := pull.Policy.Listed(); !d.NeedsConfirmation() || pull.OrdinaryName() != "git__pull" || v.OrdinaryName(call.Tool, "push") != "git__push" {
		t.Errorf("pull is %s: %+v", pull.OrdinaryName(), d)
	}
	same := v.TargetFor(call.Tool, pull.Part, "git__pull", "pull")
	if same.Entry != pull.Entry || same.Policy != pull.Policy || same.Public != "pull" || same.OrdinaryName() != "git__pull" {
		t.Errorf("by its ordinary name: %+v", same)
	}
	if hidden := v.TargetFor(call.Tool, pull.Part, "git__push", "push"); hidden.Entry != nil || !hidden.Policy.Listed().Denied() {
		t.Errorf("a hidden item: %+v", hidden)
	}
}

// TestTrimmedEntries checks that trimming changes what is published alone, and that items that stay the
// same share their bytes.
func TestTrimmedEntries(t *testing.T) {
	long := `{"name":"t","title":"T","description":"A long description.","inputSchema":{"type":"object","required":["a"]},"outputSchema":{"type":"object","required":["b"]}}`
	src := source(t, "a", "a", long, tool("u"))
	src.Rules.ValidateInput = true
	all := Build(Options{Policy: allowAll}, []Source{src})
	text := "Instructions of the profile."
	own := all.ForProfile(profileOf(t, profile.Options{Instructions: &text, Trim: profile.Trim{Description: 16, Titles: true, OutputSchema: true}}))
	trimmed, same := own.entries[call.Tool][0], own.entries[call.Tool][1]
	if want := `{"name":"a__t","description":"A long…","inputSchema":{"type":"object","required":["a"]}}`; string(trimmed.Raw) != want {
		t.Errorf("got %s, want %s", trimmed.Raw, want)
	}
	if whole := all.entries[call.Tool][0]; trimmed.Input != whole.Input || trimmed.Output != whole.Output || trimmed.Ordinary() != whole {
		t.Error("the schemas that calls are checked with are not those of the upstream")
	}
	if &same.Raw[0] != &all.entries[call.Tool][1].Raw[0] {
		t.Error("an item without anything to trim has bytes of its own")
	}
	if got := own.View(call.Anonymous, nil).Instructions(); got != text {
		t.Errorf("instructions: %q", got)
	}
}

// TestProfileKeepsRoutes checks that an unlisted URI does not lead to another upstream because
// the profile has fewer.
func TestProfileKeepsRoutes(t *testing.T) {
	sources := []Source{source(t, "files", ""), source(t, "open", "", resource("x:y"))}
	resolves(t, build(sources...).View(call.Anonymous, nil), call.Resource, "x:z", "", "")
	v := Build(Options{Policy: allowAll, Profile: profileOf(t, profile.Options{Upstreams: []string{"open"}})}, sources).View(call.Anonymous, nil)
	resolves(t, v, call.Resource, "x:y", "open", "x:y")
	resolves(t, v, call.Resource, "x:z", "", "")
}

// TestSelectsByAnnotations checks hints of tools, those that an override sets, and defaults.
func TestSelectsByAnnotations(t *testing.T) {
	annotated := func(name, annotations string) string {
		return `{"name":"` + name + `","inputSchema":{"type":"object"},"annotations":` + annotations + `}`
	}
	src := source(t, "files", "files", tool("plain"), annotated("reads", `{"readOnlyHint":true}`), annotated("adds", `{"destructiveHint":false,"openWorldHint":false}`),
		tool("told"), resource("file:///a"), prompt("ask"))
	src.Rules.ToolOverride = map[string]Override{"told": {Annotations: map[string]bool{"readOnlyHint": true, "idempotentHint": false}}}
	for _, tt := range []struct {
		hints map[string]bool
		want  []string
	}{
		{map[string]bool{"readOnlyHint": true}, []string{"files__reads", "files__told"}},
		{map[string]bool{"readOnlyHint": false}, []string{"files__plain", "files__adds"}},
		{map[string]bool{"destructiveHint": false}, []string{"files__reads", "files__adds", "files__told"}},
		{map[string]bool{"idempotentHint": true, "openWorldHint": true}, []string{"files__reads", "files__told"}},
		{map[string]bool{"openWorldHint": false}, []string{"files__adds"}},
	} {
		tbl := Build(Options{Policy: allowAll, Profile: profileOf(t, profile.Options{Annotations: tt.hints, Trim: profile.Trim{Annotations: true}})}, []Source{src})
		wantNames(t, tbl, call.Tool, tt.want...)
		wantNames(t, tbl, call.Resource, "files+file:///a")
		wantNames(t, tbl, call.Prompt, "files__ask")
		v := tbl.View(call.Anonymous, nil)
		if p := v.Parts()[0]; !v.Restricts(call.Tool, p) || v.Restricts(call.Prompt, p) {
			t.Error("the list of tools is taken for whole, or that of prompts for a part")
		}
	}
	if told := build(src).entries[call.Tool][3]; string(told.Raw) != `{"name":"files__told","inputSchema":{"type":"object"},"annotations":{"idempotentHint":false,"readOnlyHint":true}}` {
		t.Errorf("an override of hints makes %s", told.Raw)
	}
}

// TestDeniedByPreferredName checks that a template does not lead to a listed resource that is denied under the
// name that another upstream has.
func TestDeniedByPreferredName(t *testing.T) {
	p := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{{Name: "no", Effect: policy.Deny, What: policy.What{Resources: []string{"file:///x"}}}}})
	tbl := Build(Options{Policy: p}, []Source{
		source(t, "a", "", resource("file:///x"), template("file:///{+p}")),
		source(t, "b", "", resource("file:///x"), template("file:///{+p}")),
	})
	v := tbl.View(call.Anonymous, nil)
	resolves(t, v, call.Resource, "b+file:///y", "b", "file:///y")
	resolves(t, v, call.Resource, "b+file:///x", "", "")
	resolves(t, v, call.Resource, "file:///x", "", "")
}
