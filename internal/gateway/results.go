package gateway

import (
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/metatool"
	"mcpgateway/internal/results"
	"mcpgateway/internal/router"
)

// addResultRules translates what a profile says about results of tools.
func (gen *generation) addResultRules(c *config.Profile, ttl time.Duration) {
	if c.MaxResult == 0 && c.Images.Max == 0 {
		return
	}
	if gen.results == nil {
		gen.results = make(map[string]router.ResultRules)
	}
	name := c.Name
	if name == config.DefaultProfile {
		name = ""
	}
	gen.results[name] = router.ResultRules{
		Max: int(c.MaxResult), TTL: ttl, CutStructured: c.StructuredContent == config.StructuredCut, ImageSide: c.Images.Max,
	}
}

// resultLimits are the limits of what is kept of long results.
func resultLimits(r config.Results) results.Limits {
	return results.Limits{TTL: r.TTL, Total: int64(r.Memory), PerOwner: int64(r.PerPrincipal)}
}

// ownTools returns what answers calls of the gateway's own items.
func (g *Gateway) ownTools() *metatool.Tools {
	tools := metatool.New()
	tools.Results = &metatool.Results{Store: g.results, Max: func(profile string) int { return g.generation.Load().results[profile].Max }}
	tools.Scripts = func() *metatool.Scripts { return &g.generation.Load().scripts }
	tools.View = func(c *call.Call) *catalog.View {
		return g.router.Routes().TableFor(c.Principal).View(c.Principal, c.Client)
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
	g.results.Retain(func(profile string) bool { return gen.results[profile].Max > 0 })
}
