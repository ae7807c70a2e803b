package endpoint

import (
	"net/http"
	"strings"
)

// BaseURL returns the URL to which the paths of endpoints are appended. It is the public URL,
// with the Host of the request if that names a profile. Without a public URL, which is "", it
// is the URL of the request: the client has chosen it, so it may be sent back to that client
// only, and decides nothing.
func (s *Set) BaseURL(public string, r *http.Request) string {
	if public != "" {
		if !s.HasHost(r.Host) {
			return public
		}
		scheme, rest, _ := strings.Cut(public, "://")
		_, path := splitPath(rest)
		return scheme + "://" + r.Host + path
	}
	if r.TLS != nil || r.URL.Scheme == "https" { // the scheme is set by a trusted proxy
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
