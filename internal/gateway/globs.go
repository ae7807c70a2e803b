package gateway

import (
	"strings"

	"go.uber.org/zap"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/upstream/connector"
)

// UnmatchedGlobs returns the globs of a configuration's policy and profiles that match nothing
// in a table. Globs for upstreams that are not in the table, such as disabled ones, are left
// out.
func UnmatchedGlobs(t *catalog.Table, cfg *config.Config) []catalog.UnusedGlob {
	var entries []*upstreamEntry
	for _, u := range cfg.Upstreams {
		entries = append(entries, &upstreamEntry{name: u.Name, filter: filterOf(u)})
	}
	p, err := newPolicy(cfg, entries)
	if err != nil {
		return nil // loading the configuration reports the error
	}
	return unmatchedGlobs(t, p, cfg)
}

func unmatchedGlobs(t *catalog.Table, p *policy.Policy, cfg *config.Config) []catalog.UnusedGlob {
	var absent []*namespace.Naming
	for _, u := range cfg.Upstreams {
		if _, ok := t.Part(u.Name); ok {
			continue
		}
		if s, err := namespace.New(u.Name, u.EffectivePrefix(), cfg.Namespace.Separator); err == nil {
			absent = append(absent, s)
		}
	}
	globs := t.UnusedGlobs(p, absent)
	for _, c := range cfg.Profiles {
		globs = append(globs, unmatchedProfileGlobs(t, &c, absent)...)
	}
	return globs
}

// unmatchedProfileGlobs returns the globs of a profile's lists that match nothing in the table of
// everything.
func unmatchedProfileGlobs(t *catalog.Table, c *config.Profile, absent []*namespace.Naming) (all []catalog.UnusedGlob) {
	for _, l := range []struct {
		key  string
		what policy.What
	}{
		{"tools.allow", policy.What{Tools: c.Tools.Allow}}, {"tools.deny", policy.What{Tools: c.Tools.Deny}},
		{"resources.allow", policy.What{Resources: c.Resources.Allow}}, {"resources.deny", policy.What{Resources: c.Resources.Deny}},
		{"prompts.allow", policy.What{Prompts: c.Prompts.Allow}}, {"prompts.deny", policy.What{Prompts: c.Prompts.Deny}},
		{"pinned", policy.What{Tools: c.Pinned}},
	} {
		if len(l.what.Tools)+len(l.what.Resources)+len(l.what.Prompts) == 0 {
			continue
		}
		list, err := policy.New(policy.Options{Default: policy.Allow, Rules: []policy.Rule{{Name: l.key, Effect: policy.Deny, What: l.what}}})
		if err != nil {
			continue // loading the configuration reports the error
		}
		for _, glob := range t.UnusedGlobs(list, absent) {
			_, index, _ := strings.Cut(glob.Place, "[")
			glob.Key = "profiles." + c.Name + "." + l.key + "[" + index
			all = append(all, glob)
		}
	}
	return all
}

// maxLoggedGlobs bounds how many globs a log line contains.
const maxLoggedGlobs = 20

// logUnmatchedGlobs logs once for each generation which globs of its policy match nothing,
// when all its upstreams have listed their items.
func (g *Gateway) logUnmatchedGlobs(gen *generation, t *catalog.Table, gathered snapshots) {
	if gen.globsChecked {
		return
	}
	for _, e := range gen.entries {
		if gathered[e.conn].State != connector.Ready || e.active.Load() != e.conn {
			return
		}
	}
	gen.globsChecked = true
	var globs []string
	for _, i := range unmatchedGlobs(t, gen.policy, gen.cfg) {
		globs = append(globs, i.String())
	}
	if n := len(globs); n > 0 {
		g.log.Warn("globs of the policy match nothing", zap.Int("count", n), zap.Strings("globs", globs[:min(n, maxLoggedGlobs)]))
	}
}
