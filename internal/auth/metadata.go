package auth

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/oauthmeta"
	"mcpgateway/internal/wire"
)

// resource is the gateway as an OAuth resource server.
type resource struct {
	publicURL string
	lowerURL  string // publicURL with its scheme and host in lower case
	issuers   []string
	scopes    []string // scopes that every token of some issuer needs
}

func newResource(o Options) resource {
	r := resource{publicURL: o.PublicURL, lowerURL: lowerOrigin(o.PublicURL)}
	for _, i := range o.Issuers {
		r.issuers = append(r.issuers, i.URL)
		for _, s := range i.Required {
			if !slices.Contains(r.scopes, s) {
				r.scopes = append(r.scopes, s)
			}
		}
	}
	return r
}

// metadataURL returns the URL of the metadata of the endpoint that a request was sent to.
// The well-known path precedes the whole path, including that of the public URL.
func (a *Authenticator) metadataURL(r *http.Request) string {
	endpoints, path := a.endpoints(), endpoint.Path
	if e, ok := endpoints.Find(r.URL, r.Host); ok {
		path = e.Path
	}
	origin, prefix := splitOrigin(endpoints.BaseURL(a.resource.publicURL, r))
	return origin + oauthmeta.ResourcePath + prefix + path
}

// splitOrigin splits a URL into scheme with host, and the rest.
func splitOrigin(url string) (origin, path string) {
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, below := strings.Cut(rest, "/")
	if below {
		path = "/" + path
	}
	return scheme + "://" + host, path
}

// Metadata returns the handler of [oauthmeta.ResourcePath] and the paths below it: the
// metadata of the endpoint whose path follows, or of the whole gateway. It returns nil if
// no tokens are accepted, since clients take 404 for "no authorization server". The
// document is public, also for web pages of any origin.
func (a *Authenticator) Metadata() http.Handler {
	if len(a.issuers) == 0 {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("X-Content-Type-Options", "nosniff")
		switch r.Method {
		case http.MethodOptions:
			h.Set("Access-Control-Allow-Methods", "GET, HEAD")
			h.Set("Access-Control-Allow-Headers", "*")
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		case http.MethodGet, http.MethodHead:
		default:
			h.Set("Allow", "GET, HEAD, OPTIONS")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		endpoints := a.endpoints()
		path, ok := a.resource.endpointPath(endpoints, r)
		if !ok {
			http.NotFound(w, r)
			return
		}
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store") // it may contain the host that this client has sent
		_, _ = w.Write(a.resource.document(endpoints.BaseURL(a.resource.publicURL, r) + path))
	})
}

// endpointPath returns the path of the endpoint whose path follows the well-known path, ""
// for the whole gateway. The path of the public URL may precede it, since some proxies
// remove that path and others do not.
func (s *resource) endpointPath(endpoints *endpoint.Set, r *http.Request) (string, bool) {
	rest := strings.TrimPrefix(r.URL.Path, oauthmeta.ResourcePath)
	_, prefix := splitOrigin(s.publicURL)
	for _, tail := range []string{rest, strings.TrimPrefix(rest, prefix)} {
		if tail == "" || tail == "/" {
			return "", true
		}
		u := url.URL{Path: tail, RawPath: r.URL.RawPath}
		if e, ok := endpoints.Find(&u, r.Host); ok && e.Path == tail {
			return tail, true
		}
	}
	return "", false
}

// document returns the metadata of the resource with this identifier.
func (s *resource) document(id string) wire.Raw {
	r := oauthmeta.Resource{Resource: id, Servers: s.issuers, Scopes: s.scopes, Name: "MCP gateway"}
	return r.JSON()
}
