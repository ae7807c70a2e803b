package gateway

import (
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/pins"
	"mcpgateway/internal/policy"
)

// heldCount counts the tools of an upstream that pins hide. A person has refused the others and need not look at
// them again. The lists of the upstream hide a part of all.
type heldCount struct{ all, waiting, byLists int }

// heldTools counts the tools that pins hide in the shared lists, by upstream.
func (g *Gateway) heldTools() map[string]heldCount {
	held, lists := make(map[string]heldCount), g.generation.Load().Policy
	for _, f := range g.router.Routes().Table.Ordinary().Findings() {
		if f.Issue != catalog.Held {
			continue
		}
		n := held[f.Upstream]
		n.all++
		if !pins.IsRefusal(f.Reason) {
			n.waiting++
		}
		if !lists.Selects(policy.Item{Kind: f.Kind, Upstream: f.Upstream, Native: f.Native}) {
			n.byLists++
		}
		held[f.Upstream] = n
	}
	return held
}
