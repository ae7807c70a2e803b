package catalog

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/search"
	"mcpgateway/internal/wire"
)

// found returns the names of the tools that a search finds.
func found(v *View, q search.Query) []string {
	x := v.ToolIndex()
	out := []string{}
	for _, h := range x.Search(q).Hits {
		out = append(out, x.Tool(h.Index).Public)
	}
	slices.Sort(out)
	return out
}

// A profile with search lists pinned and own tools; all others resolve and are found.
func TestUnlistedTools(t *testing.T) {
	opts := Options{Policy: allowAll, Profile: profileOf(t, profile.Options{
		Search: true, Pinned: []string{"git__p*"}, Introduction: "These are behind it: " + profile.Upstreams + ".",
		Own: []profile.OwnItem{
			{Kind: call.Tool, Definition: wire.Raw(tool("search_tools")), Meta: true},
			{Kind: call.Tool, Definition: wire.Raw(tool("report"))},
		},
	})}
	files := source(t, "files", "files", tool("read"), tool("write"), prompt("ask"))
	files.Rules.Tags = []string{"documents"}
	git := source(t, "git", "git", tool("read"), tool("push"))
	git.Instructions = "Use it."
	tbl := Build(opts, []Source{files, git, down(source(t, "open", "", tool("gone")))})
	wantNames(t, tbl, call.Tool, "search_tools", "report", "git__push")
	wantNames(t, tbl, call.Prompt, "files__ask")
	v := tbl.View(call.Anonymous, nil)
	for _, name := range []string{"files__read", "git__push", "search_tools", "gone"} {
		if _, ok := v.Resolve(call.Tool, name); !ok {
			t.Errorf("%s does not resolve", name)
		}
	}
	if got := found(v, search.Query{}); !slices.Equal(got, []string{"files__read", "files__write", "git__push", "git__read", "report"}) {
		t.Errorf("searches find %q", got)
	}
	if got := found(v, search.Query{Text: "documents"}); !slices.Equal(got, []string{"files__read", "files__write"}) {
		t.Errorf("a search for a tag finds %q", got)
	}
	if got := v.SimilarNames(call.Tool, "files__raed"); !slices.Equal(got, []string{"files__read"}) {
		t.Errorf("similar names are %q", got)
	}
	if got, want := v.Instructions(), "These are behind it: files (2), git (2), open.\n\n# git\n\nUse it."; got != want {
		t.Errorf("the instructions are %q, want %q", got, want)
	}
	starting := Build(opts, []Source{down(source(t, "files", "files")), down(source(t, "git", "git"))})
	if got, want := starting.View(call.Anonymous, nil).Instructions(), "These are behind it: files, git."; got != want {
		t.Errorf("while the upstreams are starting, the instructions are %q, want %q", got, want)
	}
	if got := Build(opts, nil).View(call.Anonymous, nil).Instructions(); got != "" {
		t.Errorf("without upstreams the instructions are %q", got)
	}
	if first := v.ToolIndex(); first != v.ToolIndex() {
		t.Error("the index is made twice")
	}
}

// An index has the tools of its view and no others; views that show the same share one.
func TestIndexesOfViews(t *testing.T) {
	opts := Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		{Name: "few", Effect: policy.Deny, Who: policy.Who{Subjects: []string{"ann"}}, What: policy.What{Tools: []string{"files__w*"}}},
		{Name: "all", Effect: policy.Deny, Who: policy.Who{Subjects: []string{"eve"}}, What: policy.What{Tools: []string{"files__w*"}, Prompts: []string{"none"}}},
	}})}
	tbl := Build(opts, []Source{source(t, "files", "files", tool("read"), tool("write"))})
	ann, bob, eve := tbl.View(who("ann"), nil), tbl.View(who("bob"), nil), tbl.View(who("eve"), nil)
	if got := found(ann, search.Query{}); !slices.Equal(got, []string{"files__read"}) {
		t.Errorf("ann finds %q", got)
	}
	if got := found(bob, search.Query{}); !slices.Equal(got, []string{"files__read", "files__write"}) {
		t.Errorf("bob finds %q", got)
	}
	if ann.ToolIndex() == bob.ToolIndex() || ann.ToolIndex() != eve.ToolIndex() {
		t.Error("views share an index if and only if they show the same tools")
	}
	// A result is the same as in a table that never had the hidden tool.
	alone := Build(opts, []Source{source(t, "files", "files", tool("read"))}).View(who("ann"), nil)
	for _, text := range []string{"read", "write", "files", ""} {
		with, without := ann.ToolIndex().Search(search.Query{Text: text}), alone.ToolIndex().Search(search.Query{Text: text})
		if with.Total != without.Total || len(with.Hits) > 0 && with.Hits[0].Score != without.Hits[0].Score {
			t.Errorf("%q: a hidden tool changes the result from %+v to %+v", text, without, with)
		}
	}
}

// Hidden tools change no byte of any page: names, scores, totals, and what stands in for a word that
// is misspelled, or that a name begins.
func TestHiddenToolsChangeNoByteOfAPage(t *testing.T) {
	opts := Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		{Name: "names", Effect: policy.Deny, Who: policy.Who{Subjects: []string{"ann"}}, What: policy.What{Tools: []string{"*hidden*"}}},
		{Name: "server", Effect: policy.Deny, Who: policy.Who{Subjects: []string{"ann"}}, What: policy.What{Upstreams: []string{"git"}}},
	}})}
	visible := []string{tool("read_file"), tool("write_file"), tool("list_files"), tool("create_issue"), tool("get_forecast")}
	var all, git []string
	for i := range 300 {
		all = append(all, tool(fmt.Sprintf("hidden_%d_file_issue_forcast_zebra", i)))
		git = append(git, tool(fmt.Sprintf("create_issue_%d", i)))
	}
	alone := Build(opts, []Source{source(t, "files", "files", visible...)}).View(who("ann"), nil).ToolIndex()
	beside := Build(opts, []Source{source(t, "git", "git", git...), source(t, "files", "files", append(all, visible...)...)}).View(who("ann"), nil).ToolIndex()
	page := func(x *ToolIndex, q search.Query) string {
		p := x.Search(q)
		out := fmt.Sprintf("%d, next %d:", p.Total, p.Next)
		for _, h := range p.Hits {
			out += fmt.Sprintf(" %d %s %b", h.Index, x.Tool(h.Index).Public, h.Score)
		}
		return out
	}
	for _, text := range []string{"", "file", "create issue", "issue_1", "forcast", "zebra", "git", "hid", "files read", "lsit", "what is there?"} {
		for _, q := range []search.Query{{Text: text}, {Text: text, Limit: 2}, {Text: text, Upstream: "git"}, {Text: text, True: search.ReadOnly}} {
			if with, without := page(beside, q), page(alone, q); with != without {
				t.Errorf("%+v: hidden tools change the page from %s to %s", q, without, with)
			}
		}
	}
}

// The tools whose embeddings are made are those that searches of a profile may find.
func TestSearchDocs(t *testing.T) {
	sources := []Source{source(t, "files", "files", tool("read"), tool("write")), source(t, "git", "git", tool("push"))}
	docs := &Docs{}
	texts := func(p *profile.Profile) (out []string) {
		for d, text := range Build(Options{Policy: allowAll, Profile: p, Docs: docs}, sources).SearchDocs() {
			out = append(out, d.Name()+"="+text())
		}
		return out
	}
	if got := texts(nil); got != nil {
		t.Errorf("a table without a profile has %q", got)
	}
	if got := texts(profileOf(t, profile.Options{})); got != nil {
		t.Errorf("a profile that lists its tools has %q", got)
	}
	got := texts(profileOf(t, profile.Options{
		Search: true, Upstreams: []string{"files"}, Pinned: []string{"files__write"},
		Own: []profile.OwnItem{{Kind: call.Tool, Definition: wire.Raw(tool("search_tools")), Meta: true}},
	}))
	if want := []string{"files__read=read\nfiles", "files__write=write\nfiles"}; !slices.Equal(got, want) {
		t.Errorf("a profile with search has %q, want %q", got, want)
	}
}

// A new table has the indexes that were in use, and takes over those that have not changed.
func TestWarm(t *testing.T) {
	docs := &Docs{}
	opts := Options{Docs: docs, Policy: policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		{Name: "few", Effect: policy.Deny, Who: policy.Who{Subjects: []string{"ann"}}, What: policy.What{Tools: []string{"git__*"}}},
	}})}
	files := source(t, "files", "files", tool("read"), tool("write"))
	before := Build(opts, []Source{files, source(t, "git", "git", tool("push"))})
	ann, bob := before.View(who("ann"), nil).ToolIndex(), before.View(who("bob"), nil).ToolIndex()

	docs.Begin()
	after := Build(opts, []Source{files, source(t, "git", "git", tool("push"), tool("pull"))})
	after.Warm(before)
	if len(after.indexes.kept) != 2 {
		t.Fatalf("%d indexes are made, want those of ann and bob", len(after.indexes.kept))
	}
	if x := after.View(who("ann"), nil).ToolIndex(); x.Index != ann.Index {
		t.Error("ann's index was made again, though nothing has changed for her")
	}
	x := after.View(who("bob"), nil).ToolIndex()
	if x.Index == bob.Index || x.Len() != 4 || x.Doc(0) != bob.Doc(0) {
		t.Error("bob's index does not have the new tool and the same documents of the others")
	}

	// Documents of tools that lists leave out are made before the first search.
	opts.Profile = profileOf(t, profile.Options{Search: true})
	docs.Begin()
	Build(opts, []Source{source(t, "open", "", tool("new"))}).Warm(after)
	if len(docs.current) == 0 {
		t.Error("no document is made before the first search")
	}

	docs.Begin()
	docs.Begin()
	if len(docs.current)+len(docs.before) != 0 {
		t.Errorf("%d documents are kept that no table uses", len(docs.current)+len(docs.before))
	}
}

// The document of a tool is made again if anything that it depends on changes.
func TestDocsTellToolsApart(t *testing.T) {
	docs := &Docs{}
	doc := func(name string, tags []string, tools ...string) *search.Doc {
		s := source(t, name, name, tools...)
		s.Rules.Tags = tags
		return Build(Options{Policy: allowAll, Docs: docs}, []Source{s}).View(call.Anonymous, nil).ToolIndex().Doc(0)
	}
	same := doc("a", nil, tool("t"))
	if doc("a", nil, tool("t")) != same {
		t.Error("the document of a tool that has not changed is made again")
	}
	for what, other := range map[string]*search.Doc{
		"definition": doc("a", nil, `{"name":"t","description":"x","inputSchema":{"type":"object"}}`),
		"tags":       doc("a", []string{"x"}, tool("t")), "upstream": doc("b", nil, tool("t")),
	} {
		if other == same {
			t.Errorf("tools with another %s share a document", what)
		}
	}
}

func TestIndexesAreBounded(t *testing.T) {
	var rules []policy.Rule
	for i := range 30 {
		subject := fmt.Sprintf("p%d", i)
		rules = append(rules, policy.Rule{Name: subject, Effect: policy.Deny, Who: policy.Who{Subjects: []string{subject}}, What: policy.What{Tools: []string{fmt.Sprintf("*__t%d", i)}}})
	}
	var tools []string
	for i := range 10_000 {
		tools = append(tools, tool(fmt.Sprintf("t%d", i)))
	}
	tbl := Build(Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow, Rules: rules}), Docs: &Docs{}}, []Source{source(t, "a", "a", tools...)})
	for i := range 30 {
		tbl.View(who(fmt.Sprintf("p%d", i)), nil).ToolIndex()
	}
	if n := len(tbl.indexes.kept); n != 9 || tbl.indexes.total > maxIndexed {
		t.Errorf("%d indexes with %d documents are kept, want 9", n, tbl.indexes.total)
	}
	if x := tbl.View(who("p29"), nil).ToolIndex(); x != tbl.indexes.kept[8].index {
		t.Error("the index that was used last is not kept")
	}
}

func TestToolIndexConcurrently(t *testing.T) {
	v := Build(Options{Policy: allowAll, Docs: &Docs{}}, many(t, 500)).View(call.Anonymous, nil)
	indexes := make([]*ToolIndex, 8)
	var wg sync.WaitGroup
	for i := range indexes {
		wg.Go(func() { indexes[i] = v.ToolIndex() })
	}
	wg.Wait()
	for _, x := range indexes {
		if x != indexes[0] {
			t.Fatal("several indexes are made for one view")
		}
	}
	if !strings.Contains(indexes[0].Tool(0).Public, "__") {
		t.Errorf("the first tool is %q", indexes[0].Tool(0).Public)
	}
}
