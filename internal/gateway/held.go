package gateway

import (
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/pins"
)

// heldCount counts the tools of an upstream that pins hide. A person has refused the others and need not look at
// them again.
type heldCount struct{ all, waiting int }

// heldTools counts the tools that pins hide in the shared lists, by upstream.
func (g *Gateway) heldTools() map[string]heldCount {
	held := make(map[string]heldCount)
	for _, f := range g.router.Routes().Table.Ordinary().Findings() {
		if f.Issue != catalog.Held {
			continue
		}
		n := held[f.Upstream]
		n.all++
		if !pins.IsRefusal(f.Reason) {
			n.waiting++
		}
		held[f.Upstream] = n
	}
	return held
}
