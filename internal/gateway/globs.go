package gateway

import (
	"go.uber.org/zap"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/upstream/connector"
)

// UnmatchedGlobs returns the globs of a configuration's policy that match nothing in a
// table. Globs for upstreams that are not in the table, such as disabled ones, are left
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
	return t.UnusedGlobs(p, absent)
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
