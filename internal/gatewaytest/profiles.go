package gatewaytest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
)

// WorldProfile is what a random profile selects, for the gateway and for the naive evaluator.
type WorldProfile struct{ Opts profile.Options }

// RandomProfile makes a random profile of the world.
func RandomProfile(r *rand.Rand, name string) WorldProfile {
	p := WorldProfile{Opts: profile.Options{
		Name:      name,
		Upstreams: Pick(r, nil, nil, []string{"db", "files"}, []string{"files", "gone", "open"}, []string{"open"}),
		Tags:      Pick(r, nil, nil, nil, []string{"core"}, []string{"core", "net"}),
		Select: policy.Selection{
			Tools:     policy.Globs{Allow: Pick(r, nil, nil, []string{"db__*", "solo"}, []string{"*r*"}, []string{}), Deny: Pick(r, nil, nil, []string{"*__write"}, []string{"s*"})},
			Prompts:   policy.Globs{Allow: Pick(r, nil, nil, []string{"files__*"}), Deny: Pick(r, nil, []string{"db__greet"})},
			Resources: policy.Globs{Allow: Pick(r, nil, nil, []string{"files+*", "memo:*"}, []string{"db+row:1", "memo:x"}, []string{}), Deny: Pick(r, nil, nil, []string{"*etc*"}, []string{"files+*"})},
		},
	}}
	for _, name := range []string{"db", "files", "gone", "open"} {
		p.Opts.Configured = append(p.Opts.Configured, profile.Upstream{Name: name, Tags: Pick(r, nil, []string{"core"}, []string{"net", "old"})})
	}
	return p
}

// hasUpstream reports whether an upstream is part of the profile.
func (p WorldProfile) hasUpstream(name string) bool {
	at := slices.IndexFunc(p.Opts.Configured, func(u profile.Upstream) bool { return u.Name == name })
	tagged := slices.ContainsFunc(p.Opts.Configured[at].Tags, func(tag string) bool { return slices.Contains(p.Opts.Tags, tag) })
	return (p.Opts.Upstreams == nil || slices.Contains(p.Opts.Upstreams, name)) && (p.Opts.Tags == nil || tagged)
}

// selects reports whether the profile has an item.
func (p WorldProfile) selects(it WorldItem) bool {
	s := p.Opts.Select
	globs := [call.Kinds]policy.Globs{call.Tool: s.Tools, call.Prompt: s.Prompts, call.Resource: s.Resources, call.Template: s.Resources}[it.Kind]
	return p.hasUpstream(it.Upstream) && !globbed(globs.Deny, it.Public) && (globs.Allow == nil || globbed(globs.Allow, it.Public))
}

// Tables returns the table of each profile, made from the table of everything.
func (p WorldPolicy) Tables(t testing.TB, everything *catalog.Table) map[string]*catalog.Table {
	t.Helper()
	tables := make(map[string]*catalog.Table)
	for _, name := range slices.Sorted(maps.Keys(p.Profiles)) {
		selects, err := profile.New(p.Profiles[name].Opts)
		if err != nil {
			t.Fatal(err)
		}
		tables[name] = everything.ForProfile(selects)
	}
	return tables
}
