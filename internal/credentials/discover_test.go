package credentials

import (
	"net/http"
	"slices"
	"testing"
)

// TestWellKnownPlaces checks the order of the well-known URLs (2026-07-28,
// basic/authorization/authorization-server-discovery). Only the last one has a document.
func TestWellKnownPlaces(t *testing.T) {
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	for path, want := range map[string][]string{
		"":        {oauth, oidc},
		"/tenant": {oauth + "/tenant", oidc + "/tenant", "/tenant" + oidc},
	} {
		var asked []string
		var self string
		self = serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			if r.URL.Path != want[len(want)-1] {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"issuer":"` + self + path + `","token_endpoint":"` + self + `/token"}`))
		})
		s, err := newGuard(at(t, self+"/mcp")).findServer(t.Context(), self+path)
		if err != nil || s.Issuer != self+path || !slices.Equal(asked, want) {
			t.Errorf("issuer with the path %q: %v; asked for %q, want %q", path, err, asked, want)
		}
	}
}

// TestApplicationType checks that a client whose redirect URI is on loopback registers as
// native (2026-07-28, basic/authorization/client-registration).
func TestApplicationType(t *testing.T) {
	for redirect, want := range map[string]string{
		"http://127.0.0.1:4711/callback": "native", "http://localhost:1/x": "native", "https://gateway.example.com/oauth/callback": "web",
	} {
		if got := clientDocument("", redirect)["application_type"]; got != want {
			t.Errorf("%s: %v, want %s", redirect, got, want)
		}
	}
}
