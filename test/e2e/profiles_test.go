package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/rig"
)

// profiledGateway is a gateway with two profiles, which takes keys and the tokens of a real provider.
type profiledGateway struct {
	*rig.Gateway
	issuer string
}

func startProfiles(t *testing.T) profiledGateway {
	t.Helper()
	g := profiledGateway{issuer: rig.OpenID(t)}
	listen, everything := netns.Addr(), rig.EverythingCommand(t)
	memory, env := rig.MemoryCommand(t)
	key := func(id string, more rig.Config) rig.Config {
		sum := sha256.Sum256([]byte(id))
		entry := rig.Config{"id": id, "sha256": hex.EncodeToString(sum[:])}
		for name, value := range more {
			entry[name] = value
		}
		return entry
	}
	g.Gateway = rig.StartGateway(t, rig.Config{
		"listen": listen, "public_url": "http://" + listen, "allowed_hosts": []string{"other.example.com"},
		"auth": rig.Config{
			"mode":     []string{"api-key", "jwt"},
			"api_keys": []rig.Config{key("ann", nil), key("dev", rig.Config{"groups": []string{"dev"}}), key("ci", rig.Config{"profiles": []string{"graph"}})},
			"jwt":      []rig.Config{{"issuer": g.issuer, "required_scopes": []string{"mcp"}}},
		},
		"policy":    rig.Config{"default": "allow"},
		"upstreams": rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}, "m": {"command": memory[0], "args": memory[1:], "env": env}},
		"profiles": rig.Config{
			"echo":  rig.Config{"tools": []string{"e__echo"}, "groups": []string{"dev"}},
			"graph": rig.Config{"upstreams": []string{"m"}, "names": "short", "hosts": []string{"graph.example.com"}},
		},
	})
	return g
}

// profiles are what clients see at the endpoints of profiledGateway: a tool that they have, a tool that they have not, and a call.
var profiles = map[string]struct {
	has, lacks string
	arguments  map[string]any
	want       string
}{
	"":       {"m__read_graph", "read_graph", map[string]any{}, "entities"},
	"/echo":  {"e__echo", "m__read_graph", map[string]any{"message": "over here"}, "over here"},
	"/graph": {"read_graph", "e__echo", map[string]any{}, "entities"},
}

// sees checks that a client gets a profile at a URL.
func sees(t *testing.T, c client.Client, target client.Target, profile string) {
	t.Helper()
	want := profiles[profile]
	got := c.Run(t, target, []client.Step{
		{Method: "tools/list"},
		{Method: "tools/call", Params: map[string]any{"name": want.has, "arguments": want.arguments}},
		{Method: "tools/call", Params: map[string]any{"name": want.lacks, "arguments": map[string]any{}}},
	})
	var names []string
	for _, item := range client.Decode[client.List](t, got.Steps[0]).Items {
		names = append(names, item["name"].(string))
	}
	if !slices.Contains(names, want.has) || slices.Contains(names, want.lacks) {
		t.Errorf("%s at %s lists %q", c.Name(), target.URL, names)
	}
	if text := string(client.Decode[json.RawMessage](t, got.Steps[1])); !strings.Contains(text, want.want) {
		t.Errorf("%s at %s: %s answers %s", c.Name(), target.URL, want.has, text)
	}
	if e := got.Steps[2].Error; e == nil && !strings.Contains(string(got.Steps[2].Result), "unknown tool") {
		t.Errorf("%s at %s: %s answers %s", c.Name(), target.URL, want.lacks, got.Steps[2].Result)
	}
}

// TestProfilesWithRealClients runs clients of both eras at /mcp and at two profiles at the same time, with keys, and with tokens that they get
// from a real provider by the metadata of each endpoint.
func TestProfilesWithRealClients(t *testing.T) {
	g := startProfiles(t)
	t.Run("clients", func(t *testing.T) {
		for profile := range profiles {
			for _, c := range []client.Client{client.V1(), client.V2(client.Legacy), client.V2(client.Modern), client.GoSDK(client.Legacy), client.GoSDK(client.Modern)} {
				t.Run(c.Name()+" with a key at "+profile, func(t *testing.T) {
					t.Parallel()
					sees(t, c, client.Target{URL: g.URL + profile, Headers: map[string]string{"X-API-Key": "ann"}}, profile)
				})
			}
			for _, c := range []client.Client{client.V2(client.Legacy), client.V2(client.Modern), client.GoSDK(client.Legacy), client.GoSDK(client.Modern)} {
				t.Run(c.Name()+" with a token at "+profile, func(t *testing.T) {
					t.Parallel()
					sees(t, c, client.Target{URL: g.URL + profile, OAuth: true}, profile)
				})
			}
		}
	})
	for key, profile := range map[string]string{"ci": "/graph", "dev": "/echo"} {
		t.Run(key+" at /mcp", func(t *testing.T) {
			sees(t, client.V2(client.Modern), client.Target{URL: g.URL, Headers: map[string]string{"X-API-Key": key}}, profile)
			sees(t, client.V1(), client.Target{URL: g.URL + "/default", Headers: map[string]string{"X-API-Key": key}}, profile)
		})
	}
}

// answer is an HTTP response.
type answer struct {
	status int
	header http.Header
	body   string
}

func (g profiledGateway) post(t *testing.T, path, host, body string, headers map[string]string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(g.URL, "/mcp")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	if host != "" {
		r.Host = host
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// TestAttacksOnProfiles uses what one profile gave in another.
func TestAttacksOnProfiles(t *testing.T) {
	g := startProfiles(t)
	defer http.DefaultClient.CloseIdleConnections()
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	app := register(t, g.issuer, "http://127.0.0.1:1/callback")
	bearer := func(resource string) map[string]string {
		return map[string]string{"Authorization": "Bearer " + app.tokens(t, "ann", resource, "openid mcp").Access}
	}
	all := []string{"/mcp", "/mcp/default", "/mcp/echo", "/mcp/graph"}
	for resource, accepted := range map[string][]string{
		g.URL:                             {"/mcp", "/mcp/default"},
		g.URL + "/echo":                   {"/mcp/echo"},
		g.URL + "/graph":                  {"/mcp/graph"},
		strings.TrimSuffix(g.URL, "/mcp"): all,
	} {
		token := bearer(resource)
		for _, path := range all {
			got := g.post(t, path, "", list, token)
			want := http.StatusUnauthorized
			if slices.Contains(accepted, path) {
				want = http.StatusOK
			}
			if got.status != want {
				t.Errorf("a token for %s at %s: %d %s", resource, path, got.status, got.body)
			}
			if challenge := got.header.Get("WWW-Authenticate"); want == http.StatusUnauthorized && !strings.Contains(challenge, "/.well-known/oauth-protected-resource"+path+`"`) {
				t.Errorf("a token for %s at %s: challenge %s", resource, path, challenge)
			}
		}
	}

	ann := map[string]string{"X-API-Key": "ann"}
	session := g.post(t, "/mcp/echo", "", initialize, ann).header.Get("Mcp-Session-Id")
	held := map[string]string{"X-API-Key": "ann", "Mcp-Session-Id": session}
	for path, want := range map[string]int{"/mcp/echo": 200, "/mcp": 404, "/mcp/default": 404, "/mcp/graph": 404} {
		if got := g.post(t, path, "", list, held); got.status != want {
			t.Errorf("a session of echo at %s: %d %s", path, got.status, got.body)
		}
	}
	// The same session through the Host of the other profile.
	if got := g.post(t, "/mcp", "graph.example.com", list, held); got.status != http.StatusNotFound {
		t.Errorf("a session of echo at the host of graph: %d %s", got.status, got.body)
	}

	ci := map[string]string{"X-API-Key": "ci"}
	never := g.post(t, "/mcp/never", "", list, ci)
	for _, path := range []string{"/mcp/echo", "/mcp//echo", "/mcp/echo/", "/mcp/%65cho", "/mcp/graph/../echo", "/MCP/echo"} {
		if got := g.post(t, path, "", list, ci); got.status != http.StatusNotFound || got.body != never.body {
			t.Errorf("%s by a principal that is pinned elsewhere: %d %s", path, got.status, got.body)
		}
	}
	for _, host := range []string{"graph.example.com", "GRAPH.example.com.", "other.example.com"} {
		if got := g.post(t, "/mcp", host, list, ci); got.status != http.StatusOK || strings.Contains(got.body, "e__echo") || !strings.Contains(got.body, "read_graph") {
			t.Errorf("a pinned principal at %s: %d %.200s", host, got.status, got.body)
		}
	}
	for _, header := range []string{"X-Forwarded-Host", "X-Original-Url", "X-Rewrite-Url", "X-Forwarded-Prefix", "X-Profile"} {
		got := g.post(t, "/mcp/echo", "", list, map[string]string{"X-API-Key": "ann", header: "graph.example.com"})
		if got.status != http.StatusOK || !strings.Contains(got.body, "e__echo") || strings.Contains(got.body, "read_graph") {
			t.Errorf("with %s: %d %.200s", header, got.status, got.body)
		}
	}
}

// TestErasOfProfiles: clients that speak both eras get the one that a profile serves, and so does a gateway in front.
func TestErasOfProfiles(t *testing.T) {
	everything := rig.EverythingCommand(t)
	g := rig.StartGateway(t, rig.Config{
		"upstreams": rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}},
		"profiles":  rig.Config{"old": rig.Config{"eras": []string{"legacy"}}, "new": rig.Config{"eras": []string{"modern"}}},
	})
	echo := func(name string) []client.Step {
		return []client.Step{{Method: "tools/call", Params: map[string]any{"name": name, "arguments": map[string]any{"message": "hello"}}}}
	}
	for path, era := range map[string]string{"/old": client.Legacy, "/new": client.Modern} {
		for _, c := range []client.Client{client.Auto(), client.GoSDK(client.Modern), client.V2(era), client.GoSDK(era)} {
			t.Run(c.Name()+" at "+path, func(t *testing.T) {
				got := c.Run(t, client.Target{URL: g.URL + path}, echo("e__echo"))
				if text := string(client.Decode[json.RawMessage](t, got.Steps[0])); !strings.Contains(text, "hello") {
					t.Errorf("echo answers %s", text)
				}
				connected := string(client.Decode[json.RawMessage](t, *got.Connect))
				if modern := strings.Contains(connected, `"protocolVersion":"2026-`); modern != (era == client.Modern) {
					t.Errorf("connected as %.300s, want %s", connected, era)
				}
			})
		}
	}
	front := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{"old": {"url": g.URL + "/old"}, "new": {"url": g.URL + "/new"}}})
	for _, name := range []string{"old__e__echo", "new__e__echo"} {
		got := client.V1().Run(t, client.Target{URL: front.URL}, echo(name))
		if text := string(client.Decode[json.RawMessage](t, got.Steps[0])); !strings.Contains(text, "hello") {
			t.Errorf("%s answers %s", name, text)
		}
	}
}
