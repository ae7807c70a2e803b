package catalog

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
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
