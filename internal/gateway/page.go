package gateway

import (
	"cmp"
	"net/http"
	"slices"

	"mcpgateway/internal/config"
	"mcpgateway/internal/landing"
)

// servePage serves the page that says how to connect a host. It needs no credentials, since
// it shows nothing but the URL of the gateway.
func (g *Gateway) servePage(w http.ResponseWriter, r *http.Request) {
	if g.front.AdmitPage(w, r) {
		landing.Page(w, r, g.baseURL(r)+pathMCP, g.needsBearer())
	}
}

// serveRoot serves the page to browsers. Other requests have the wrong path.
func (g *Gateway) serveRoot(w http.ResponseWriter, r *http.Request) {
	if landing.IsFor(r) {
		g.servePage(w, r)
		return
	}
	g.notFound(w, r)
}

// baseURL returns the URL at which the sender of a request reaches the gateway.
func (g *Gateway) baseURL(r *http.Request) string {
	scheme := "http://"
	if r.TLS != nil || r.URL.Scheme == "https" {
		scheme = "https://"
	}
	return cmp.Or(g.cfg.PublicURL, scheme+r.Host)
}

// needsBearer reports whether clients need a key or a token.
func (g *Gateway) needsBearer() bool {
	modes := g.AuthModes()
	return !slices.Contains(modes, config.AuthNone) && (slices.Contains(modes, config.AuthKey) || slices.Contains(modes, config.AuthJWT))
}
