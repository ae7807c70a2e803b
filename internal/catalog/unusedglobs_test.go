package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

// A glob that covers no listed item is reported, with the nearest name. A glob that may
// cover an unknown item is not.
func TestUnusedGlobs(t *testing.T) {
	rule := func(w policy.What) policy.Options {
		return policy.Options{Rules: []policy.Rule{{Name: "r", Effect: policy.Allow, What: w, File: "p.yaml", Line: 3}}}
	}
	files := func(u policy.Upstream) policy.Options {
		return policy.Options{Upstreams: map[string]policy.Upstream{"files": u}}
	}
	fs := source(t, "files", "files", tool("read_file"), tool("write_file"), prompt("explain"), resource("file:///a"))
	fs.Capabilities = wire.Raw(`{"resources":{}}`)
	held := source(t, "files", "files", tool("read_file"))
	held.HeldTools = []string{"changed"}
	templated := source(t, "files", "files", tool("read_file"), template("file:///pub/{+path}"))
	dynamic := source(t, "files", "files", tool("read_file"))
	dynamic.Capabilities = wire.Raw(`{"resources":{}}`)
	gone := down(source(t, "gone", "gone"))
	asleep := source(t, "asleep", "asleep").Naming
	for _, tt := range []struct {
		name    string
		policy  policy.Options
		sources []Source
		lacking []*namespace.Naming
		want    []string
	}{
		{"a typing error", files(policy.Upstream{Tools: policy.Globs{Deny: []string{"read_*", "wirte_*"}}}), []Source{fs}, nil,
			[]string{`upstreams.files.tools.deny[1] "wirte_*" matches nothing that is listed; did you mean "write_file"?`}},
		{"a name", files(policy.Upstream{Tools: policy.Globs{Allow: []string{"red_file", "*"}}}), []Source{fs}, nil,
			[]string{`upstreams.files.tools.allow[0] "red_file" matches nothing that is listed; did you mean "read_file"?`}},
		{"the end of a name", files(policy.Upstream{Tools: policy.Globs{Deny: []string{"*_flie"}}}), []Source{fs}, nil,
			[]string{`upstreams.files.tools.deny[0] "*_flie" matches nothing that is listed; did you mean "read_file"?`}},
		{"nothing like it", files(policy.Upstream{Prompts: policy.Globs{Deny: []string{"x*y"}}}), []Source{fs}, nil,
			[]string{`upstreams.files.prompts.deny[0] "x*y" matches nothing that is listed`}},
		{"a URI", files(policy.Upstream{Resources: policy.Globs{Deny: []string{"file:///b", "FILE:///A"}}}), []Source{fs}, nil,
			[]string{`upstreams.files.resources.deny[0] "file:///b" matches nothing that is listed; did you mean "file:///a"?`}},
		{"public names in a list of native ones", files(policy.Upstream{Tools: policy.Globs{Allow: []string{"read_file", "files__read_file", "files__wirte_*", "files__nothing*", "file__read_file"}}, Resources: policy.Globs{Deny: []string{"files+file:///a"}}}), []Source{fs}, nil,
			[]string{`upstreams.files.tools.allow[1] "files__read_file" matches nothing that is listed; names here are without the prefix files__; did you mean "read_file"?`,
				`upstreams.files.tools.allow[2] "files__wirte_*" matches nothing that is listed; names here are without the prefix files__; did you mean "write_file"?`,
				`upstreams.files.tools.allow[3] "files__nothing*" matches nothing that is listed; names here are without the prefix files__`,
				`upstreams.files.tools.allow[4] "file__read_file" matches nothing that is listed`,
				`upstreams.files.resources.deny[0] "files+file:///a" matches nothing that is listed; names here are without the prefix files+; did you mean "file:///a"?`}},
		{"everything", files(policy.Upstream{Prompts: policy.Globs{Deny: []string{"*"}}}), []Source{source(t, "files", "files", tool("t"))}, nil, nil},
		{"a URI of a template", files(policy.Upstream{Resources: policy.Globs{Deny: []string{"file:///pub/x*", "file:///secret/*"}}}), []Source{templated}, nil,
			[]string{`upstreams.files.resources.deny[1] "file:///secret/*" matches nothing that is listed`}},
		{"unlisted resources", files(policy.Upstream{Resources: policy.Globs{Deny: []string{"file:///secret/*"}}}), []Source{dynamic}, nil, nil},
		{"a rule", rule(policy.What{Tools: []string{"files__read_*", "files__raed_file"}, Upstreams: []string{"files", "flies"}}), []Source{fs}, nil,
			[]string{`policy rule "r": what.tools[1] "files__raed_file" matches nothing that is listed; did you mean "files__read_file"?`,
				`policy rule "r": what.upstreams[1] "flies" matches nothing; did you mean "files"?`}},
		{"the prefix in a rule", rule(policy.What{Tools: []string{"fils__*", "fils__nothing*", "unlike__*", "fils__read_file"}, Resources: []string{"fils+*"}}), []Source{fs, source(t, "b", "b", tool("t"))}, nil,
			[]string{`policy rule "r": what.tools[0] "fils__*" matches nothing that is listed; did you mean "files__*"?`,
				`policy rule "r": what.tools[1] "fils__nothing*" matches nothing that is listed`,
				`policy rule "r": what.tools[2] "unlike__*" matches nothing that is listed`,
				`policy rule "r": what.tools[3] "fils__read_file" matches nothing that is listed; did you mean "files__read_file"?`,
				`policy rule "r": what.resources[0] "fils+*" matches nothing that is listed; did you mean "files+*"?`}},
		{"native names in a rule", rule(policy.What{Tools: []string{"read_file"}}), []Source{fs}, nil,
			[]string{`policy rule "r": what.tools[0] "read_file" matches nothing that is listed`}},
		{"of another upstream", rule(policy.What{Tools: []string{"files__*"}, Upstreams: []string{"b"}}), []Source{fs, source(t, "b", "b", tool("t"))}, nil,
			[]string{`policy rule "r": what.tools[0] "files__*" matches nothing that is listed`}},
		{"a down upstream", rule(policy.What{Tools: []string{"gone__*", "gnoe__*"}, Resources: []string{"gone+x:*"}}), []Source{fs, gone}, nil,
			[]string{`policy rule "r": what.tools[1] "gnoe__*" matches nothing that is listed`}},
		{"a disabled upstream", rule(policy.What{Tools: []string{"asleep__*", "*__*_x"}, Upstreams: []string{"asleep"}}), []Source{fs}, []*namespace.Naming{asleep}, nil},
		{"a list of a disabled upstream", policy.Options{Upstreams: map[string]policy.Upstream{"asleep": {Tools: policy.Globs{Deny: []string{"x"}}}}}, []Source{fs}, []*namespace.Naming{asleep}, nil},
		{"a list that is not the current one", rule(policy.What{Tools: []string{"files__raed_file", "flies__*"}}), []Source{fs}, []*namespace.Naming{fs.Naming},
			[]string{`policy rule "r": what.tools[1] "flies__*" matches nothing that is listed`}},
		{"a held tool", rule(policy.What{Tools: []string{"files__read_file"}}), []Source{held}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, i := range Build(Options{Policy: allowAll}, tt.sources).UnusedGlobs(policy.MustNew(tt.policy), tt.lacking) {
				got = append(got, i.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnusedGlobsOfProfiles checks globs of a profile: they mean ordinary names of its upstreams.
func TestUnusedGlobsOfProfiles(t *testing.T) {
	fs := source(t, "files", "files", tool("read_file"), prompt("explain"), resource("file:///a"))
	fs.Capabilities = wire.Raw(`{"resources":{}}`)
	git := source(t, "git", "git", tool("push"))
	globs := func(allow ...string) policy.Globs {
		return policy.Globs{Allow: allow, Deny: []string{"git__push", "*"}}
	}
	p := profileOf(t, profile.Options{
		Name: "coding", Upstreams: []string{"files"}, ShortNames: true, Search: true, Pinned: []string{"read_file", "files__*"},
		Select: policy.Selection{Tools: globs("*", "files__raed_file", "files__read_file"), Prompts: policy.Globs{Allow: []string{"files__ex*"}}},
		Rules:  []policy.Rule{{Name: "ask", Effect: policy.Confirm, What: policy.What{Tools: []string{"read_*", "files__read_*"}, Upstreams: []string{"git"}}}},
	})
	var got []string
	for _, i := range build(fs, git).UnusedGlobsOf(p, nil) {
		got = append(got, i.String())
	}
	want := []string{
		`profiles.coding.tools.allow[1] "files__raed_file" matches nothing that is listed; did you mean "files__read_file"?`,
		`profiles.coding.tools.deny[0] "git__push" matches nothing that is listed`,
		`policy rule "ask": what.tools[0] "read_*" matches nothing that is listed`,
		`policy rule "ask": what.tools[1] "files__read_*" matches nothing that is listed`,
		`policy rule "ask": what.upstreams[0] "git" matches nothing`,
		`profiles.coding.pinned[0] "read_file" matches nothing that is listed`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
