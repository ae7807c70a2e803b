package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/rig"
)

// Real clients find their way from a 401 to the metadata, the authorization server, a token and a call, and from the 403 of a missing scope to a token
// with that scope. The authorization server is a real OpenID provider, which registers the clients.
func TestAuthorizationWithRealProvider(t *testing.T) {
	issuer, listen, everything := rig.OpenID(t), netns.Addr(), rig.EverythingCommand(t)
	g := rig.StartGateway(t, rig.Config{
		"listen":     listen,
		"public_url": "http://" + listen,
		"auth":       rig.Config{"mode": "jwt", "jwt": []rig.Config{{"issuer": issuer, "required_scopes": []string{"mcp"}}}},
		"policy": rig.Config{"rules": []rig.Config{
			{"name": "staff", "effect": "allow", "who": rig.Config{"groups": []string{"staff"}}, "what": rig.Config{"tools": []string{"e__echo"}}},
			{"name": "writers", "effect": "allow", "who": rig.Config{"scopes": []string{"notes:write"}}, "what": rig.Config{"tools": []string{"e__get-sum"}}, "challenge": true},
		}},
		"upstreams": rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}},
	})
	steps := []client.Step{
		{Method: "tools/list"},
		{Method: "tools/call", Params: map[string]any{"name": "e__echo", "arguments": map[string]any{"message": "hello"}}},
		{Method: "tools/call", Params: map[string]any{"name": "e__get-sum", "arguments": map[string]any{"a": 2, "b": 3}}},
	}
	for _, c := range []client.Client{client.GoSDK(client.Legacy), client.GoSDK(client.Modern), client.V2(client.Legacy), client.V2(client.Modern)} {
		t.Run(c.Name(), func(t *testing.T) {
			got := c.Run(t, client.Target{URL: g.URL, OAuth: true}, steps)
			var names []string
			for _, item := range client.Decode[client.List](t, got.Steps[0]).Items {
				names = append(names, item["name"].(string))
			}
			// The list shows the tool that needs the scope, and no other tool of the server.
			if strings.Join(names, " ") != "e__echo e__get-sum" {
				t.Errorf("the list contains %q", names)
			}
			for i, want := range map[int]string{1: "hello", 2: "5"} {
				if text := string(client.Decode[json.RawMessage](t, got.Steps[i])); !strings.Contains(text, want) {
					t.Errorf("%s: %s", steps[i].Params["name"], text)
				}
			}
		})
	}
	t.Run("without proof", func(t *testing.T) {
		resp, err := http.Post(g.URL, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("got %s", resp.Status)
		}
	})
}
