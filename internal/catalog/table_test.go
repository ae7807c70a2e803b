package catalog

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

// The lists of upstreams hide items from all clients, rules from some. A web address that one upstream
// hides is served by another.
func TestShown(t *testing.T) {
	const page = `{"uri":"https://example.com/","name":"page"}`
	sources := []Source{
		source(t, "a", "a", tool("read"), tool("write"), tool("drop"), prompt("ask"), page, resource("file:///x"), template("file:///{x}")),
		source(t, "b", "b", tool("read"), page),
		down(source(t, "c", "c", tool("read"))),
	}
	lists := policy.MustNew(policy.Options{
		Default:   policy.Deny,
		Rules:     []policy.Rule{{Name: "all", Effect: policy.Deny}},
		Upstreams: map[string]policy.Upstream{"a": {Tools: policy.Globs{Allow: []string{"read"}}, Prompts: policy.Globs{Deny: []string{"*"}}, Resources: policy.Globs{Deny: []string{"*"}}}},
	})
	all := Build(Options{Policy: lists}, sources)
	if got, want := all.Shown(), ([call.Kinds]int{call.Tool: 2, call.Resource: 1}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := all.Counts(), ([call.Kinds]int{call.Tool: 4, call.Resource: 2, call.Template: 1, call.Prompt: 1}); got != want {
		t.Errorf("all items: %v, want %v", got, want)
	}
	own := []profile.OwnItem{{Kind: call.Tool, Definition: wire.Raw(tool("call_tool"))}}
	in := all.ForProfile(profileOf(t, profile.Options{Upstreams: []string{"a"}, Configured: []profile.Upstream{{Name: "a"}, {Name: "b"}}, ShortNames: true, Own: own}))
	if got, want := in.Shown(), ([call.Kinds]int{call.Tool: 1}); got != want {
		t.Errorf("the profile: %v, want %v", got, want)
	}
}

var (
	allowAll = policy.MustNew(policy.Options{Default: policy.Allow})
	since    = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
)

// source returns the source of an upstream. Items are JSON; their members decide the kind:
// uriTemplate, uri, inputSchema, or only a name.
func source(t testing.TB, upstream, prefix string, items ...string) Source {
	t.Helper()
	space, err := namespace.New(upstream, prefix, "__")
	if err != nil {
		t.Fatal(err)
	}
	s := Source{Naming: space, Freshness: Freshness{At: since, TTL: time.Minute}}
	for _, it := range items {
		v := wire.ValueOf(wire.Raw(it))
		kind := call.Prompt
		switch {
		case v.Get("uriTemplate").Exists():
			kind = call.Template
		case v.Get("uri").Exists():
			kind = call.Resource
		case v.Get("inputSchema").Exists():
			kind = call.Tool
		}
		s.Items[kind] = append(s.Items[kind], wire.Raw(it))
	}
	return s
}

func tool(name string) string {
	return fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, wire.String(name))
}
func prompt(name string) string { return fmt.Sprintf(`{"name":%s}`, wire.String(name)) }
func resource(uri string) string {
	return fmt.Sprintf(`{"uri":%s,"name":"r"}`, wire.String(uri))
}
func template(text string) string {
	return fmt.Sprintf(`{"uriTemplate":%s,"name":"t"}`, wire.String(text))
}

func down(s Source) Source {
	s.Down = &Down{Since: since, Reason: "connection refused"}
	return s
}

func build(sources ...Source) *Table { return Build(Options{Policy: allowAll}, sources) }

// names returns the public names on all pages of a view's list.
func names(t testing.TB, v *View, kind call.Kind) []string {
	t.Helper()
	out := []string{}
	for cursor := ""; ; {
		page, _, err := v.Page(kind, wire.Rev20251125, cursor, since)
		if err != nil {
			t.Fatal(err)
		}
		root := wire.ValueOf(page.Raw)
		for el := range root.Get(listMember(kind)).Elements() {
			out = append(out, el.Get(namespace.NameMember(kind)).Str())
		}
		if cursor = root.Get("nextCursor").Str(); cursor == "" {
			return out
		}
	}
}

func wantNames(t *testing.T, tbl *Table, kind call.Kind, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, names(t, tbl.View(call.Anonymous, nil), kind)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", kind.Plural(), diff)
	}
}

func findings(tbl *Table) []string {
	var out []string
	for _, f := range tbl.Findings() {
		out = append(out, f.String())
	}
	return out
}

func TestOrderAndNames(t *testing.T) {
	tbl := build(
		source(t, "zeta", "zeta", tool("b"), tool("a"), prompt("p"), resource("file:///z"), template("z:{x}")),
		source(t, "alpha", "al", tool("b"), resource("ui://x"), `{"name":"app","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://x"}}}`),
		source(t, "open", "", tool("c"), resource("test://static"), prompt("p")),
	)
	wantNames(t, tbl, call.Tool, "zeta__b", "zeta__a", "al__b", "al__app", "c")
	wantNames(t, tbl, call.Prompt, "zeta__p", "p")
	wantNames(t, tbl, call.Resource, "zeta+file:///z", "ui://alpha.x", "test://static")
	wantNames(t, tbl, call.Template, "zeta+z:{x}")
	if got := findings(tbl); got != nil {
		t.Errorf("findings: %q", got)
	}
	if got := tbl.Counts(); got != [call.Kinds]int{call.Tool: 5, call.Prompt: 2, call.Resource: 3, call.Template: 1} {
		t.Errorf("counts: %v", got)
	}
	app, _ := tbl.View(call.Anonymous, nil).Resolve(call.Tool, "al__app")
	if got := string(app.Entry.Raw); !strings.Contains(got, `"resourceUri":"ui://alpha.x"`) {
		t.Errorf("the tool refers to %s", got)
	}
}

func TestClashes(t *testing.T) {
	long := strings.Repeat("n", 80)
	tbl := build(
		source(t, "one", "", tool("x"), tool("files__read"), tool("two__x"), resource("a:1"), resource("files+a:1"), resource("https://h/"), template("a:{x}"), tool(long)),
		source(t, "two", "", tool("x"), tool("two__x"), tool("y"), resource("a:1"), resource("a:2"), resource("https://h/"), template("a:{x}"), tool(long),
			`{"name":"app","inputSchema":{"type":"object"},"_meta":{"ui/resourceUri":"a:1"}}`),
		source(t, "files", "files", tool("read"), resource("https://h/")),
	)
	hashed := func(upstream, native string) string {
		p, _ := tbl.Part(upstream)
		return p.Naming().Fallback().HashedName(native)
	}
	one, _ := tbl.Part("one")
	longOne, _ := one.Naming().Name(long)
	longTwo := hashed("two", long)
	wantNames(t, tbl, call.Tool, "x", "one__files__read", "one__two__x", longOne, hashed("two", "x"), "two__x", "y", longTwo, "app", "files__read")
	wantNames(t, tbl, call.Resource, "a:1", "one+files+a:1", "https://h/", "two+a:1", "a:2")
	wantNames(t, tbl, call.Template, "a:{x}", "two+a:{x}")
	want := []string{
		fmt.Sprintf(`one: tool %q shortened: the name does not fit into [A-Za-z0-9_-]{1,64}, or looks like one that was shortened (published as %q)`, long, longOne),
		`one: tool "files__read" clash: another upstream has the name "files__read" (published as "one__files__read")`,
		`one: tool "two__x" clash: items of the upstream two that clash have the name "two__x" (published as "one__two__x")`,
		fmt.Sprintf(`two: tool "x" clash: another upstream has the name "x" (published as %q)`, hashed("two", "x")),
		fmt.Sprintf(`two: tool %q shortened: the name does not fit into [A-Za-z0-9_-]{1,64}, or looks like one that was shortened (published as %q)`, long, longTwo),
		fmt.Sprintf(`two: tool %q clash: another upstream has the name %q (published as %q)`, long, longOne, longTwo),
		`two: resource "https://h/" clash: an upstream before lists the same web address and serves it (published as "https://h/")`,
		`files: resource "https://h/" clash: an upstream before lists the same web address and serves it (published as "https://h/")`,
		`one: resource "files+a:1" clash: another upstream has the name "files+a:1" (published as "one+files+a:1")`,
		`two: resource "a:1" clash: another upstream has the name "a:1" (published as "two+a:1")`,
		`two: template "a:{x}" clash: another upstream has the name "a:{x}" (published as "two+a:{x}")`,
	}
	if diff := cmp.Diff(want, findings(tbl)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}

	v := tbl.View(call.Anonymous, nil)
	resolves(t, v, call.Tool, "x", "one", "x")
	resolves(t, v, call.Tool, "files__read", "files", "read")
	resolves(t, v, call.Tool, "one__files__read", "one", "files__read")
	resolves(t, v, call.Tool, hashed("two", "x"), "two", "x")
	resolves(t, v, call.Tool, "two__x", "two", "two__x")
	resolves(t, v, call.Tool, "one__two__x", "one", "two__x")
	resolves(t, v, call.Resource, "two+a:1", "two", "a:1")
	resolves(t, v, call.Resource, "https://h/", "one", "https://h/")
	resolves(t, v, call.Resource, "a:9", "one", "a:9")     // by template
	resolves(t, v, call.Resource, "two+a:9", "two", "a:9") // by the renamed template
	resolves(t, v, call.Template, "two+a:{x}", "two", "a:{x}")

	// References to a renamed URI are renamed too.
	target, _ := v.Resolve(call.Tool, "app")
	if got := string(target.Entry.Raw); !strings.Contains(got, `"ui/resourceUri":"two+a:1"`) {
		t.Errorf("the tool refers to %s", got)
	}
	if got := string(target.Part.Naming().Result(wire.MethodToolsCall, wire.ValueOf(wire.Raw(`{"content":[{"type":"resource_link","uri":"a:1"}]}`)), namespace.Asked{})); !strings.Contains(got, `"two+a:1"`) {
		t.Errorf("the result refers to %s", got)
	}
	// An item whose public name does not show the native name has it as a member.
	if target, _ := v.Resolve(call.Tool, hashed("two", "x")); !strings.Contains(string(target.Entry.Raw), `"_meta":{"mcpgateway/native":"x"}`) {
		t.Errorf("no native name: %s", target.Entry.Raw)
	}
}

func resolves(t *testing.T, v *View, kind call.Kind, public, upstream, native string) {
	t.Helper()
	got, ok := v.Resolve(kind, public)
	switch {
	case upstream == "" && ok:
		t.Errorf("%s %q resolves to %q of %s", kind, public, got.Native, got.Part.Upstream())
	case upstream == "":
	case !ok:
		t.Errorf("%s %q does not resolve", kind, public)
	case got.Part.Upstream() != upstream || got.Native != native:
		t.Errorf("%s %q resolves to %q of %s, want %q of %s", kind, public, got.Native, got.Part.Upstream(), native, upstream)
	}
}

func TestQuarantine(t *testing.T) {
	tests := []struct {
		name   string
		kind   call.Kind
		item   string
		reason string
	}{
		{"no object", call.Tool, `"x"`, "the item is not an object"},
		{"no name", call.Tool, `{"inputSchema":{"type":"object"}}`, `"name" is missing or not a string`},
		{"name no string", call.Tool, `{"name":1,"inputSchema":{"type":"object"}}`, `"name" is missing or not a string`},
		{"empty name", call.Tool, `{"name":"","inputSchema":{"type":"object"}}`, `"name" is empty`},
		{"no schema", call.Tool, `{"name":"t"}`, `"inputSchema" must be an object whose "type" is "object"`},
		{"schema true", call.Tool, `{"name":"t","inputSchema":true}`, `"inputSchema" must be an object whose "type" is "object"`},
		{"schema without type", call.Tool, `{"name":"t","inputSchema":{}}`, `"inputSchema" must be an object whose "type" is "object"`},
		{"schema of two types", call.Tool, `{"name":"t","inputSchema":{"type":["object"]}}`, `"inputSchema" must be an object whose "type" is "object"`},
		{"two names", call.Tool, `{"name":"t","inputSchema":{"type":"object"},"name":"u"}`, `the member "name" occurs twice`},
		{"prompt without name", call.Prompt, `{"title":"p"}`, `"name" is missing or not a string`},
		{"resource without uri", call.Resource, `{"name":"r"}`, `"uri" is missing or not a string`},
		{"resource without name", call.Resource, `{"uri":"a:b"}`, `"name" is missing or not a string`},
		{"template without text", call.Template, `{"name":"r"}`, `"uriTemplate" is missing or not a string`},
		{"template without name", call.Template, `{"uriTemplate":"a:{b}","name":null}`, `"name" is missing or not a string`},
		{"large template", call.Template, `{"uriTemplate":"a:` + strings.Repeat("{a}", 700) + `","name":"t"}`, `"uriTemplate" is larger than 2048 bytes or 64 variables`},
		{"wide template", call.Template, `{"uriTemplate":"a:{a` + strings.Repeat(",a", 64) + `}","name":"t"}`, `"uriTemplate" is larger than 2048 bytes or 64 variables`},
	}
	good := map[call.Kind]string{call.Tool: tool("good"), call.Prompt: prompt("good"), call.Resource: resource("a:good"), call.Template: template("a:{good}")}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := source(t, "u", "")
			s.Items[tt.kind] = []wire.Raw{wire.Raw(tt.item), wire.Raw(good[tt.kind])}
			tbl := build(s)
			if got := names(t, tbl.View(call.Anonymous, nil), tt.kind); len(got) != 1 {
				t.Errorf("listed: %q", got)
			}
			fs := tbl.Findings()
			if len(fs) != 1 || fs[0].Issue != Quarantined || fs[0].Reason != tt.reason || fs[0].Public != "" {
				t.Errorf("findings: %+v", fs)
			}
		})
	}
	t.Run("no template", func(t *testing.T) {
		tbl := build(source(t, "u", "", template("a:{b")))
		if fs := tbl.Findings(); len(fs) != 1 || !strings.HasPrefix(fs[0].Reason, `"uriTemplate" is not a URI template (RFC 6570): `) {
			t.Errorf("findings: %+v", fs)
		}
	})
	t.Run("duplicate", func(t *testing.T) {
		tbl := build(source(t, "u", "u", tool("t"), `{"name":"t","title":"second","inputSchema":{"type":"object"}}`))
		wantNames(t, tbl, call.Tool, "u__t")
		if diff := cmp.Diff([]string{`u: tool "t" duplicate: the upstream lists it more than once; the first counts`}, findings(tbl)); diff != "" {
			t.Error(diff)
		}
	})
}

// resolve(publish(x)) = x for every listed item, and items of upstreams with a prefix keep
// their names when other upstreams are added.
func TestInvariants(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"a", "b__", "c", "__", "_h0123456789ab", "a+x:", "ui://", "https://", "é", strings.Repeat("x", 40), "ui://a."}
	word := func() string {
		var s string
		for range 1 + rng.IntN(4) {
			s += pieces[rng.IntN(len(pieces))]
		}
		return s
	}
	for range 300 {
		var sources []Source
		for _, u := range []string{"a", "b", "c", "open", "wide"} {
			prefix := u
			if u == "open" || u == "wide" {
				prefix = ""
			}
			var items []string
			for range rng.IntN(12) {
				items = append(items, tool(word()), prompt(word()), resource(word()))
			}
			sources = append(sources, source(t, u, prefix, items...))
		}
		rng.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
		tbl := build(sources...)
		v := tbl.View(call.Anonymous, nil)
		without := slices.Delete(slices.Clone(sources), 2, 3)
		fewer := build(without...).View(call.Anonymous, nil)
		for kind := range call.Kind(call.Kinds) {
			seen := make(map[string]bool)
			for _, e := range v.listed[kind] {
				if seen[e.Public] {
					t.Fatalf("%s %q is listed twice", kind, e.Public)
				}
				seen[e.Public] = true
				if got, ok := v.Resolve(kind, e.Public); !ok || got.Native != e.Native || got.Part != e.part {
					t.Fatalf("%s %q of %s becomes %q becomes %+v", kind, e.Native, e.part.Upstream(), e.Public, got)
				}
			}
			for _, e := range fewer.listed[kind] {
				if e.part.naming.Prefix() == "" {
					continue
				}
				if got, ok := v.Resolve(kind, e.Public); !ok || got.Native != e.Native {
					t.Fatalf("%s %q of %s is %q only without %s", kind, e.Native, e.part.Upstream(), e.Public, sources[2].Naming.Upstream())
				}
			}
		}
	}
}

func TestDiff(t *testing.T) {
	base := func() []Source {
		return []Source{source(t, "a", "a", tool("t"), prompt("p"), resource("a:r"), template("a:{t}")), source(t, "b", "b", tool("t"))}
	}
	with := func(items ...string) []Source {
		return append(base(), source(t, "c", "c", items...))
	}
	changed := base()
	changed[0].Items[call.Tool] = []wire.Raw{wire.Raw(`{"name":"t","title":"new","inputSchema":{"type":"object"}}`)}
	lacking := base()
	lacking[1] = down(lacking[1])
	swapped := base()
	swapped[0], swapped[1] = swapped[1], swapped[0]
	tests := []struct {
		name string
		new  []Source
		want Changes
	}{
		{"nothing", base(), Changes{}},
		{"an empty upstream more", with(), Changes{}},
		{"a tool more", with(tool("x")), Changes{Tools: true}},
		{"a prompt more", with(prompt("x")), Changes{Prompts: true}},
		{"a resource more", with(resource("x:y")), Changes{Resources: true}},
		{"a template more", with(template("x:{y}")), Changes{Resources: true}},
		{"a quarantined tool more", with(`{"name":"x","inputSchema":1}`), Changes{}},
		{"another title", changed, Changes{Tools: true}},
		{"an upstream down", lacking, Changes{Tools: true}},
		{"another order", swapped, Changes{Tools: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := NewDiff(build(base()...), build(tt.new...), nil).For(call.Anonymous, nil)
			if got != tt.want || got.Any() != (tt.want != Changes{}) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	if got := NewDiff(build(), build(base()...), nil).For(call.Anonymous, nil); got != (Changes{true, true, true}) {
		t.Errorf("the first table: %+v", got)
	}
	if got := NewDiff(build(), build(), nil).For(call.Anonymous, nil); got.Any() {
		t.Errorf("an empty first table: %+v", got)
	}
	denied := Build(Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow, Upstreams: map[string]policy.Upstream{"a": {Prompts: policy.Globs{Deny: []string{"*"}}}}})}, base())
	if got := NewDiff(build(base()...), denied, nil).For(call.Anonymous, nil); got != (Changes{Prompts: true}) {
		t.Errorf("another policy: %+v", got)
	}
}

// A changed list of an upstream is announced at once to callers who may see all its items.
// For others the change may be about a hidden item.
func TestAnnouncedChanges(t *testing.T) {
	base := func(more ...string) []Source {
		return []Source{source(t, "a", "a", append(more, tool("t"), prompt("p"), resource("a:r"))...), source(t, "b", "b", tool("t"))}
	}
	denying := func(tools ...string) *policy.Policy {
		return policy.MustNew(policy.Options{Default: policy.Allow, Upstreams: map[string]policy.Upstream{"a": {Tools: policy.Globs{Deny: tools}}}})
	}
	all := Changes{true, true, true}
	for _, tt := range []struct {
		name   string
		policy *policy.Policy
		old    []Source
		new    []Source
		want   Changes
	}{
		{"nothing is refused", allowAll, base(), base(), all},
		{"a hidden tool has come", denying("secret"), base(), base(tool("secret")), Changes{Prompts: true, Resources: true}},
		{"a hidden tool has gone", denying("secret"), base(tool("secret")), base(), Changes{Prompts: true, Resources: true}},
		{"a hidden tool may come", denying("secret"), base(), base(), Changes{Prompts: true, Resources: true}},
		{"another tool has come", denying("secret"), base(), base(tool("u")), all},
		{"nothing may be seen", policy.MustNew(policy.Options{Default: policy.Deny}), base(), base(tool("u")), Changes{}},
		{"all may be seen", policy.MustNew(policy.Options{Default: policy.Deny, Rules: []policy.Rule{{Name: "all", Effect: policy.Allow, What: policy.What{Upstreams: []string{"a"}}}}}), base(), base(), all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDiff(Build(Options{Policy: tt.policy}, tt.old), Build(Options{Policy: tt.policy}, tt.new), map[string]Changes{"a": all})
			if got := d.For(call.Anonymous, nil); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Every published item has a valid name and resolves, for any list of its upstream.
func FuzzBuild(f *testing.F) {
	for _, item := range []string{
		tool("a b"), prompt("p"), resource("ui:x"), template("https://h/{a,b*}{?c:3}"), template("{+x}"), `{"name":"t","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"a:b"}}}`,
		`{"uriTemplate":"a:{b","name":"t"}`, `[]`, `{"name":"\ud83d","uri":"\ud83d","_meta":7}`,
	} {
		f.Add([]byte(item))
	}
	f.Fuzz(func(t *testing.T, item []byte) {
		if wire.Check(item, wire.Limits{}, wire.Lenient) != nil {
			return
		}
		open, prefixed := source(t, "open", ""), source(t, "files", "files")
		for kind := range call.Kinds {
			open.Items[kind], prefixed.Items[kind] = []wire.Raw{item}, []wire.Raw{item}
		}
		v := build(open, prefixed).View(call.Anonymous, nil)
		for kind := range call.Kind(call.Kinds) {
			page, _, err := v.Page(kind, wire.Rev20260728, "", since)
			if err != nil || wire.Check(page.Raw, wire.Limits{Depth: wire.DefaultDepth + 10}, wire.Lenient) != nil {
				t.Fatalf("%s: %v, %s", kind, err, page.Raw)
			}
			for _, e := range v.listed[kind] {
				if got, ok := v.Resolve(kind, e.Public); !ok || got.Native != e.Native {
					t.Errorf("%s %q becomes %q becomes %q", kind, e.Native, e.Public, got.Native)
				}
			}
		}
		v.Resolve(call.Resource, "https://h/a/b?c=1")
		v.Resolve(call.Resource, string(item))
	})
}

func many(t testing.TB, n int) []Source {
	var sources []Source
	description := strings.Repeat("what the tool does, at some length; ", 8)
	for u := range 10 {
		var items []string
		for i := range n / 10 {
			items = append(items, fmt.Sprintf(`{"name":"tool_%d","description":%q,"inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`, i, description))
		}
		sources = append(sources, source(t, fmt.Sprintf("u%d", u), fmt.Sprintf("u%d", u), items...))
	}
	return sources
}

func BenchmarkBuild10000(b *testing.B) {
	sources := many(b, 10000)
	b.ReportAllocs()
	for b.Loop() {
		build(sources...).View(call.Anonymous, nil)
	}
}

func BenchmarkResolve(b *testing.B) {
	v := build(many(b, 10000)...).View(call.Anonymous, nil)
	b.ReportAllocs()
	for b.Loop() {
		v.Resolve(call.Tool, "u7__tool_512")
	}
}

func BenchmarkNear(b *testing.B) {
	v := build(many(b, 10000)...).View(call.Anonymous, nil)
	for b.Loop() {
		v.SimilarNames(call.Tool, "u7__tol_512")
	}
}

func BenchmarkPage(b *testing.B) {
	v := build(many(b, 10000)...).View(call.Anonymous, nil)
	b.ReportAllocs()
	for b.Loop() {
		v.Page(call.Tool, wire.Rev20260728, "", since)
	}
}

func mustJSON(t *testing.T, raw wire.Raw) map[string]any {
	t.Helper()
	var m map[string]any
	if err := wire.Check(raw, wire.Limits{}, wire.Strict); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// The names of upstreams without a prefix do not depend on which of them is up. An upstream
// that is down keeps the names of its last catalog. Until it is listed, no other upstream
// gets a name that it may have.
func TestClashesWhileDown(t *testing.T) {
	one := source(t, "one", "", tool("x"), prompt("p"), resource("a:1"), template("t:{x}"))
	two := source(t, "two", "", tool("x"), tool("y"), tool("files__y"), prompt("p"), resource("a:1"), resource("a:2"), resource("https://h/"), template("t:{x}"))
	files := source(t, "files", "files", tool("read"))
	never := func(s Source) Source {
		s.Items, s.NeverListed = [call.Kinds][]wire.Raw{}, true
		return down(s)
	}

	up := build(one, two, files)
	wantNames(t, up, call.Tool, "x", "two__x", "y", "files__y", "files__read")
	known := build(down(one), two, files)
	wantNames(t, known, call.Tool, "two__x", "y", "files__y", "files__read")
	wantNames(t, known, call.Prompt, "two__p")
	wantNames(t, known, call.Resource, "two+a:1", "a:2", "https://h/")
	v := known.View(call.Anonymous, nil)
	resolves(t, v, call.Tool, "x", "one", "x") // the upstream answers that it is down
	resolves(t, v, call.Resource, "a:1", "one", "a:1")
	resolves(t, v, call.Resource, "t:9", "one", "t:9")

	unknown := build(never(one), two, files)
	wantNames(t, unknown, call.Tool, "two__x", "two__y", "two__files__y", "files__read")
	wantNames(t, unknown, call.Prompt, "two__p")
	wantNames(t, unknown, call.Resource, "two+a:1", "two+a:2", "https://h/")
	wantNames(t, unknown, call.Template, "two+t:{x}")
	v = unknown.View(call.Anonymous, nil)
	for _, name := range []string{"x", "y"} {
		if target, ok := v.Resolve(call.Tool, name); ok {
			t.Errorf("%s leads to %s", name, target.Part.Upstream())
		}
	}
	want := `two: tool "x" clash: the upstream one, which was never listed yet and goes first, may have the name "x" (published as "two__x")`
	if got := findings(unknown); !slices.Contains(got, want) {
		t.Errorf("findings %q lack %q", got, want)
	}

	// A name does not wait for later upstreams, except for those with a prefix.
	after := build(one, never(two), never(files))
	wantNames(t, after, call.Tool, "x")
	prefixed := build(two, never(files))
	wantNames(t, prefixed, call.Tool, "x", "y", "two__files__y")

	// Policy must also allow the name that the item will have.
	rules := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		{Name: "no-x", Effect: policy.Deny, What: policy.What{Tools: []string{"x"}}},
	}})
	v = Build(Options{Policy: rules}, []Source{never(one), two}).View(call.Anonymous, nil)
	if _, ok := v.Resolve(call.Tool, "two__x"); ok {
		t.Error("policy denies x and allows two__x")
	}
	resolves(t, v, call.Tool, "two__y", "two", "y")
}

// A rule that refuses a name refuses it at every upstream that has it, even if another
// upstream has taken the name from an item. Otherwise the first upstream in the file could
// exempt items of others from their rules.
func TestRulesOfClashingNames(t *testing.T) {
	one := source(t, "one", "", tool("x"), prompt("p"), resource("a:1"), template("t:{x}"))
	two := source(t, "two", "", tool("x"), tool("y"), prompt("p"), resource("a:1"), resource("a:2"), template("t:{x}"))
	view := func(fallback policy.Effect, rules ...policy.Rule) *View {
		return Build(Options{Policy: policy.MustNew(policy.Options{Default: fallback, Rules: rules})}, []Source{one, two}).View(call.Anonymous, nil)
	}
	names := policy.What{Tools: []string{"x"}, Prompts: []string{"p"}, Resources: []string{"a:1", "t:*"}}
	fallbacks := []struct {
		kind call.Kind
		name string
	}{{call.Tool, "two__x"}, {call.Prompt, "two__p"}, {call.Resource, "two+a:1"}, {call.Template, "two+t:{x}"}, {call.Resource, "two+t:9"}}
	for _, upstreams := range [][]string{nil, {"two"}} {
		deny := policy.Rule{Name: "d", Effect: policy.Deny, What: names}
		deny.What.Upstreams = upstreams
		v := view(policy.Allow, deny)
		for _, f := range fallbacks {
			if _, ok := v.Resolve(f.kind, f.name); ok {
				t.Errorf("deny, of %v: %s is allowed", upstreams, f.name)
			}
		}
		resolves(t, v, call.Tool, "y", "two", "y")
		resolves(t, v, call.Resource, "a:2", "two", "a:2")
	}
	v := view(policy.Allow, policy.Rule{Name: "c", Effect: policy.Confirm, What: names})
	if target, ok := v.Resolve(call.Tool, "two__x"); !ok || !target.Policy.Listed().NeedsConfirmation() {
		t.Error("the user is not asked about two__x")
	}
	v = view(policy.Deny, policy.Rule{Name: "a", Effect: policy.Allow, What: policy.What{Tools: []string{"x"}}})
	if _, ok := v.Resolve(call.Tool, "two__x"); ok {
		t.Error("a rule that allows x also allows two__x")
	}
	v = view(policy.Deny, policy.Rule{Name: "a", Effect: policy.Allow, What: policy.What{Tools: []string{"two__x"}}})
	resolves(t, v, call.Tool, "two__x", "two", "x")
}

// A name always leads to the same item while the lists stay the same, even if upstreams go
// down, come back, or have not been listed yet.
func TestNamesDoNotDependOnAvailability(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	two := source(t, "two", "").Naming
	long, _ := two.Name("a b")
	names := []string{"x", "one__x", "two__x", "files__x", "a b", "two__a b", "one__two__x", long, two.Fallback().HashedName("x")}
	uris := []string{"a:1", "one+a:1", "two+a:1", "files+a:1", "ui://x", "ui://files.x", "ui://two.x", "ui:x", "0:a", "two+0:a", "files+two+a:1"}
	templates := []string{"a:{x}", "two+a:{x}", "files+a:{x}", "ui://{x}", "ui://two.{x}"}
	some := func(of []string, as func(string) string) (items []string) {
		for _, i := range rng.Perm(len(of))[:rng.IntN(4)] {
			items = append(items, as(of[i]))
		}
		return items
	}
	for range 200 {
		listed := []Source{}
		for _, u := range []string{"one", "two", "files"} {
			prefix := map[string]string{"files": u}[u]
			listed = append(listed, source(t, u, prefix, slices.Concat(some(names, tool), some(uris, resource), some(templates, template))...))
		}
		rng.Shuffle(len(listed), func(i, j int) { listed[i], listed[j] = listed[j], listed[i] })
		leads := make(map[string]*Entry) // by kind and name
		for range 6 {
			now := slices.Clone(listed)
			for i := range now {
				switch rng.IntN(3) {
				case 0:
					now[i] = down(now[i])
				case 1:
					now[i] = down(source(t, now[i].Naming.Upstream(), now[i].Naming.Prefix()))
					now[i].NeverListed = true
				}
			}
			tbl := build(now...)
			v := tbl.View(call.Anonymous, nil)
			for kind, names := range [call.Kinds][]string{call.Tool: names, call.Resource: uris, call.Template: templates} {
				for _, e := range tbl.entries[kind] {
					names = append(names, e.Public)
				}
				for _, name := range names {
					to, ok := v.Resolve(call.Kind(kind), name)
					if !ok || to.Entry == nil {
						continue
					}
					key := fmt.Sprint(kind, name)
					if was := leads[key]; was != nil && (was.Upstream() != to.Part.Upstream() || was.Native != to.Native) {
						t.Fatalf("%v %q leads to %q of %s and to %q of %s", call.Kind(kind), name, was.Native, was.Upstream(), to.Native, to.Part.Upstream())
					}
					leads[key] = to.Entry
				}
			}
		}
	}
}

// A URI that begins like the URIs of an upstream whose templates clash belongs to that
// upstream, even if templates of others can expand to it.
func TestURIsOfClashingTemplates(t *testing.T) {
	v := build(
		source(t, "one", "", template("a:{x}"), template("{+any}")),
		source(t, "two", "", template("a:{x}")),
	).View(call.Anonymous, nil)
	resolves(t, v, call.Resource, "two+a:9", "two", "a:9")
	resolves(t, v, call.Resource, "a:9", "one", "a:9")
	resolves(t, v, call.Resource, "three+a:9", "one", "three+a:9")
}
