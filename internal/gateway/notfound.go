package gateway

import (
	"fmt"
	"net/http"
	"path"
	"strings"
)

// unknownPath logs and answers a request to a path that is not served.
func (g *Gateway) unknownPath(w http.ResponseWriter, r *http.Request) {
	g.front.UnknownPath(w, r)
	g.notFound(w, r)
}

// notFound answers a request to a path that is not served to its sender. The answer has the
// URL that was probably meant, and is the same for a profile that does not exist and for one
// that the sender may not use.
func (g *Gateway) notFound(w http.ResponseWriter, r *http.Request) {
	base := g.baseURL(r)
	profiles := ""
	if len(g.endpoints.Load().Names()) > 1 {
		profiles = fmt.Sprintf(", each profile at %s/NAME", base+pathMCP)
	}
	text := fmt.Sprintf("MCP is served at %s%s%s, and for clients that only speak HTTP+SSE at %s%s", base, pathMCP, profiles, base, pathSSE)
	switch clean := path.Clean("/" + r.URL.Path); {
	case clean == pathMCP:
		text = fmt.Sprintf("MCP is served at exactly %s%s", base, pathMCP)
	case clean == pathSSE:
		text = fmt.Sprintf("HTTP+SSE is served at exactly %s%s", base, pathSSE)
	case strings.HasPrefix(clean, "/message"):
		text = fmt.Sprintf("HTTP+SSE begins with GET %s%s, whose first event names the URL that messages are posted to; newer clients use %s%s", base, pathSSE, base, pathMCP)
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	_, _ = fmt.Fprintf(w, "nothing is here: %s\n", text) // the client may have disconnected
}
