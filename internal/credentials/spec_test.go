package credentials

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/oauthmeta"
)

// resourceServer is an MCP server that requires tokens and records its requests.
type resourceServer struct {
	url       string
	challenge string // of its 401 response; SELF stands for its URL
	documents map[string]string

	mu    sync.Mutex
	asked []string // paths of requests
}

func newResourceServer(t *testing.T, path, challenge string, documents map[string]string) *resourceServer {
	t.Helper()
	s := &resourceServer{challenge: challenge, documents: documents}
	var self string
	self = serve(t, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.Path)
		s.mu.Unlock()
		if r.URL.Path == path {
			w.Header().Set("WWW-Authenticate", strings.ReplaceAll(s.challenge, "SELF", self))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		doc, ok := s.documents[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, strings.ReplaceAll(doc, "SELF", self))
	})
	s.url = self + path
	return s
}

func (s *resourceServer) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// query returns the parameters of the authorization request.
func query(t *testing.T, s *Source) (url.Values, error) {
	t.Helper()
	f, err := s.tokens.(*user).begin(t.Context(), "k", "http://127.0.0.1:1/callback", "")
	if err != nil {
		return nil, err
	}
	return at(t, f.url()).Query(), nil
}

// registrations starts a registration endpoint, and returns the registration requests.
func registrations(t *testing.T, answer string) (endpoint string, got func() []map[string]any) {
	var mu sync.Mutex
	var all []map[string]any
	endpoint = serve(t, func(w http.ResponseWriter, r *http.Request) {
		var doc map[string]any
		if err := json.NewDecoder(r.Body).Decode(&doc); err != nil {
			t.Error(err)
		}
		mu.Lock()
		all = append(all, doc)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(answer, "error") {
			w.WriteHeader(http.StatusBadRequest)
		} else {
			w.WriteHeader(http.StatusCreated)
		}
		fmt.Fprint(w, answer)
	})
	return endpoint, func() []map[string]any {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// filesWith returns the files of a folder that contain one of the texts.
func filesWith(t *testing.T, dir string, texts ...string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(string(data), s) }) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestAuthorizationSpecification has one case for each requirement of the specification
// on clients, which the gateway is toward upstreams: basic/authorization of 2025-11-25,
// and of 2026-07-28 with its subpages.
func TestAuthorizationSpecification(t *testing.T) {
	const named = `Bearer resource_metadata="SELF/its-metadata"`
	document := func(as *gatewaytest.AuthServer, path, more string) string {
		return `{"resource":"SELF` + path + `","authorization_servers":["` + as.URL + `"]` + more + `}`
	}
	fresh := func(t *testing.T, url string) *Source {
		return source(t, Options{Kind: User, URL: at(t, url), Store: NewStore("")})
	}
	for _, row := range []struct {
		quote string
		check func(t *testing.T, as *gatewaytest.AuthServer)
	}{
		{"MCP clients MUST use the resource metadata URL from the parsed WWW-Authenticate headers when present", func(t *testing.T, as *gatewaytest.AuthServer) {
			for _, challenge := range []string{
				named, `bearer realm="x", error="invalid_token", resource_metadata="SELF/its-metadata"`, `Basic realm="a,b", Bearer resource_metadata="SELF/its-metadata"`, `Bearer  scope="a",resource_metadata="SELF/its-metadata"`,
				`Bearer realm="", resource_metadata="SELF/its-metadata"`, `NTLM TlRMTVNTUAACAAAA, ` + named, `Basic realm="\\", ` + named, `Bearer realm = "x", resource_metadata = "SELF/its-metadata"`,
			} {
				s := newResourceServer(t, "/mcp", challenge, map[string]string{"/its-metadata": document(as, "/mcp", "")})
				if _, err := query(t, fresh(t, s.url)); err != nil || !slices.Equal(s.paths(), []string{"/mcp", "/its-metadata"}) {
					t.Errorf("%s: %v; asked for %q", challenge, err, s.paths())
				}
			}
		}},
		{"otherwise, they MUST fall back to constructing and requesting the well-known URIs in the order listed above", func(t *testing.T, as *gatewaytest.AuthServer) {
			const below, root = "/.well-known/oauth-protected-resource/public/mcp", "/.well-known/oauth-protected-resource"
			s := newResourceServer(t, "/public/mcp", `Bearer`, map[string]string{root: document(as, "", "")})
			if _, err := query(t, fresh(t, s.url)); err != nil || !slices.Equal(s.paths(), []string{"/public/mcp", below, root}) {
				t.Errorf("%v; asked for %q", err, s.paths())
			}
			s = newResourceServer(t, "/public/mcp", ``, map[string]string{below: document(as, "/public/mcp", ""), root: `{}`})
			if _, err := query(t, fresh(t, s.url)); err != nil || !slices.Equal(s.paths(), []string{"/public/mcp", below}) {
				t.Errorf("%v; asked for %q", err, s.paths())
			}
		}},
		{"Clients MUST treat the scopes provided in the challenge as authoritative … If scope is not available, use all scopes defined in scopes_supported … omitting the scope parameter if scopes_supported is undefined", func(t *testing.T, as *gatewaytest.AuthServer) {
			as.SetMetadata("scopes_supported", nil)
			for _, tc := range []struct{ challenge, more, want string }{
				{named + `, scope="read"`, `,"scopes_supported":["read","all"]`, "read"}, {named, `,"scopes_supported":["read","all"]`, "read all"}, {named, ``, ""},
			} {
				s := newResourceServer(t, "/mcp", tc.challenge, map[string]string{"/its-metadata": document(as, "/mcp", tc.more)})
				q, err := query(t, fresh(t, s.url))
				if err != nil || q.Get("scope") != tc.want || q.Has("scope") != (tc.want != "") {
					t.Errorf("%v; asks for %q, want %q", err, q["scope"], tc.want)
				}
			}
		}},
		{"MAY add offline_access to the scope parameter … when the Authorization Server metadata contains it; SHOULD include refresh_token in their grant_types; MUST NOT assume refresh tokens will be issued", func(t *testing.T, as *gatewaytest.AuthServer) {
			as.SetMetadata("scopes_supported", nil)
			c := newClock()
			s := loggedIn(t, as, c, NewStore(""))
			bearer(t, s, nil)
			c.pass(6 * time.Minute)
			fails(t, s, call.Anonymous, "your grant has expired or was revoked: run gateway login up")
			if n := len(as.TokenRequests(gatewaytest.GrantRefresh)); n != 0 {
				t.Errorf("refreshed %d times, with no refresh token", n)
			}
			if got := fmt.Sprint(clientDocument("", "http://127.0.0.1/")["grant_types"]); got != "[authorization_code refresh_token]" {
				t.Errorf("the grant types are %s", got)
			}
		}},
		{"The resource parameter MUST be included in both authorization requests and token requests, MUST use the canonical URI … regardless of whether authorization servers support it", func(t *testing.T, as *gatewaytest.AuthServer) {
			c := newClock()
			s := userSource(t, as, c, NewStore(""))
			q, err := query(t, s)
			if err != nil || q.Get("resource") != s.o.URL.String() {
				t.Errorf("%v; the browser goes with %v", err, q)
			}
			if err := login(t, s); err != nil {
				t.Fatal(err)
			}
			c.pass(6 * time.Minute)
			bearer(t, s, nil)
			for _, grant := range []string{gatewaytest.GrantCode, gatewaytest.GrantRefresh} {
				for _, form := range as.TokenRequests(grant) {
					if form.Get("resource") != s.o.URL.String() {
						t.Errorf("%s with %v", grant, form)
					}
				}
			}
			for from, want := range map[string]string{"HTTPS://MCP.Example.com/Mcp": "https://mcp.example.com/Mcp", "https://mcp.example.com/": "https://mcp.example.com", "https://mcp.example.com:8443/a?b#c": "https://mcp.example.com:8443/a"} {
				if got := oauthmeta.CanonicalURI(at(t, from)); got != want {
					t.Errorf("%s: %s", from, got)
				}
			}
		}},
		{"MCP clients MUST attempt multiple well-known endpoints when discovering authorization server metadata … in the following priority order", func(t *testing.T, _ *gatewaytest.AuthServer) {
			for path, want := range map[string][]string{
				"/tenant1": {"/.well-known/oauth-authorization-server/tenant1", "/.well-known/openid-configuration/tenant1", "/tenant1/.well-known/openid-configuration"},
				"":         {"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"},
			} {
				s := newResourceServer(t, "/none", "", nil)
				issuer := strings.TrimSuffix(s.url, "/none") + path
				if _, err := newGuard(at(t, s.url)).findServer(t.Context(), issuer); err == nil || !slices.Equal(s.paths(), want) {
					t.Errorf("%v; asked for %q, want %q", err, s.paths(), want)
				}
			}
		}},
		{"the issuer value in the document MUST be identical … If they differ, the client MUST NOT use the metadata (authorization-server-discovery)", func(t *testing.T, as *gatewaytest.AuthServer) {
			s := userSource(t, as, newClock(), NewStore(""))
			for _, claimed := range []string{"https://honest.example", as.URL + "/", strings.Replace(as.URL, "http:", "HTTP:", 1)} {
				as.SetClaimedIssuer(claimed)
				if _, err := query(t, s); err == nil || !strings.Contains(err.Error(), "is that of another issuer") {
					t.Errorf("%s: %v", claimed, err)
				}
			}
		}},
		{"MCP clients MUST implement PKCE … MUST use the S256 code challenge method … If code_challenge_methods_supported is absent … MCP clients MUST refuse to proceed (security-considerations)", func(t *testing.T, as *gatewaytest.AuthServer) {
			s := userSource(t, as, newClock(), NewStore(""))
			one, err1 := query(t, s)
			two, err2 := query(t, s)
			if err1 != nil || err2 != nil || one.Get("code_challenge_method") != "S256" || len(one.Get("code_challenge")) != 43 || one.Get("code_challenge") == two.Get("code_challenge") || one.Get("state") == two.Get("state") {
				t.Errorf("%v %v, %v %v", one, two, err1, err2)
			}
			for _, methods := range []any{nil, []string{}, []string{"plain"}, "S256"} {
				as.SetMetadata("code_challenge_methods_supported", methods)
				if _, err := query(t, s); err == nil || !strings.Contains(err.Error(), "does not offer PKCE") {
					t.Errorf("%v: %v", methods, err)
				}
			}
		}},
		{"On receiving the authorization response, MCP clients MUST apply the validation in RFC9207 Section 2.4 before transmitting the authorization code … MUST NOT apply normalization … on mismatch the client MUST NOT act on or display error", func(t *testing.T, as *gatewaytest.AuthServer) {
			u := userSource(t, as, newClock(), NewStore("")).tokens.(*user)
			for _, tc := range []struct {
				announced bool
				iss       []string
				want      string // the error; "" means a token
			}{
				{true, []string{as.URL}, ""}, {true, nil, "does not name its authorization server"}, {false, []string{as.URL}, ""}, {false, nil, ""},
				{false, []string{"https://evil.example"}, "another authorization server"}, {true, []string{as.URL + "/"}, "another authorization server"},
				{true, []string{strings.ToUpper(as.URL)}, "another authorization server"}, {false, []string{""}, "another authorization server"}, {false, []string{as.URL, as.URL}, "another authorization server"},
			} {
				as.SetMetadata("authorization_response_iss_parameter_supported", tc.announced)
				f, err := u.begin(t.Context(), "k", "http://127.0.0.1:1/callback", "")
				if err != nil {
					t.Fatal(err)
				}
				answer := at(t, step(t, browser(t), f.url())).Query()
				answer["iss"] = tc.iss
				if tc.iss == nil {
					delete(answer, "iss")
				}
				before := len(as.TokenRequests(gatewaytest.GrantCode))
				if tc.want != "" {
					failed := url.Values{"state": answer["state"], "iss": answer["iss"], "error": {"access_denied"}}
					if tc.iss == nil {
						delete(failed, "iss")
					}
					if _, err := f.redeem(t.Context(), failed); err == nil || strings.Contains(err.Error(), "access_denied") {
						t.Errorf("%v %q: an error that is another's is shown: %v", tc.announced, tc.iss, err)
					}
				}
				_, err = f.redeem(t.Context(), answer)
				if sent := len(as.TokenRequests(gatewaytest.GrantCode)) - before; (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || sent != 0) {
					t.Errorf("%v %q: %v, the code was sent %d times", tc.announced, tc.iss, err, sent)
				}
			}
		}},
		{"MCP clients SHOULD use and verify state parameters in the authorization code flow and discard any results that do not include or have a mismatch", func(t *testing.T, as *gatewaytest.AuthServer) {
			u := userSource(t, as, newClock(), NewStore("")).tokens.(*user)
			f, err := u.begin(t.Context(), "k", "http://127.0.0.1:1/callback", "")
			if err != nil {
				t.Fatal(err)
			}
			answer := at(t, step(t, browser(t), f.url())).Query()
			for _, state := range [][]string{nil, {""}, {"x"}, {f.state, "x"}, {"x", f.state}} {
				answer["state"] = state
				if _, err := f.redeem(t.Context(), answer); err == nil || !strings.Contains(err.Error(), "belongs to another request") {
					t.Errorf("%q: %v", state, err)
				}
			}
			if n := len(as.TokenRequests(gatewaytest.GrantCode)); n != 0 {
				t.Errorf("the code was sent %d times", n)
			}
		}},
		{"All authorization server endpoints MUST be served over HTTPS (security-considerations)", func(t *testing.T, _ *gatewaytest.AuthServer) {
			g := newGuard(at(t, "https://mcp.example.com/mcp"))
			for _, issuer := range []string{"http://auth.example.com", "http://127.0.0.1:1", "ftp://auth.example.com"} {
				if _, err := g.findServer(t.Context(), issuer); err == nil || !strings.Contains(err.Error(), "https") {
					t.Errorf("%s: %v", issuer, err)
				}
			}
		}},
		{"All redirect URIs MUST be either localhost or use HTTPS (security-considerations)", func(t *testing.T, as *gatewaytest.AuthServer) {
			w := newSite(t)
			for base, want := range map[string]bool{"https://gw.example.com": true, "http://127.0.0.1:8080": true, "http://localhost:1/x": true, "http://[::1]:1": true, "http://gw.example.com": false, "http://10.0.0.1:8080": false, "ftp://gw.example.com": false} {
				w.base = base
				if _, _, err := w.Link(t.Context(), call.Anonymous, "up"); (err == nil) != want {
					t.Errorf("%s: %v", base, err)
				}
			}
		}},
		{"MCP client MUST use the Authorization request header field … Access tokens MUST NOT be included in the URI query string", func(t *testing.T, as *gatewaytest.AuthServer) {
			s := loggedIn(t, as, newClock(), NewStore(""))
			h, err := s.Headers(t.Context(), nil)
			if err != nil || len(h) != 1 || !strings.HasPrefix(h.Get("Authorization"), "Bearer ") {
				t.Errorf("%v, %v", h, err)
			}
		}},
		{"MCP clients MUST NOT send tokens to the MCP server other than ones issued by the MCP server's authorization server", func(t *testing.T, as *gatewaytest.AuthServer) {
			store, c := NewStore(""), newClock()
			loggedIn(t, as, c, store)
			other := userSource(t, as, c, store) // another server with the same name
			if h, err := other.Headers(t.Context(), nil); err != nil || len(h) != 0 {
				t.Errorf("another server gets %v, %v", h, err)
			}
			fails(t, other, call.Anonymous, "the gateway has none of its own yet")
		}},
		{"Clients MUST maintain separate registration state for each authorization server … MUST NOT reuse client credentials from a different authorization server and MUST re-register (client-registration)", func(t *testing.T, as *gatewaytest.AuthServer) {
			second, store := gatewaytest.NewAuthServer(t, nil), NewStore("")
			s := newResourceServer(t, "/mcp", named, map[string]string{"/its-metadata": document(as, "/mcp", "")})
			of := func() *Source { return source(t, Options{Kind: User, URL: at(t, s.url), Store: store}) }
			first, err1 := query(t, of())
			again, err2 := query(t, of())
			s.documents = map[string]string{"/its-metadata": document(second, "/mcp", "")}
			moved, err3 := query(t, of())
			if err1 != nil || err2 != nil || err3 != nil || first.Get("client_id") != again.Get("client_id") || first.Get("client_id") == moved.Get("client_id") && second.Requests("/register") != 1 {
				t.Errorf("%v, %v, %v; the client is %q, %q, and %q at another", err1, err2, err3, first["client_id"], again["client_id"], moved["client_id"])
			}
			if as.Requests("/register") != 1 || second.Requests("/register") != 1 {
				t.Errorf("registered %d and %d times", as.Requests("/register"), second.Requests("/register"))
			}
		}},
		{"MCP clients MUST specify an appropriate application_type during Dynamic Client Registration … MUST be prepared to handle registration failures (client-registration)", func(t *testing.T, as *gatewaytest.AuthServer) {
			endpoint, sent := registrations(t, `{"client_id":"x"}`)
			as.SetMetadata("registration_endpoint", endpoint)
			u := userSource(t, as, newClock(), NewStore("")).tokens.(*user)
			for _, redirect := range []string{"http://127.0.0.1:1/callback", "https://gw.example.com/oauth/callback"} {
				if _, err := u.begin(t.Context(), "k", redirect, ""); err != nil {
					t.Fatal(err)
				}
			}
			var kinds []any
			for _, doc := range sent() {
				kinds = append(kinds, doc["application_type"])
			}
			if diff := cmp.Diff([]any{"native", "web"}, kinds); diff != "" {
				t.Error(diff)
			}
			endpoint, _ = registrations(t, `{"error":"invalid_redirect_uri","error_description":"<b>"}`)
			as.SetMetadata("registration_endpoint", endpoint)
			if _, err := query(t, userSource(t, as, newClock(), NewStore(""))); err == nil || err.Error() != "the registration endpoint answered HTTP 400 (invalid_redirect_uri)" {
				t.Errorf("got %v", err)
			}
			closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
			defer closed.Close()
			as.SetMetadata("registration_endpoint", closed.URL)
			for redirect, next := range map[string]string{"http://127.0.0.1:4711/callback": ", then log in with --port 4711", "https://gw.example.com/oauth/callback": ""} {
				want := "the registration endpoint of the authorization server answered HTTP 401: register the gateway there with the redirect URI " + redirect +
					", and set client_id and issuer under auth of the upstream" + next
				if _, err := userSource(t, as, newClock(), NewStore("")).tokens.(*user).begin(t.Context(), "k", redirect, ""); err == nil || err.Error() != want {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		}},
		{"Clients MUST host their metadata document at an HTTPS URL … client_id, client_name, redirect_uris … matches the document URL exactly; priority: pre-registered, Client ID Metadata Documents, Dynamic Client Registration (client-registration)", func(t *testing.T, as *gatewaytest.AuthServer) {
			as.SetMetadata("client_id_metadata_document_supported", true)
			const document = "https://gw.example.com/oauth/client.json"
			doc := clientDocument(document, "https://gw.example.com/oauth/callback")
			if doc["client_id"] != document || doc["client_name"] == "" || fmt.Sprint(doc["redirect_uris"]) != "[https://gw.example.com/oauth/callback]" {
				t.Errorf("the document is %v", doc)
			}
			u := userSource(t, as, newClock(), NewStore("")).tokens.(*user)
			f, err := u.begin(t.Context(), "k", "https://gw.example.com/oauth/callback", document)
			if err != nil || f.client.ID != document || as.Requests("/register") != 0 {
				t.Errorf("%v, %+v", err, f)
			}
			configured := source(t, Options{Kind: User, URL: u.o.URL, Store: NewStore(""), Authority: Authority{Client: Client{ID: "mine"}, Issuer: as.URL}})
			f, err = configured.tokens.(*user).begin(t.Context(), "k", "https://gw.example.com/oauth/callback", document)
			if err != nil || f.client.ID != "mine" {
				t.Errorf("%v, %+v", err, f)
			}
		}},
		{"computing the union of the client's previously requested scope set and the scopes from the current challenge", func(t *testing.T, as *gatewaytest.AuthServer) {
			s := loggedIn(t, as, newClock(), NewStore(""))
			sent, err := s.Headers(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			answer := http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="write"`}}
			if again, err := s.Refused(t.Context(), nil, sent, 403, answer); again || err == nil {
				t.Errorf("%v, %v", again, err)
			}
			f, err := s.tokens.(*user).begin(t.Context(), localKey, "http://127.0.0.1:1/callback", "")
			if err != nil || !slices.Equal(slices.Sorted(slices.Values(f.params.scopes)), []string{"offline_access", "read", "write"}) {
				t.Errorf("%v, %+v", err, f)
			}
		}},
		{"MUST keep refresh tokens confidential in transit and storage", func(t *testing.T, as *gatewaytest.AuthServer) {
			store, c := NewStore(t.TempDir()), newClock()
			s := loggedIn(t, as, c, store)
			g, err := s.tokens.(*user).load(t.Context(), localKey)
			if err != nil || g.Refresh == "" {
				t.Fatalf("%+v, %v", g, err)
			}
			if found := filesWith(t, dirOf(store), g.Refresh, g.Access); len(found) > 0 {
				t.Errorf("tokens are in %q", found)
			}
		}},
	} {
		t.Run(fmt.Sprintf("%.70s", row.quote), func(t *testing.T) { row.check(t, gatewaytest.NewAuthServer(t, nil)) })
	}
}
