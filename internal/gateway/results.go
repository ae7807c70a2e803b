package gateway

import (
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/metatool"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/replica/sharedresults"
	"mcpgateway/internal/results"
	"mcpgateway/internal/script"
	"mcpgateway/internal/store"
)

// resultStore keeps long results.
type resultStore interface {
	results.Store
	SetLimits(results.Limits)
	Retain(keep func(profile string) bool)
	Close()
}

// newResults returns what keeps long results: this replica, and with a store all of them. It is called once.
func (g *Gateway) newResults(s store.Store) resultStore {
	limits := resultLimits(g.cfg.Results)
	local := results.NewMemory(limits, g.resultMetrics)
	if s == nil {
		return local
	}
	metrics := sharedresults.NewMetrics()
	g.registry.MustRegister(metrics.Collectors()...)
	g.sharing.results = sharedresults.New(sharedresults.Options{
		Values: s, Local: local, Limits: limits, Metrics: metrics,
		Unshared: func(err error) {
			g.ratelog.Warn("a long result is kept by this replica alone for now", zap.Error(err))
		},
		Troubled: func() bool { return g.store != nil && g.store.guard.Troubled(afterOutage) },
	})
	return g.sharing.results
}

// afterOutage is how long replicas may take to put their results into a store that works again.
const afterOutage = 5 * time.Second

// resultLimits are the limits for kept long results.
func resultLimits(r config.Results) results.Limits {
	return results.Limits{TTL: r.TTL, Total: int64(r.Memory), PerOwner: int64(r.PerPrincipal)}
}

// ownTools returns what answers calls of the gateway's own items.
func (g *Gateway) ownTools() *metatool.Tools {
	tools := metatool.New()
	tools.Results = &metatool.Results{
		Store: g.results, Max: func(profile string) int { return g.generation.Load().Results[profile].Max },
		Failed: func(c *call.Call, err error) {
			g.ratelog.Warn("a long result cannot be read for now", zap.String("request", c.ID), ratelog.Profile(c.Principal.Profile), zap.Error(err))
		},
	}
	tools.Scripts = func() *metatool.Scripts { return &g.generation.Load().Scripts }
	tools.View = func(c *call.Call) *catalog.View {
		return g.router.Routes().TableFor(c.Principal).View(c.Principal, c.Client)
	}
	tools.CompositeFailed = func(c *call.Call, tool string, f *script.Failure) {
		// The message may have values of the call.
		g.ratelog.Warn("a tool of tools_from failed", zap.String("request", c.ID), ratelog.Profile(c.Principal.Profile),
			zap.String("tool", tool), zap.Int("line", f.Line), zap.Int("column", f.Column), zap.String("code", f.Source))
	}
	if g.embeddings != nil {
		tools.Nearest = g.embeddings.Nearest
	}
	return tools
}

// limitResults applies a new configuration to the results that are kept. Results of a profile
// that shortens none any more cannot be read, so they go.
func (g *Gateway) limitResults(gen *generation) {
	g.results.SetLimits(resultLimits(gen.cfg.Results))
	g.results.Retain(func(profile string) bool { return gen.Results[profile].Max > 0 })
}
