package auth

import (
	"net/http"
	"slices"
	"strings"

	"mcpgateway/internal/wire"
)

// WellKnown is the path of the metadata of a protected resource; that of an endpoint
// which is not at the root follows it (RFC 9728, section 3.1).
const WellKnown = "/.well-known/oauth-protected-resource"

// resource is the gateway as the resource server of OAuth.
type resource struct {
	publicURL string
	paths     []string
	issuers   []string
	scopes    []string // those that every token needs, whoever issues it
}

func newResource(o Options) resource {
	r := resource{publicURL: o.PublicURL, paths: o.Paths}
	if len(r.paths) == 0 {
		r.paths = []string{"/mcp"}
	}
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

// base is the URL that the paths of endpoints follow: the public one, or the one that
// the client used. The latter is a client's word, so it is told to that client and
// never decides anything.
func (s *resource) base(r *http.Request) string {
	if s.publicURL != "" {
		return s.publicURL
	}
	scheme := r.URL.Scheme // what a trusted proxy says
	if scheme == "" {
		scheme = "http"
		if r.TLS != nil {
			scheme = "https"
		}
	}
	return scheme + "://" + r.Host
}

// metadataURL is where the metadata of the endpoint is that a request was sent to. The
// well-known path comes before the whole path of the endpoint, that of the public
// URL included.
func (s *resource) metadataURL(r *http.Request) string {
	origin, path := splitOrigin(s.base(r))
	return origin + WellKnown + path + s.endpoint(r.URL.Path)
}

// endpoint returns the path of the endpoint that a path belongs to.
func (s *resource) endpoint(path string) string {
	for _, p := range s.paths {
		if path == p || strings.HasPrefix(path, p+"/") {
			return p
		}
	}
	return s.paths[0]
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

// Metadata returns the handler of [WellKnown] and everything below it: the metadata
// of the endpoint whose path follows, or of the gateway as a whole. It is nil where no tokens
// are accepted: clients take 404 for "no authorization server here". The document
// is public, to pages of any origin too.
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
		endpoint, ok := a.resource.named(strings.TrimPrefix(r.URL.Path, WellKnown))
		if !ok {
			http.NotFound(w, r)
			return
		}
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store") // it may name the host that this client has sent
		_, _ = w.Write(a.resource.document(a.resource.base(r) + endpoint))
	})
}

// named returns the endpoint that follows the well-known path, "" for none. A proxy may pass the
// path of the public URL on or take it off, so it may stand in front.
func (s *resource) named(rest string) (string, bool) {
	_, prefix := splitOrigin(s.publicURL)
	for _, tail := range []string{rest, strings.TrimPrefix(rest, prefix)} {
		if tail == "" || tail == "/" {
			return "", true
		}
		if slices.Contains(s.paths, tail) {
			return tail, true
		}
	}
	return "", false
}

// document is the metadata of a resource (RFC 9728, section 2).
func (s *resource) document(id string) []byte {
	doc := wire.SetMember(wire.Raw(`{}`), "resource", wire.String(id))
	doc = wire.SetMember(doc, "authorization_servers", array(s.issuers))
	if len(s.scopes) > 0 {
		doc = wire.SetMember(doc, "scopes_supported", array(s.scopes))
	}
	doc = wire.SetMember(doc, "bearer_methods_supported", array([]string{"header"}))
	return wire.SetMember(doc, "resource_name", wire.String("MCP gateway"))
}

func array(all []string) wire.Raw {
	out := []byte{'['}
	for i, s := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = wire.AppendString(out, s)
	}
	return append(out, ']')
}
