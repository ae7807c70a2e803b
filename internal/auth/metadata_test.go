package auth

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/oauthmeta"
)

func metadataAuth(t *testing.T, public string) *Authenticator {
	t.Helper()
	return newAuth(t, Options{
		Issuers: []Issuer{
			{URL: "https://idp.example.com", Audiences: []string{"a"}, Required: []string{"mcp"}},
			{URL: "https://other.example.com", Audiences: []string{"a"}, Required: []string{"mcp", "read"}},
		},
		PublicURL: public,
	})
}

func TestMetadata(t *testing.T) {
	for _, tc := range []struct{ name, public, url, want string }{
		{"endpoint", "https://gw.example.com", "http://10.0.0.1" + oauthmeta.ResourcePath + "/mcp", "https://gw.example.com/mcp"},
		{"other endpoint", "https://gw.example.com", "http://10.0.0.1" + oauthmeta.ResourcePath + "/sse", "https://gw.example.com/sse"},
		{"whole gateway", "https://gw.example.com", "http://10.0.0.1" + oauthmeta.ResourcePath, "https://gw.example.com"},
		{"below a path", "https://gw.example.com/a/b", "http://10.0.0.1" + oauthmeta.ResourcePath + "/a/b/mcp", "https://gw.example.com/a/b/mcp"},
		{"below a path that the proxy takes off", "https://gw.example.com/a/b", "http://10.0.0.1" + oauthmeta.ResourcePath + "/mcp", "https://gw.example.com/a/b/mcp"},
		{"by what the client says", "", "http://localhost:8080" + oauthmeta.ResourcePath + "/mcp", "http://localhost:8080/mcp"},
		{"nothing there", "", "http://localhost" + oauthmeta.ResourcePath + "/other", ""},
		{"nothing there either", "", "http://localhost" + oauthmeta.ResourcePath + "/mcp/x", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, tc.url, nil)
			r.URL.Scheme, r.URL.Host = "", "" // as on the server side
			metadataAuth(t, tc.public).Metadata().ServeHTTP(w, r)
			if tc.want == "" {
				if w.Code != http.StatusNotFound {
					t.Errorf("status %d", w.Code)
				}
				return
			}
			var got map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%d: %s: %v", w.Code, w.Body, err)
			}
			want := map[string]any{
				"resource": tc.want, "authorization_servers": []any{"https://idp.example.com", "https://other.example.com"},
				"scopes_supported": []any{"mcp", "read"}, "bearer_methods_supported": []any{"header"}, "resource_name": "MCP gateway",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if o := w.Header().Get("Access-Control-Allow-Origin"); o != "*" {
				t.Errorf("pages of other origins: %q", o)
			}
		})
	}
}

func TestMetadataMethods(t *testing.T) {
	h := metadataAuth(t, "").Metadata()
	for method, want := range map[string]int{http.MethodHead: 200, http.MethodOptions: 204, http.MethodPost: 405} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, oauthmeta.ResourcePath, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", method, w.Code, want)
		}
	}
	if newAuth(t, Options{}).Metadata() != nil {
		t.Error("there is metadata without an issuer")
	}
}

func TestChallenges(t *testing.T) {
	for _, tc := range []struct {
		name, public, path string
		tls                bool
		want               string
	}{
		{"public", "https://gw.example.com/a", "/mcp", false, "https://gw.example.com" + oauthmeta.ResourcePath + "/a/mcp"},
		{"event stream", "https://gw.example.com", "/sse/message", false, "https://gw.example.com" + oauthmeta.ResourcePath + "/sse"},
		{"by the client", "", "/mcp", false, "http://gw:8080" + oauthmeta.ResourcePath + "/mcp"},
		{"by the client over TLS", "", "/mcp", true, "https://gw:8080" + oauthmeta.ResourcePath + "/mcp"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := metadataAuth(t, tc.public)
			r := httptest.NewRequest(http.MethodPost, tc.path, nil)
			r.Host = "gw:8080"
			if tc.tls {
				r.TLS = &tls.ConnectionState{}
			}
			d := refused(t, a, r, "missing")
			if want := `Bearer resource_metadata="` + tc.want + `", scope="mcp read"`; d.Challenge() != want {
				t.Errorf("got  %s\nwant %s", d.Challenge(), want)
			}
			want := `Bearer error="insufficient_scope", scope="mcp read a b", resource_metadata="` + tc.want + `"`
			if got := a.ScopeChallenge(r, []string{"a", "b"}); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	a := metadataAuth(t, "")
	r := request("Authorization", "Bearer x.y.z")
	r.Host = "evil\"\r\nX: y" // no server lets it through; a quoted string must hold all the same
	if d := refused(t, a, r, "token_form"); d.Challenge() != `Bearer resource_metadata="http://evil???X: y/.well-known/oauth-protected-resource/mcp", scope="mcp read", error="invalid_token", error_description="the token is not a signed JWT access token"` {
		t.Errorf("got %s", d.Challenge())
	}
}
