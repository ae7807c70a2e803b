package gateway

import (
	"go.uber.org/zap"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/upstream"
)

// Idle returns the globs of a configuration's policy that cover nothing, by what a table
// lists of its upstreams. Those that are disabled, or else not in the table, may have
// anything.
func UnmatchedGlobs(t *catalog.Table, cfg *config.Config) []catalog.Idle {
	var members []*upstreamEntry
	for _, u := range cfg.Upstreams {
		members = append(members, &upstreamEntry{name: u.Name, filter: filterOf(u)})
	}
	p, err := newPolicy(cfg, members)
	if err != nil {
		return nil // whoever reads the file says so
	}
	return unmatchedGlobs(t, p, cfg)
}

func unmatchedGlobs(t *catalog.Table, p *policy.Policy, cfg *config.Config) []catalog.Idle {
	var lacking []*namespace.Space
	for _, u := range cfg.Upstreams {
		if _, ok := t.Part(u.Name); ok {
			continue
		}
		if s, err := namespace.New(u.Name, u.EffectivePrefix(), cfg.Namespace.Separator); err == nil {
			lacking = append(lacking, s)
		}
	}
	return t.Idle(p, lacking)
}

// maxIdle bounds how many globs one line of the log names.
const maxLoggedGlobs = 20

// logIdle says once for each configuration, when all its upstreams have listed what
// they have, which globs of its policy cover nothing.
func (g *Gateway) logUnmatchedGlobs(l *generation, t *catalog.Table, snapshots map[*connection]upstream.Snapshot) {
	if l.globsChecked {
		return
	}
	for _, m := range l.entries {
		if snapshots[m.conn].State != upstream.Ready || m.active.Load() != m.conn {
			return
		}
	}
	l.globsChecked = true
	var globs []string
	for _, i := range unmatchedGlobs(t, l.policy, l.cfg) {
		globs = append(globs, i.String())
	}
	if n := len(globs); n > 0 {
		g.log.Warn("globs of the policy match nothing", zap.Int("count", n), zap.Strings("globs", globs[:min(n, maxLoggedGlobs)]))
	}
}
