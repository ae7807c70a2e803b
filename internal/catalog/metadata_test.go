package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/wire"
)

func buildEnriched(sources ...Source) *Table {
	return Build(Options{Policy: allowAll, Enrich: true}, sources)
}

func TestMetadata(t *testing.T) {
	v := buildEnriched(
		source(
			t, "files", "files",
			`{"uri":"file:///a","name":"a","mimeType":"text/plain","size":5,"annotations":{"priority":1.0},"x":1e2}`,
			`{"uri":"file:///d","name":"d","mimeType":"inode/directory"}`,
			`{"uri":"file:///later","name":"l","mimeType":"inode/directory","capabilities":{"list":true}}`,
			`{"uriTemplate":"file:///t/{name}","name":"any","title":"Any","description":"One file.","mimeType":"text/plain","icons":[{"src":"i"}],"x":1e2}`,
			`{"uriTemplate":"file:///t/{+path}/","uri":"file:///lie","name":"dirs","mimeType":"inode/directory"}`,
		),
		source(t, "open", "", `{"uriTemplate":"test://{id}","name":"tests"}`),
		source(t, "two", "", resource("b:1")),
	).View(call.Anonymous, nil)
	for _, tc := range []struct{ name, uri, want string }{
		{"listed", "files+file:///a", `{"uri":"files+file:///a","name":"a","mimeType":"text/plain","size":5,"annotations":{"priority":1.0},"x":1e2}`},
		{"a directory", "files+file:///d", `{"uri":"files+file:///d","name":"d","mimeType":"inode/directory","resourceType":"collection"}`},
		{"a directory of the later draft", "files+file:///later", `{"uri":"files+file:///later","name":"l","mimeType":"inode/directory","capabilities":{"list":true}}`},
		{"by template", "files+file:///t/x%20y", `{"uri":"files+file:///t/x%20y","name":"any","title":"Any","description":"One file.","mimeType":"text/plain","icons":[{"src":"i"}],"x":1e2}`},
		{"by template, as another spelling", "files+0:file:///t/x", `{"uri":"files+0:file:///t/x","name":"any","title":"Any","description":"One file.","mimeType":"text/plain","icons":[{"src":"i"}],"x":1e2}`},
		{"a directory by template", "files+file:///t/a/b/", `{"uri":"files+file:///t/a/b/","name":"dirs","mimeType":"inode/directory","resourceType":"collection"}`},
		{"without a prefix", "test://7", `{"uri":"test://7","name":"tests"}`},
		{"no upstream lists it", "files+file:///none", ""},
		{"a template has no slash in a variable", "files+file:///t/x/y", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target, ok := v.Resolve(call.Resource, tc.uri)
			if !ok {
				t.Fatal("does not resolve")
			}
			got, ok := v.Metadata(target, wire.Rev20251125, since)
			want := `{"resource":` + tc.want + `}`
			if tc.want == "" {
				want = ""
			}
			if string(got) != want || ok != (want != "") {
				t.Errorf("got %v\n%s\nwant\n%s", ok, got, want)
			}
			if modern, _ := v.Metadata(target, wire.Rev20260728, since.Add(10*time.Second)); ok &&
				string(modern) != `{"resultType":"complete","ttlMs":50000,"cacheScope":"public",`+want[1:] {
				t.Errorf("a modern client gets %s", modern)
			}
		})
	}
}

// Hidden resources and templates do not contribute metadata.
func TestMetadataOfHiddenItems(t *testing.T) {
	src := source(t, "files", "files", resource("file:///dir"), resource("file:///dir/open"), resource("file:///dir/secret"), template("file:///dir/{x}"))
	p := policy.MustNew(policy.Options{Default: policy.Allow, Upstreams: map[string]policy.Upstream{
		"files": {Resources: policy.Globs{Deny: []string{"*secret", "*{x}"}}},
	}})
	v := Build(Options{Policy: p, Enrich: true}, []Source{src}).View(call.Anonymous, nil)
	target, _ := v.Resolve(call.Resource, "files+file:///dir/other")
	if got, ok := v.Metadata(target, wire.Rev20251125, since); ok {
		t.Errorf("a hidden template describes %s", got)
	}
	if _, ok := v.Resolve(call.Resource, "files+file:///dir/secret"); ok {
		t.Error("the secret resolves")
	}
	page, _, _ := v.Children("files+file:///dir", wire.Rev20251125, "", since)
	if diff := cmp.Diff([]string{"files+file:///dir/open"}, urisOf(page, "resources")); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}

	dir, _ := v.Resolve(call.Resource, "files+file:///dir")
	read := wire.Raw(`{"contents":[{"uri":"files+file:///dir/secret","text":"s"}, {"uri":"files+file:///dir","text":""},{"uri":"files+file:///dir/open","text":"o"},{"uri":"files+file:///dir/sub/secret","text":"t"},{"uri":"other+a:","text":""},{"text":""}]}`)
	if diff := cmp.Diff([]string{"files+file:///dir", "files+file:///dir/open", ""}, urisOf(v.FilterContents(dir, read), "contents")); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	listed := wire.Raw(`{"resources":[{"uri":"file:///dir/secret","name":"s"},{"uri":"file:///dir/unlisted","name":"u"},{"uri":"file:///dir/nameless"},{"uri":"file:///dir/sub/secret","name":"t"}],"nextCursor":"n"}`)
	var reported []string
	adopted := v.Adopt(dir.Part, listed, func(a Adopted) { reported = append(reported, fmt.Sprint(a.Native, a.Findings[0].Kind)) })
	if want := `{"resources":[{"uri":"file:///dir/unlisted","name":"u"}],"nextCursor":"n"}`; string(adopted) != want {
		t.Errorf("adopted %s, want %s", adopted, want)
	}
	if want := []string{"file:///dir/nameless" + conform.Missing.String()}; !slices.Equal(reported, want) {
		t.Errorf("findings of %q, want %q", reported, want)
	}
}

func TestAdoptRepairs(t *testing.T) {
	src := source(t, "files", "files")
	src.Rules.Conformance, src.Rules.Sanitize = conform.Repair, sanitize.Control
	v := buildEnriched(src).View(call.Anonymous, nil)
	p, _ := v.table.Part("files")
	listed := wire.Raw(`{"resources":[{"uri":"a:1","name":"a","size":"5"},{"uri":"a:2","name":"b\u0007","x":1e2},{"uri":"a:3","name":"c"}]}`)
	reported := 0
	got := v.Adopt(p, listed, func(Adopted) { reported++ })
	if !strings.Contains(string(got), `{"uri":"a:2","name":"b","x":1e2},{"uri":"a:3","name":"c"}]}`) || strings.Contains(string(got), `"5"`) || reported != 2 {
		t.Errorf("%d adopted items with findings: %s", reported, got)
	}
	if got := v.Adopt(p, wire.Raw(`{"resources":7}`), func(Adopted) { t.Error("a finding was reported") }); string(got) != `{"resources":7}` {
		t.Errorf("got %s", got)
	}
}

func urisOf(result wire.Raw, member string) []string {
	out := []string{}
	for el := range wire.ValueOf(result).Get(member).Elements() {
		out = append(out, el.Get("uri").Str())
	}
	return out
}

func TestEnrich(t *testing.T) {
	src := source(t, "files", "files", `{"uri":"file:///a","name":"a","title":"A"}`, `{"uri":"file:///b","name":"b"}`, `{"uriTemplate":"file:///t/{x}","name":"any"}`)
	other := source(t, "other", "", resource("x:1"))
	read := wire.Raw(`{"contents":[{"uri":"files+file:///a","text":"1"},{"uri":"files+file:///b","text":"22"},{"uri":"files+file:///t/c","text":"333"},{"uri":"x:1","text":"4444"}]}`)
	const want = `{"contents":[{"uri":"files+file:///a","text":"1","name":"a","title":"A","size":1},{"uri":"files+file:///b","text":"22","name":"b","size":2},` +
		`{"uri":"files+file:///t/c","text":"333","size":3},{"uri":"x:1","text":"4444","size":4}]}`
	v := buildEnriched(src, other).View(call.Anonymous, nil)
	a, _ := v.Resolve(call.Resource, "files+file:///a")
	if got := v.Enrich(a, read); string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	c, _ := v.Resolve(call.Resource, "files+file:///t/c")
	if got := v.Enrich(c, read); !strings.Contains(string(got), `{"uri":"files+file:///t/c","text":"333","name":"any","size":3}`) {
		t.Errorf("the metadata of the template is missing in %s", got)
	}
	plain := build(src, other).View(call.Anonymous, nil)
	if got := plain.Enrich(a, read); &got[0] != &read[0] {
		t.Errorf("without enrichment: %s", got)
	}
}

func TestChildren(t *testing.T) {
	v := Build(Options{Policy: allowAll, PageItems: 2}, []Source{source(
		t, "files", "files",
		resource("file:///d"), resource("file:///d/"), resource("file:///d/1"), resource("file:///dd/1"), resource("file:///d/sub/"), resource("file:///d/sub/x"),
		resource("file:///d/3?q=a/b"), resource("file:///d/?q"), resource("file:///d//x"), resource("file:///d/4#a/b"), resource("file:///d/5"),
		resource("ui://app/one"), resource("demo://r"), resource("note:a/b"), resource("https://h/x/1"),
	), source(t, "open", "", resource("https://h/x/2"))}).View(call.Anonymous, nil)
	var all []string
	for _, n := range []string{"1", "sub/", "3?q=a/b", "4#a/b", "5"} {
		all = append(all, "files+file:///d/"+n)
	}
	for _, tc := range []struct {
		uri   string
		want  []string
		known bool
	}{
		{"files+file:///d", all, true},
		{"files+file:///d/", all, true},
		{"files+file:///d/sub", []string{"files+file:///d/sub/x"}, true},
		{"files+file:///", []string{"files+file:///d", "files+file:///d/", "files+file:///d/?q"}, true},
		{"files+file:///d/1", nil, false},
		{"files+file:///none", nil, false},
		{"files+file:", nil, false},
		{"ui://files.app", []string{"ui://files.app/one"}, true},
		{"files+demo://", []string{"files+demo://r"}, true},
		{"files+note:a", []string{"files+note:a/b"}, true},
		{"https://h", nil, true}, // its resources are deeper
		{"https://h/x", []string{"https://h/x/1", "https://h/x/2"}, true},
		{"", nil, false},
	} {
		t.Run(tc.uri, func(t *testing.T) {
			got, cursor := []string{}, ""
			for {
				page, known, err := v.Children(tc.uri, wire.Rev20260728, cursor, since)
				if err != nil || known != tc.known {
					t.Fatal(known, err)
				}
				uris := urisOf(page, "resources")
				if len(uris) > 2 {
					t.Errorf("a page of %d", len(uris))
				}
				got = append(got, uris...)
				root := wire.ValueOf(page)
				if !root.Get("ttlMs").Exists() || !root.Get("cacheScope").Exists() || !root.Get("resultType").IsString("complete") {
					t.Errorf("the result lacks members of its era: %s", page)
				}
				next := root.Get("nextCursor").Str()
				if next == "" {
					break
				}
				cursor = next
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if _, _, err := v.Children("files+file:///d", wire.Rev20251125, "x", since); err == nil || err.Code != wire.CodeInvalidParams {
		t.Errorf("an invalid cursor: %v", err)
	}
}

func BenchmarkDescribeByTemplate(b *testing.B) {
	v := buildEnriched(source(b, "files", "files", resource("file:///a"), template("file:///t/{x}"), template("file:///u/{x}"))).View(call.Anonymous, nil)
	target, _ := v.Resolve(call.Resource, "files+file:///u/c")
	b.ReportAllocs()
	for b.Loop() {
		if v.Describe(target) == nil {
			b.Fatal("unknown")
		}
	}
}
