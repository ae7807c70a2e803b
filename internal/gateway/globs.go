package gateway

import (
	"go.uber.org/zap"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/upstream/connector"
)

// UnmatchedGlobs returns the globs of a configuration's policy and profiles that match nothing
// in the table of everything. Globs for upstreams that are not in the table, such as disabled
// ones, are left out.
func UnmatchedGlobs(t *catalog.Table, cfg *config.Config) []catalog.UnusedGlob {
	gen := &generation{cfg: cfg}
	for _, u := range cfg.Upstreams {
		gen.entries = append(gen.entries, &upstreamEntry{name: u.Name, filter: filterOf(u)})
	}
	var err error
	if gen.policy, err = newPolicy(cfg, gen.entries); err != nil {
		return nil // loading the configuration reports the error
	}
	if gen.addProfiles(cfg) != nil {
		return nil
	}
	return gen.unmatchedGlobs(t)
}

func (gen *generation) unmatchedGlobs(t *catalog.Table) []catalog.UnusedGlob {
	var absent []*namespace.Naming
	for _, u := range gen.cfg.Upstreams {
		if _, ok := t.Part(u.Name); ok {
			continue
		}
		if s, err := namespace.New(u.Name, u.EffectivePrefix(), gen.cfg.Namespace.Separator); err == nil {
			absent = append(absent, s)
		}
	}
	globs := t.UnusedGlobs(gen.policy, absent)
	if gen.defaultProfile != nil {
		globs = append(globs, t.UnusedGlobsOf(gen.defaultProfile, absent)...)
	}
	for _, p := range gen.profiles {
		globs = append(globs, t.UnusedGlobsOf(p.profile, absent)...)
	}
	return globs
}

// maxLoggedGlobs bounds how many globs a log line contains.
const maxLoggedGlobs = 20

// logUnmatchedGlobs logs once for each generation which globs of its policy and profiles match nothing,
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
	for _, i := range gen.unmatchedGlobs(t) {
		globs = append(globs, i.String())
	}
	if n := len(globs); n > 0 {
		g.log.Warn("globs of the policy match nothing", zap.Int("count", n), zap.Strings("globs", globs[:min(n, maxLoggedGlobs)]))
	}
}
