package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

func TestResolve(t *testing.T) {
	none := source(t, "none", "none", tool("t"))
	none.Capabilities = wire.Raw(`{"tools":{}}`)
	v := build(
		source(t, "files", "files", tool("read"), resource("file:///a"), template("{scheme}://{host}"), resource("https://h/a"), template("https://h/{x}/{y}")),
		source(t, "open", "", tool("add"), resource("test://static"), template("test://{id}/data")),
		none,
	).View(call.Anonymous, nil)
	tests := []struct {
		name             string
		kind             call.Kind
		public           string
		upstream, native string
	}{
		{"tool", call.Tool, "files__read", "files", "read"},
		{"tool without prefix", call.Tool, "add", "open", "add"},
		{"native name instead of a public one", call.Tool, "read", "", ""},
		{"unknown tool", call.Tool, "files__write", "", ""},
		{"a tool is not a prompt", call.Prompt, "files__read", "", ""},
		{"listed", call.Resource, "files+file:///a", "files", "file:///a"},
		{"not listed", call.Resource, "files+file:///a/b", "files", "file:///a/b"},
		{"expansion of a template with its scheme open", call.Resource, "files+0:file://h", "files", "file://h"},
		{"ui", call.Resource, "ui://files.x", "files", "ui://x"},
		{"malformed after the prefix", call.Resource, "files+x", "", ""},
		{"web, listed", call.Resource, "https://h/a", "files", "https://h/a"},
		{"web, by template", call.Resource, "https://h/1/2", "files", "https://h/1/2"},
		{"without prefix, listed", call.Resource, "test://static", "open", "test://static"},
		{"without prefix, by template", call.Resource, "test://7/data", "open", "test://7/data"},
		{"without prefix, unknown", call.Resource, "test://other", "open", "test://other"},
		{"an upstream without resources", call.Resource, "none+a:b", "", ""},
		{"template", call.Template, "files+0:{scheme}://{host}", "files", "{scheme}://{host}"},
		{"template not listed", call.Template, "files+0:{x}", "files", "{x}"},
		{"URI instead of a template", call.Template, "files+file:///a", "files", "file:///a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { resolves(t, v, tt.kind, tt.public, tt.upstream, tt.native) })
	}
}

func TestResolveWithoutTheOnlyOpenUpstream(t *testing.T) {
	two := build(source(t, "one", "", resource("a:1")), source(t, "two", "", resource("b:1"))).View(call.Anonymous, nil)
	resolves(t, two, call.Resource, "a:2", "", "")
	none := build(source(t, "files", "files", resource("a:1"))).View(call.Anonymous, nil)
	resolves(t, none, call.Resource, "a:1", "", "") // native
	resolves(t, none, call.Resource, "", "", "")
}

// The cost of matching is bounded: the match of a template and a URI is abandoned if it takes
// too long.
func TestMatchingIsBounded(t *testing.T) {
	one := source(t, "one", "", template("x:{+a}/end"), template("x:{+a}/other"))
	v := build(one, source(t, "two", "")).View(call.Anonymous, nil)
	tests := []struct {
		size int
		end  string
		want bool
	}{
		{100, "/end", true},
		{100, "/other", true},
		{200_000, "/end", true},
		{200_000, "/other", false}, // the first template used up the budget of the second
		{300_000, "/end", false},   // over the budget for the first template
	}
	for _, tt := range tests {
		if _, ok := v.Resolve(call.Resource, "x:"+strings.Repeat("a", tt.size)+tt.end); ok != tt.want {
			t.Errorf("%d bytes, then %s: resolves is %v", tt.size, tt.end, ok)
		}
	}
}

func TestPolicyHides(t *testing.T) {
	p := policy.MustNew(policy.Options{Default: policy.Allow, Upstreams: map[string]policy.Upstream{
		"files": {Tools: policy.Globs{Deny: []string{"write*"}}, Resources: policy.Globs{Deny: []string{"file:///etc/*", "https://h/"}}},
		"open":  {Resources: policy.Globs{Deny: []string{"test://secret/*"}}},
	}})
	tbl := Build(Options{Policy: p}, []Source{
		source(t, "files", "files", tool("read"), tool("write"), resource("file:///a"), resource("file:///etc/passwd"), resource("https://h/"), template("file:///etc/{x}")),
		source(t, "open", "", resource("https://h/"), template("test://{+id}")),
	})
	wantNames(t, tbl, call.Tool, "files__read")
	wantNames(t, tbl, call.Resource, "files+file:///a", "https://h/")
	wantNames(t, tbl, call.Template, "test://{+id}")
	v := tbl.View(call.Anonymous, nil)
	resolves(t, v, call.Tool, "files__write", "", "")
	resolves(t, v, call.Resource, "files+file:///etc/passwd", "", "")
	resolves(t, v, call.Resource, "files+file:///etc/shadow", "", "")
	resolves(t, v, call.Resource, "files+0:file:///etc/shadow", "", "")
	resolves(t, v, call.Resource, "files+file:///b", "files", "file:///b")
	resolves(t, v, call.Template, "files+file:///etc/{x}", "", "")
	resolves(t, v, call.Resource, "test://secret/1", "", "")
	resolves(t, v, call.Resource, "test://other/1", "open", "test://other/1")
	resolves(t, v, call.Resource, "https://h/", "open", "https://h/")
	if got := v.SimilarNames(call.Tool, "files__writ"); got != nil {
		t.Errorf("near names: %q", got)
	}
	if got := v.SimilarNames(call.Tool, "write"); got != nil {
		t.Errorf("near names: %q", got)
	}

	closed := Build(Options{Policy: policy.MustNew(policy.Options{})}, []Source{down(source(t, "files", "files", tool("t")))}).View(call.Anonymous, nil)
	if got := names(t, closed, call.Tool); len(got) != 0 {
		t.Errorf("listed: %q", got)
	}
	if closed.Unavailable() != nil || closed.UnavailableFor(call.Tool, "files__t") != nil || closed.Instructions() != "" {
		t.Error("a caller without rights learns of an upstream")
	}
}

func TestDown(t *testing.T) {
	tbl := build(
		down(source(t, "a", "a", tool("t"), resource("https://h/"))),
		source(t, "b", "b", tool("t"), resource("https://h/")),
		down(source(t, "new", "new")),
		down(source(t, "open", "")),
	)
	wantNames(t, tbl, call.Tool, "b__t")
	wantNames(t, tbl, call.Resource, "https://h/")
	v := tbl.View(call.Anonymous, nil)
	resolves(t, v, call.Tool, "a__t", "a", "t") // the call reaches the connector
	resolves(t, v, call.Resource, "https://h/", "b", "https://h/")
	resolves(t, v, call.Resource, "new+a:b", "new", "a:b")

	tests := []struct {
		name   string
		kind   call.Kind
		public string
		want   []string
	}{
		{"prefix", call.Tool, "new__x", []string{"new", "open"}},
		{"no prefix", call.Tool, "x", []string{"open"}},
		{"the catalog is known", call.Tool, "a__x", []string{"open"}},
		{"prefix of an upstream that is up", call.Resource, "b+a:b", nil},
		{"web", call.Resource, "https://other/", []string{"new", "open"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, u := range v.UnavailableFor(tt.kind, tt.public) {
				got = append(got, u.Upstream)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}

	// If all upstreams of an address are down, the first one gets the call.
	web := func(upstream string) Source { return source(t, upstream, upstream, resource("https://h/")) }
	all := build(down(web("a")), down(web("b")), down(web("c"))).View(call.Anonymous, nil)
	resolves(t, all, call.Resource, "https://h/", "a", "https://h/")
	for _, sources := range [][]Source{{down(web("a")), web("b"), down(web("c"))}, {down(web("a")), down(web("c")), web("b")}} {
		v := build(sources...).View(call.Anonymous, nil)
		resolves(t, v, call.Resource, "https://h/", "b", "https://h/")
		if got := names(t, v, call.Resource); len(got) != 1 {
			t.Errorf("listed: %q", got)
		}
	}
}

func TestNear(t *testing.T) {
	v := build(
		source(t, "files", "files", tool("read_file"), tool("write_file"), tool("read_files"), tool("reed_file"), tool("gets"), tool("set"), tool("a"), tool("get_by"), tool("move_everything")),
		source(t, "other", "other", tool("read_file")),
	).View(call.Anonymous, nil)
	tests := []struct {
		query string
		want  []string
	}{
		{"read_file", []string{"files__read_file", "other__read_file"}},
		{"files__raed_file", []string{"files__read_file", "files__reed_file", "files__read_files"}},
		{"FILES__READ_FILE", []string{"files__read_file", "files__read_files", "files__reed_file"}},
		{"files_read_file", []string{"files__read_file", "files__read_files", "files__reed_file"}},
		{"nothing_like_it", nil},
		{"files__x", nil},
		{"files__get", []string{"files__gets"}},
		{"files__sat", []string{"files__set"}},
		{"files__bet", nil},
		{"files__gob", nil},
		{"files__move_every", []string{"files__move_everything"}},
		{"Files__Move", []string{"files__move_everything"}},
		{"move", []string{"files__move_everything"}},
		{"files__mov", nil},
		{"files__move_any", nil},
		{"files__", nil},
		{"", nil},
		{strings.Repeat("x", 1000), nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, v.SimilarNames(call.Tool, tt.query)); diff != "" {
			t.Errorf("%q: %s", tt.query, diff)
		}
	}
}

func TestResolveDoesNotAllocate(t *testing.T) {
	tbl := build(source(t, "files", "files", tool("read"), resource("file:///a")))
	n := testing.AllocsPerRun(100, func() {
		v := tbl.View(call.Anonymous, nil)
		if _, ok := v.Resolve(call.Tool, "files__read"); !ok {
			t.Fatal("the tool does not resolve")
		}
		if _, ok := v.Resolve(call.Resource, "files+file:///not/listed"); !ok {
			t.Fatal("the URI does not resolve")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestInstructions(t *testing.T) {
	with := func(s Source, text string) Source {
		s.Instructions = text
		return s
	}
	long := strings.Repeat("é", maxInstructions)
	tests := []struct {
		name    string
		sources []Source
		want    string
	}{
		{"none", []Source{source(t, "a", "a")}, ""},
		{"one without prefix", []Source{with(source(t, "a", ""), " as it is \n")}, " as it is \n"},
		{"one with prefix", []Source{with(source(t, "a", "files"), "Hello.\n")}, "# files\n\nHello."},
		{"several", []Source{with(source(t, "a", "a"), "A."), source(t, "b", "b"), with(source(t, "c", ""), "C.")}, "# a\n\nA.\n\n# c\n\nC."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := build(tt.sources...).View(call.Anonymous, nil).Instructions(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("too long", func(t *testing.T) {
		got := build(with(source(t, "a", "a"), long), with(source(t, "b", "b"), "short"), with(source(t, "c", "c"), long)).View(call.Anonymous, nil).Instructions()
		if len(got) > maxInstructions+100 || strings.Count(got, truncationMark) != 2 || !strings.Contains(got, "# b\n\nshort\n") || strings.ContainsRune(got, '\ufffd') {
			t.Errorf("%d bytes, %d marks", len(got), strings.Count(got, truncationMark))
		}
	})
}

// The settings of the first upstream apply, and an extension that the gateway does not relay
// is not declared.
func TestExtensions(t *testing.T) {
	const tasks, apps = "io.modelcontextprotocol/tasks", "io.modelcontextprotocol/ui"
	with := func(name, caps string) Source {
		s := source(t, name, name)
		s.Capabilities = wire.Raw(caps)
		return s
	}
	got := build(with("a", `{"extensions":{"io.modelcontextprotocol/skills":{},"`+apps+`":{"v":1}}}`), with("b", `{"tools":{}}`), with("c", `{"extensions":{"`+apps+`":{"v":2},"com.example/x":{},"`+tasks+`":{}}}`), source(t, "d", "d")).View(call.Anonymous, nil).Extensions()
	if string(got) != `{"`+apps+`":{"v":1},"`+tasks+`":{}}` {
		t.Errorf("got %s", got)
	}
	if got := build(with("b", `{"tools":{}}`)).View(call.Anonymous, nil).Extensions(); got != nil {
		t.Errorf("got %s", got)
	}
}

// An upstream that was never listed is not named to principals whom a condition excludes
// from it.
func TestUnavailableByConditionsOnCallers(t *testing.T) {
	condition, faults := policy.NewCondition(`!("oncall" in principal.groups)`)
	if faults != nil {
		t.Fatal(faults)
	}
	p := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		{Name: "quarantine", Effect: policy.Deny, What: policy.What{Upstreams: []string{"hurt"}}, When: condition},
	}})
	hurt := down(source(t, "hurt", "hurt"))
	hurt.NeverListed = true
	table := Build(Options{Policy: p}, []Source{source(t, "files", "files", tool("read")), hurt})
	for group, want := range map[string]int{"oncall": 1, "staff": 0} {
		v := table.View(&call.Principal{Subject: "ann", Groups: []string{group}}, &call.Client{Revision: wire.Rev20251125})
		if got := v.Unavailable(); len(got) != want {
			t.Errorf("%s gets the names of %+v", group, got)
		}
		if got := v.UnavailableFor(call.Tool, "hurt__x"); len(got) != want {
			t.Errorf("%s gets for a name %+v", group, got)
		}
	}
}
