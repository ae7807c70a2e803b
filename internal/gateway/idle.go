package gateway

import (
	"go.uber.org/zap"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/upstream"
)

// Idle returns the globs of policy that cover nothing, by what a table lists of the
// upstreams of cfg. Those that are disabled, or else not in the table, may have anything.
func Idle(t *catalog.Table, cfg *config.Config) []catalog.Idle {
	var lacking []*namespace.Space
	for _, u := range cfg.Upstreams {
		if _, ok := t.Part(u.Name); ok {
			continue
		}
		if s, err := namespace.New(u.Name, u.EffectivePrefix(), cfg.Namespace.Separator); err == nil {
			lacking = append(lacking, s)
		}
	}
	return t.Idle(lacking)
}

// maxIdle bounds how many globs one line of the log names.
const maxIdle = 20

// logIdle says once for each configuration, when all its upstreams have listed what
// they have, which globs of its policy cover nothing.
func (g *Gateway) logIdle(l *lineup, t *catalog.Table, snapshots map[*link]upstream.Snapshot) {
	if l.surveyed {
		return
	}
	for _, m := range l.members {
		if snapshots[m.link].State != upstream.Ready || m.serving.Load() != m.link {
			return
		}
	}
	l.surveyed = true
	var idle []string
	for _, i := range Idle(t, l.cfg) {
		idle = append(idle, i.String())
	}
	if n := len(idle); n > 0 {
		g.log.Warn("globs of the policy match nothing", zap.Int("count", n), zap.Strings("globs", idle[:min(n, maxIdle)]))
	}
}
