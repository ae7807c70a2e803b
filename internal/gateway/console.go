package gateway

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/webui"
)

// newConsole returns the console for the admin address, nil if the configuration turns it off.
func (g *Gateway) newConsole() *webui.Console {
	if !g.cfg.Admin.UI {
		return nil
	}
	return webui.New(webui.Options{
		Inspector: g.inspector, Status: g.Status, History: inspect.NewHistory(g.registry), Token: g.cfg.Admin.Token.Reveal(),
		Assume: func(p *call.Principal, profile string) (*call.Principal, []string, error) {
			return AssumedPrincipal(g.generation.Load().cfg, p, profile)
		},
	})
}
