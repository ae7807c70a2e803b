package gateway

import (
	"net/http"
	"slices"

	"mcpgateway/internal/config"
	"mcpgateway/internal/landing"
)

// servePage serves the page that says how to connect a host. It needs no credentials, since
// it shows nothing but the URL of the endpoint.
func (g *Gateway) servePage(w http.ResponseWriter, r *http.Request) {
	if !g.front.AdmitPage(w, r) {
		return
	}
	path := pathMCP
	if at, ok := g.endpoints.Load().Find(r.URL, r.Host); ok {
		path = at.Path
	}
	landing.Page(w, r, g.baseURL(r)+path, g.credentials())
}

// serveRoot serves the page to browsers. Other requests have the wrong path.
func (g *Gateway) serveRoot(w http.ResponseWriter, r *http.Request) {
	if landing.IsFor(r) {
		g.servePage(w, r)
		return
	}
	g.unknownPath(w, r)
}

// baseURL returns the URL at which the sender of a request reaches the gateway.
func (g *Gateway) baseURL(r *http.Request) string {
	return g.endpoints.Load().BaseURL(g.cfg.PublicURL, r)
}

// credentials returns those that clients need.
func (g *Gateway) credentials() landing.Credentials {
	modes := g.AuthModes()
	if slices.Contains(modes, config.AuthNone) {
		return landing.Credentials{}
	}
	return landing.Credentials{Keys: slices.Contains(modes, config.AuthKey), Tokens: slices.Contains(modes, config.AuthJWT)}
}
