package catalog

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// some returns a random part of a list.
func some[T any](r *rand.Rand, of ...T) []T {
	out := []T{}
	for _, x := range of {
		if r.IntN(2) == 0 {
			out = append(out, x)
		}
	}
	return out
}

var (
	propertyNames = []string{"read", "write", "b__read", "a__write", "a b", "search_tools"}
	// propertyURIs are in the lists of upstreams in any spelling.
	propertyURIs = []string{"file:///x", "FILE:///x", "file:///%78", "file:///pub/y", "file:///pub/../x", "https://h/x", "ui://w/x", "memo:z"}
	propertyText = []string{"file:///{+p}", "memo:{id}", "https://h/{p}"}
)

func randomSources(t *testing.T, r *rand.Rand) []Source {
	var sources []Source
	for _, u := range []struct{ name, prefix string }{{"a", "a"}, {"b", ""}, {"c", pick(r, "", "c")}, {"d", "d"}} {
		var items []string
		for _, name := range some(r, propertyNames...) {
			items = append(items, fmt.Sprintf(`{"name":%s,"description":"A description of many words.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":%t}}`,
				wire.String(name), r.IntN(2) == 0))
		}
		for _, name := range some(r, propertyNames...) {
			items = append(items, prompt(name))
		}
		for _, uri := range some(r, propertyURIs...) {
			items = append(items, fmt.Sprintf(`{"uri":%s,"name":"r","mimeType":%q}`, wire.String(uri), pick(r, "text/plain", "secret/x")))
		}
		for _, text := range some(r, propertyText...) {
			items = append(items, template(text))
		}
		if r.IntN(6) == 0 {
			items = nil
		}
		s := source(t, u.name, u.prefix, items...)
		s.NeverListed = items == nil
		if r.IntN(4) == 0 {
			s = down(s)
		}
		if r.IntN(3) == 0 {
			s.Rules.ToolOverride = map[string]Override{"write": {Name: pick(r, "put", "read")}, "read": {Annotations: map[string]bool{"readOnlyHint": false}}}
		}
		sources = append(sources, s)
	}
	return sources
}

func randomRules(t *testing.T, r *rand.Rand, name string, effects ...policy.Effect) []policy.Rule {
	var rules []policy.Rule
	for i := range r.IntN(4) {
		rule := policy.Rule{Name: fmt.Sprint(name, i), Effect: pick(r, effects...)}
		rule.What = pick(r, policy.What{}, policy.What{Tools: []string{"a__*"}}, policy.What{Tools: []string{"read", "b__*"}, Prompts: []string{"*write"}},
			policy.What{Resources: []string{"*file:///x"}}, policy.What{Resources: []string{"a+*", "memo:*"}}, policy.What{Upstreams: []string{"b"}},
			policy.What{Resources: []string{"*pub*"}}, policy.What{Tools: []string{"a__write"}})
		switch r.IntN(4) {
		case 0:
			rule.When = condition(t, `tool.annotations.readOnlyHint`)
		case 1:
			rule.When = condition(t, `resource.mimeType == "secret/x"`)
		}
		rules = append(rules, rule)
	}
	return rules
}

func randomProfile(t *testing.T, r *rand.Rand) *profile.Profile {
	globs := func(allow, deny []string) policy.Globs {
		g := policy.Globs{Deny: deny}
		if r.IntN(2) == 0 {
			g.Allow = allow
		}
		return g
	}
	o := profile.Options{
		Select: policy.Selection{
			Tools: globs(some(r, "a__*", "*read", "b__*", "write"), some(r, "a__write", "*b__read")), Prompts: globs(some(r, "*"), some(r, "*search*")),
			Resources: globs(some(r, "*file:///x", "a+*", "https:*", "memo:*"), some(r, "*file:///pub*", "FILE:*", "*/%78")),
		},
		Rules:      randomRules(t, r, "own", policy.Deny, policy.Confirm),
		ShortNames: r.IntN(2) == 0, Trim: profile.Trim{Description: pick(r, 0, 16), Annotations: r.IntN(2) == 0},
		Configured: []profile.Upstream{
			{Name: "a", Tags: some(r, "t")}, {Name: "b", Tags: some(r, "t"), Tools: map[string][]string{"write": {"t"}}}, {Name: "c"}, {Name: "d", Tags: []string{"t"}},
		},
	}
	if r.IntN(2) == 0 {
		o.Upstreams = some(r, "a", "b", "c", "d")
	}
	if r.IntN(2) == 0 {
		o.Tags = []string{"t"}
	}
	if r.IntN(3) == 0 {
		o.Annotations = map[string]bool{"readOnlyHint": r.IntN(2) == 0}
	}
	if r.IntN(3) == 0 {
		o.Own = []profile.OwnItem{{Kind: call.Tool, Definition: wire.Raw(tool("search_tools")), Meta: true}}
	}
	return profileOf(t, o)
}

// spellings are URIs that clients try.
func spellings() []string {
	var out []string
	for _, uri := range append(propertyURIs, "file:///other", "file:///X", "file:///x/", "memo:%7A", "file:///{+p}", "memo:{id}") {
		for _, lead := range []string{"", "a+", "b+", "c+", "d+", "a+0:", "A+"} {
			out = append(out, lead+uri)
		}
		out = append(out, "ui://a."+strings.TrimPrefix(uri, "ui://"), "ui://d."+strings.TrimPrefix(uri, "ui://"))
	}
	return out
}

// TestProfileNarrows checks random profiles of random sources against the table of everything: what a
// profile shows or resolves is allowed there, too, for the same item of the same upstream, and the decision is
// not looser than either that of the common policy or that of the profile.
func TestProfileNarrows(t *testing.T) {
	shown, resolved := 0, 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 14))
		common := policy.MustNew(policy.Options{Default: pick(r, policy.Allow, policy.Allow, policy.Deny), Rules: randomRules(t, r, "common", policy.Deny, policy.Confirm, policy.Allow)})
		all := Build(Options{Policy: common}, randomSources(t, r))
		p := randomProfile(t, r)
		own := all.ForProfile(p)
		everything, v := all.View(call.Anonymous, nil), own.View(call.Anonymous, nil)
		check := func(public string, target Target) {
			if target.Part.Own() {
				return
			}
			part, ok := all.Part(target.Part.Upstream())
			if !ok || !p.HasUpstream(part.Upstream()) {
				t.Fatalf("seed %d: %q leads to %s, which the profile does not have", seed, public, target.Part.Upstream())
			}
			q := policy.Request{Method: target.Kind.Method(), Params: wire.Raw(`{}`)}
			before := everything.PolicyFor(target.Kind, part, target.OrdinaryName(), target.Native).Decide(q)
			now := target.Policy.Decide(q)
			if now.Allowed() && before.Denied() || now.AllowedOutright() && before.NeedsConfirmation() {
				t.Fatalf("seed %d: %s %q of %s is %s (%s), and %s (%s) without the profile", seed, target.Kind, public, part.Upstream(), now.Effect, now.Rule, before.Effect, before.Rule)
			}
			if target.Entry == nil {
				return
			}
			o := target.Entry.Ordinary()
			if listed := everything.TargetFor(target.Kind, part, o.Public, o.Native); listed.Entry != o {
				t.Fatalf("seed %d: %q is shown, and its item is not without the profile", seed, public)
			}
			if !p.Selects(o.policyItem()) {
				t.Fatalf("seed %d: %q is shown and not selected", seed, public)
			}
			if target.Entry.Public == o.Public && string(target.Entry.Raw) == string(o.Raw) && &target.Entry.Raw[0] != &o.Raw[0] {
				t.Fatalf("seed %d: %q has bytes of its own", seed, public)
			}
		}
		names := map[call.Kind]map[string]bool{}
		for kind := range call.Kind(call.Kinds) {
			names[kind] = map[string]bool{}
			for _, e := range own.entries[kind] {
				if names[kind][e.Public] && !e.repeated {
					t.Fatalf("seed %d: two %s are called %q", seed, kind.Plural(), e.Public)
				}
				names[kind][e.Public] = true
				if target, ok := v.Resolve(kind, e.Public); ok {
					shown++
					check(e.Public, target)
				} else if v.allowed[kind][e.index] {
					t.Fatalf("seed %d: %q does not resolve", seed, e.Public)
				}
			}
			for _, name := range append(propertyNames, "a__read", "c__read", "put", "a__put", "d__read") {
				if target, ok := v.Resolve(kind, name); ok {
					check(name, target)
				}
				for _, u := range v.UnavailableFor(kind, name) {
					if !p.HasUpstream(u.Upstream) {
						t.Fatalf("seed %d: %q may belong to %s", seed, name, u.Upstream)
					}
				}
			}
		}
		for _, uri := range spellings() {
			if target, ok := v.Resolve(call.Resource, uri); ok {
				resolved++
				check(uri, target)
			}
		}
		for _, u := range v.Unavailable() {
			if !p.HasUpstream(u.Upstream) {
				t.Fatalf("seed %d: %s is said to be down", seed, u.Upstream)
			}
		}
	}
	if shown < 1000 || resolved < 1000 {
		t.Errorf("the test sees too little: %d items shown, %d URIs resolved", shown, resolved)
	}
}
