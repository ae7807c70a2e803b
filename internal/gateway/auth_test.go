package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/config"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
)

const public = "https://mcp.example.com/gw"

// authTest is a gateway that accepts tokens of an issuer, with an upstream of each era
// that records the headers that it receives.
type authTest struct {
	*Gateway
	issuer *gatewaytest.Issuer
	client *http.Client

	mu   sync.Mutex
	sent []http.Header // of requests to the upstreams
}

func startAuth(t *testing.T, jwt, more string) *authTest {
	t.Helper()
	g := &authTest{issuer: gatewaytest.NewIssuer(t), client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(g.client.CloseIdleConnections)
	to, err := url.Parse(newAskingServer(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = g.client.Transport
	proxy.FlushInterval = -1
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.sent = append(g.sent, r.Header.Clone())
		g.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		upstream.CloseClientConnections()
		upstream.Close()
	})
	g.Gateway, _ = start(t, `
public_url: `+public+`
allowed_hosts: [127.0.0.1]
auth: {mode: jwt, jwt: [{issuer: "`+g.issuer.URL+`", `+jwt+`}], scope_hierarchy: [{scope: "plain:all", implies: ["plain:read", "plain:write"]}]}
policy:
  rules:
    - {name: plain, effect: allow, who: {scopes: ["plain:write"]}, what: {tools: ["*__plain"]}, challenge: true}
upstreams:
  legacy: {url: "`+upstream.URL+`/legacy", era: legacy}
  modern: {url: "`+upstream.URL+`/modern", era: modern}
`+more, false)
	return g
}

// headers returns the headers of all messages to the upstreams.
func (g *authTest) headers() []http.Header {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]http.Header(nil), g.sent...)
}

// token returns a valid token with scopes.
func (g *authTest) token(scopes string) string {
	return g.issuer.Token(public+"/mcp", map[string]any{"scope": scopes})
}

// authResponse is an HTTP response.
type authResponse struct {
	status int
	header http.Header
	body   string
}

// send sends a request of a client; headers are names and values.
func (g *authTest) send(t *testing.T, verb, path, body string, headers ...string) authResponse {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), verb, "http://"+g.Addr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return authResponse{resp.StatusCode, resp.Header, string(text)}
}

const (
	legacyEra = "legacy"
	modernEra = "modern"
)

// call calls a tool as a client of an era.
func (g *authTest) call(t *testing.T, era, tool string, headers ...string) authResponse {
	t.Helper()
	if era == legacyEra {
		return g.send(t, http.MethodPost, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, tool), headers...)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, tool)
	return g.send(t, http.MethodPost, "/mcp", body, append(headers, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)...)
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

func (a authResponse) isUnauthorized(t *testing.T) {
	t.Helper()
	if a.status != http.StatusUnauthorized || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer ") || !strings.Contains(a.body, `"error":{"code":-32600`) {
		t.Errorf("got %d, %q, %s; want 401 with a challenge and a JSON-RPC error", a.status, a.header.Get("WWW-Authenticate"), a.body)
	}
}

// Each row is a requirement of the specification for servers, from basic/authorization
// unless the row names another page.
func TestAuthorizationSpecification(t *testing.T) {
	g := startAuth(t, `required_scopes: [mcp]`, "")
	good := g.token("mcp plain:write")
	challenge := `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/gw/mcp", scope="mcp"`
	metadata := func(t *testing.T, path string) map[string]any {
		t.Helper()
		a := g.send(t, http.MethodGet, path, "")
		var doc map[string]any
		if err := json.Unmarshal([]byte(a.body), &doc); err != nil || a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		return doc
	}
	// The catalog is complete when a list has been answered.
	if a := g.call(t, modernEra, "modern__plain", bearer(good)...); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	for _, row := range []struct {
		quote string
		check func(t *testing.T, era string)
	}{
		{"MCP servers MUST implement OAuth 2.0 Protected Resource Metadata (RFC9728)", func(t *testing.T, _ string) {
			for path, want := range map[string]string{"": public, "/mcp": public + "/mcp", "/gw/mcp": public + "/mcp", "/sse": public + "/sse"} {
				if got := metadata(t, "/.well-known/oauth-protected-resource"+path)["resource"]; got != want {
					t.Errorf("%s: the resource is %v, want %s", path, got, want)
				}
			}
		}},
		{"The Protected Resource Metadata document returned by the MCP server MUST include the authorization_servers field containing at least one authorization server", func(t *testing.T, _ string) {
			if got := fmt.Sprint(metadata(t, "/.well-known/oauth-protected-resource/mcp")["authorization_servers"]); got != "["+g.issuer.URL+"]" {
				t.Errorf("got %s", got)
			}
		}},
		{"WWW-Authenticate Header: Include the resource metadata URL in the WWW-Authenticate HTTP header under resource_metadata when returning 401 Unauthorized responses", func(t *testing.T, era string) {
			a := g.call(t, era, "legacy__plain")
			a.isUnauthorized(t)
			if !strings.Contains(a.header.Get("WWW-Authenticate"), challenge) {
				t.Errorf("got %s", a.header.Get("WWW-Authenticate"))
			}
		}},
		{"MCP servers SHOULD include a scope parameter in the WWW-Authenticate header", func(t *testing.T, era string) {
			if got := g.call(t, era, "legacy__plain").header.Get("WWW-Authenticate"); !strings.Contains(got, `scope="mcp"`) {
				t.Errorf("got %s", got)
			}
		}},
		{"MCP servers (Protected Resources) SHOULD NOT include offline_access in WWW-Authenticate scope or Protected Resource Metadata scopes_supported", func(t *testing.T, _ string) {
			if got := fmt.Sprint(metadata(t, "/.well-known/oauth-protected-resource/mcp")["scopes_supported"]); got != "[mcp]" {
				t.Errorf("got %s", got)
			}
		}},
		{"MCP servers … MUST validate access tokens as described in OAuth 2.1 Section 5.2", func(t *testing.T, era string) {
			forged := gatewaytest.NewIssuer(t)
			g.call(t, era, "legacy__plain", bearer(forged.Sign(nil, g.issuer.Claims(public+"/mcp", map[string]any{"scope": "mcp"})))...).isUnauthorized(t)
		}},
		{"MCP servers MUST validate that access tokens were issued specifically for them as the intended audience", func(t *testing.T, era string) {
			g.call(t, era, "legacy__plain", bearer(g.issuer.Token("https://api.example.com", map[string]any{"scope": "mcp"}))...).isUnauthorized(t)
			for _, aud := range []string{public, public + "/", public + "/mcp", public + "/sse"} {
				if a := g.call(t, era, "modern__plain", bearer(g.issuer.Token(aud, map[string]any{"scope": "mcp plain:write"}))...); a.status != http.StatusOK {
					t.Errorf("%s: got %d %s", aud, a.status, a.body)
				}
			}
		}},
		{"Invalid or expired tokens MUST receive a HTTP 401 response", func(t *testing.T, era string) {
			for _, token := range []string{"nonsense", g.issuer.Token(public+"/mcp", map[string]any{"scope": "mcp", "exp": time.Now().Add(-time.Minute).Unix()})} {
				a := g.call(t, era, "legacy__plain", bearer(token)...)
				a.isUnauthorized(t)
				if !strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
					t.Errorf("got %s", a.header.Get("WWW-Authenticate"))
				}
			}
		}},
		{"MCP servers MUST only accept tokens that are valid for use with their own resources", func(t *testing.T, era string) {
			other := gatewaytest.NewIssuer(t)
			g.call(t, era, "legacy__plain", bearer(other.Token(public+"/mcp", map[string]any{"scope": "mcp"}))...).isUnauthorized(t)
		}},
		{"The MCP server MUST NOT pass through the token it received from the MCP client (security-considerations)", func(t *testing.T, era string) {
			g.call(t, era, "modern__plain", bearer(good)...)
			for _, h := range g.headers() {
				for name, values := range h {
					if strings.Contains(strings.Join(values, " "), good) || name == "Authorization" || name == "X-Api-Key" {
						t.Errorf("an upstream got %s: %s", name, values)
					}
				}
			}
		}},
		{"MCP servers MUST validate access tokens before processing the request … ensure no data is returned to unauthorized parties (security-considerations)", func(t *testing.T, era string) {
			calls := func() (n int) { // excludes the gateway's own requests
				for _, h := range g.headers() {
					if h.Get("Mcp-Method") == "tools/call" {
						n++
					}
				}
				return n
			}
			before := calls()
			for _, headers := range [][]string{nil, bearer("nonsense"), bearer(g.issuer.Token("other", nil))} {
				g.call(t, era, "modern__plain", headers...).isUnauthorized(t)
			}
			if n := calls() - before; n != 0 {
				t.Errorf("the upstreams got %d calls", n)
			}
			if g.call(t, era, "modern__plain", bearer(good)...); calls() != before+1 {
				t.Errorf("a valid call reached the upstream %d times", calls()-before)
			}
		}},
		{"authorization MUST be included in every HTTP request from client to server, even if they are part of the same logical session", func(t *testing.T, _ string) {
			session := g.send(t, http.MethodPost, "/mcp", initialize, bearer(good)...).header.Get("Mcp-Session-Id")
			if session == "" {
				t.Fatal("no session")
			}
			for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				g.send(t, verb, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id", session).isUnauthorized(t)
			}
			g.send(t, http.MethodGet, "/sse", "").isUnauthorized(t)
			g.send(t, http.MethodPost, "/sse/message?sessionId=x", `{}`).isUnauthorized(t)
		}},
		{"Access tokens MUST NOT be included in the URI query string", func(t *testing.T, _ string) {
			g.send(t, http.MethodPost, "/mcp?access_token="+good, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).isUnauthorized(t)
		}},
		{"400 Bad Request: Malformed authorization request", func(t *testing.T, era string) {
			a := g.call(t, era, "legacy__plain", append(bearer(good), bearer(good)...)...)
			if a.status != http.StatusBadRequest || !strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_request"`) {
				t.Errorf("got %d %s", a.status, a.header.Get("WWW-Authenticate"))
			}
		}},
		{"MCP servers MUST NOT accept or transit any other tokens", func(t *testing.T, era string) {
			for name, claims := range map[string]map[string]any{
				"an id token": {"at_hash": "x"}, "a refresh token": {"typ": "Refresh"}, "a token that is bound to another's key": {"cnf": map[string]any{"jkt": "x"}}, "one without a subject": {"sub": nil},
			} {
				claims["scope"] = "mcp"
				t.Run(name, func(t *testing.T) {
					g.call(t, era, "modern__plain", bearer(g.issuer.Token(public+"/mcp", claims))...).isUnauthorized(t)
				})
			}
		}},
		{"If validation fails, servers MUST respond according to OAuth 2.1 Section 5.3 error handling requirements", func(t *testing.T, era string) {
			header := func(a authResponse) string { return a.header.Get("WWW-Authenticate") }
			if got := header(g.call(t, era, "modern__plain")); strings.Contains(got, "error=") { // a request without credentials has no error
				t.Errorf("without a token: %s", got)
			}
			for want, a := range map[string]authResponse{
				`error="invalid_token"`:      g.call(t, era, "modern__plain", bearer("nonsense")...),
				`error="invalid_request"`:    g.call(t, era, "modern__plain", "Authorization", "Bearer"),
				`error="insufficient_scope"`: g.call(t, era, "modern__plain", bearer(g.token(""))...),
			} {
				if got := header(a); !strings.Contains(got, want) || strings.Count(got, "error=") != 1 {
					t.Errorf("got %d %s, want %s", a.status, got, want)
				}
			}
		}},
		{"implementations SHOULD accept uppercase scheme and host components for robustness and interoperability", func(t *testing.T, era string) {
			token := g.issuer.Token("HTTPS://MCP.example.com/gw/mcp", map[string]any{"scope": "mcp plain:write"})
			if a := g.call(t, era, "modern__plain", bearer(token)...); a.status != http.StatusOK {
				t.Errorf("got %d %s", a.status, a.body)
			}
		}},
		{"servers SHOULD include all scopes required for the current operation in a single challenge", func(t *testing.T, era string) {
			a := g.call(t, era, "modern__plain", bearer(g.token("mcp"))...)
			scopes, _, _ := strings.Cut(strings.SplitN(a.header.Get("WWW-Authenticate"), `scope="`, 2)[1], `"`)
			if a := g.call(t, era, "modern__plain", bearer(g.token(scopes))...); a.status != http.StatusOK { // a client that requests exactly these scopes
				t.Errorf("with the scopes %q: %d %s", scopes, a.status, a.body)
			}
		}},
		{"When a client makes a request with an access token with insufficient scope during runtime operations, the server SHOULD respond with HTTP 403 Forbidden … insufficient_scope … resource_metadata", func(t *testing.T, era string) {
			a := g.call(t, era, "modern__plain", bearer(g.token("mcp"))...)
			want := `Bearer error="insufficient_scope", scope="mcp plain:write", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/gw/mcp"`
			if a.status != http.StatusForbidden || a.header.Get("WWW-Authenticate") != want {
				t.Errorf("got %d %s", a.status, a.header.Get("WWW-Authenticate"))
			}
			a = g.call(t, era, "modern__plain", bearer(g.token("plain:write"))...) // without the scope that every token needs
			if a.status != http.StatusForbidden || !strings.Contains(a.header.Get("WWW-Authenticate"), challenge+`, error="insufficient_scope"`) {
				t.Errorf("got %d %s", a.status, a.header.Get("WWW-Authenticate"))
			}
		}},
		{"Servers MUST account for scope hierarchies, where a broader scope implies narrower ones", func(t *testing.T, era string) {
			if a := g.call(t, era, "modern__plain", bearer(g.token("mcp plain:all"))...); a.status != http.StatusOK {
				t.Errorf("got %d %s", a.status, a.body)
			}
		}},
		{"All authorization server endpoints MUST be served over HTTPS (security-considerations)", func(t *testing.T, _ string) {
			_, err := config.Parse("gateway.yaml", []byte(`{auth: {mode: jwt, jwt: [{issuer: "http://idp.example.com", audience: a}]}, upstreams: {a: {command: a}}}`), os.LookupEnv)
			if err == nil || !strings.Contains(err.Error(), "must be an https URL") {
				t.Errorf("got %v", err)
			}
		}},
		{"MCP Servers MUST NOT use sessions for authentication (security best practices)", func(t *testing.T, _ string) {
			session := g.send(t, http.MethodPost, "/mcp", initialize, bearer(good)...).header.Get("Mcp-Session-Id")
			bob := g.issuer.Token(public+"/mcp", map[string]any{"sub": "bob", "scope": "mcp"})
			for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				if a := g.send(t, verb, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, append(bearer(bob), "Mcp-Session-Id", session)...); a.status != http.StatusNotFound {
					t.Errorf("%s in another principal's session: %d %s", verb, a.status, a.body)
				}
			}
		}},
	} {
		for _, era := range []string{legacyEra, modernEra} {
			t.Run(fmt.Sprintf("%s/%.60s", era, row.quote), func(t *testing.T) { row.check(t, era) })
		}
	}
}

// Requests whose headers two parsers may read differently are refused. They are sent as raw
// bytes.
func TestHeaderSmuggling(t *testing.T) {
	g := startAuth(t, `required_scopes: []`, "")
	good, bad := g.token(""), g.issuer.Token("https://other.example.com", nil)
	const body = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, tc := range []struct {
		name, headers string
		status        string
	}{
		{"one good header", "Authorization: Bearer " + good + "\r\n", "200"},
		{"two equal headers", "Authorization: Bearer " + good + "\r\nAuthorization: Bearer " + good + "\r\n", "400"},
		{"good, then bad", "Authorization: Bearer " + good + "\r\nauthorization: Bearer " + bad + "\r\n", "400"},
		{"bad, then good", "Authorization: Bearer " + bad + "\r\nAUTHORIZATION: Bearer " + good + "\r\n", "400"},
		{"empty, then good", "Authorization:\r\nAuthorization: Bearer " + good + "\r\n", "400"},
		{"joined by a comma", "Authorization: Bearer " + bad + ", Bearer " + good + "\r\n", "400"},
		{"space before the colon", "Authorization : Bearer " + good + "\r\n", "400"},
		{"folded line", "Authorization: Bearer " + bad + "\r\n " + good + "\r\n", "400"},
		{"tab between", "Authorization: Bearer\t" + good + "\r\n", "400"},
		{"bare carriage return", "X: a\rAuthorization: Bearer " + good + "\r\n", "400"},
		{"null byte", "Authorization: Bearer " + good + "\x00\r\n", "400"},
		{"underscore", "Author_ization: Bearer " + good + "\r\n", "401"},
		{"proxy's header", "Proxy-Authorization: Bearer " + good + "\r\n", "401"},
		{"forwarded header", "X-Forwarded-Authorization: Bearer " + good + "\r\nX-Forwarded-User: ann\r\n", "401"},
		{"named for removal by a hop", "Connection: Authorization\r\nAuthorization: Bearer " + bad + "\r\n", "401"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := net.Dial("tcp", g.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s", g.Addr(), len(body), tc.headers, body)
			line, err := bufio.NewReader(c).ReadString('\n')
			if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+tc.status+" ") {
				t.Errorf("got %q, %v; want %s", line, err, tc.status)
			}
		})
	}
}

// An HTTP+SSE session accepts messages of its principal only.
func TestEventStreamBelongsToPrincipal(t *testing.T) {
	g := startAuth(t, `clock_skew: 30s`, "")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.Addr()+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+g.token(""))
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	data := func() string {
		for in.Scan() {
			if text, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				return text
			}
		}
		t.Fatalf("the stream has ended: %v", in.Err())
		return ""
	}
	path := strings.TrimPrefix(data(), "/gw") // the path of the public URL
	bob := g.issuer.Token(public+"/sse", map[string]any{"sub": "bob"})
	if a := g.send(t, http.MethodPost, path, initialize, bearer(bob)...); a.status != http.StatusNotFound {
		t.Errorf("another principal's message: %d %s", a.status, a.body)
	}
	g.send(t, http.MethodPost, path, initialize).isUnauthorized(t)
	if a := g.send(t, http.MethodPost, path, initialize, bearer(g.token("other"))...); a.status != http.StatusAccepted {
		t.Errorf("the same principal's message with another token: %d %s", a.status, a.body)
	}
	if answer := data(); !strings.Contains(answer, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("got %s", answer)
	}
}

// Failures are counted by a closed set of reasons. Metrics need no authentication.
func TestFailuresAreCounted(t *testing.T) {
	g := startAuth(t, `required_scopes: []`, "")
	g.call(t, modernEra, "legacy__plain").isUnauthorized(t)
	g.call(t, modernEra, "legacy__plain", bearer("x")...).isUnauthorized(t)
	resp, err := g.client.Get("http://" + g.AdminAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`mcp_gateway_auth_failures_total{reason="missing"} 1`, `mcp_gateway_auth_failures_total{reason="token_form"} 1`, `mcp_gateway_auth_failures_total{reason="audience"} 0`} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("no %s", line)
		}
	}
}

// Pages of allowed origins can read the challenge of a refusal. Every page can read the metadata.
func TestRefusalsAcrossOrigins(t *testing.T) {
	g := startAuth(t, `required_scopes: []`, "allowed_origins: [https://app.example.com]\n")
	a := g.call(t, legacyEra, "legacy__plain", "Origin", "https://app.example.com")
	a.isUnauthorized(t)
	if h := a.header; h.Get("Access-Control-Allow-Origin") != "https://app.example.com" || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") ||
		!strings.Contains(h.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
		t.Errorf("got %v", h)
	}
	a = g.send(t, http.MethodGet, "/.well-known/oauth-protected-resource/mcp", "", "Origin", "https://elsewhere.example.com")
	if a.status != http.StatusOK || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("got %d %v", a.status, a.header)
	}
	if a := g.call(t, legacyEra, "legacy__plain", append(bearer(g.token("")), "Origin", "https://elsewhere.example.com")...); a.status != http.StatusForbidden {
		t.Errorf("a page of another origin got %d", a.status)
	}
}

// The gateway starts without its issuer. Tokens that cannot be verified get a retryable
// error, which does not make the client request another token.
func TestIssuerIsDown(t *testing.T) {
	g := startAuth(t, `required_scopes: []`, "")
	// The gateway may have the present keys, which it fetches when it starts; it has not the next.
	g.issuer.SetDown(true)
	g.issuer.Rotate()
	a := g.call(t, modernEra, "modern__plain", bearer(g.token("plain:write"))...)
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || a.header.Get("WWW-Authenticate") != "" {
		t.Errorf("got %d %v %s", a.status, a.header, a.body)
	}
	g.issuer.SetDown(false)
	// The first call may still share a fetch that began before.
	polltest.UntilNil(t, "the call is served", func() error {
		if a := g.call(t, modernEra, "modern__plain", bearer(g.token("plain:write"))...); a.status != http.StatusOK {
			return fmt.Errorf("got %d %s", a.status, a.body)
		}
		return nil
	})
}
