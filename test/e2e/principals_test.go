package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/rig"
)

// keyed is a transport that sends a key with every request.
type keyed struct {
	*http.Transport
	key string
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-API-Key", k.key)
	return k.Transport.RoundTrip(r)
}

func withKeys(prefix string) rig.Config {
	var keys []rig.Config
	for _, who := range []string{"ann", "bob"} {
		digest := sha256.Sum256([]byte(prefix + who))
		keys = append(keys, rig.Config{"id": who, "sha256": hex.EncodeToString(digest[:])})
	}
	return rig.Config{"mode": "api-key", "api_keys": keys}
}

// TestListsOfPrincipals puts a gateway before another one that accepts only ann and bob, each with different tools. The second gateway rejects the
// first gateway's own requests. Through the first gateway ann and bob see and use the same tools as without it.
func TestListsOfPrincipals(t *testing.T) {
	everything := rig.EverythingCommand(t)
	rule := func(who, tool string) rig.Config {
		return rig.Config{"name": who, "effect": "allow", "who": rig.Config{"subjects": []string{who}}, "what": rig.Config{"tools": []string{tool}}}
	}
	inner := rig.StartGateway(t, rig.Config{
		"auth":      withKeys("inner-"),
		"policy":    rig.Config{"rules": []rig.Config{rule("ann", "e__echo"), rule("bob", "e__get-sum")}},
		"upstreams": rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}},
	})
	outer := rig.StartGateway(t, rig.Config{
		"auth":      withKeys("outer-"),
		"policy":    rig.Config{"default": "allow"},
		"upstreams": rig.Upstreams{"a": {"url": inner.URL, "headers": rig.Config{"X-API-Key": "inner-{{principal.subject}}"}}},
	})
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for who, tools := range map[string]struct {
			own, other string
			arguments  map[string]any
			want       string
		}{
			"ann": {"a__e__echo", "a__e__get-sum", map[string]any{"message": "hello"}, "Echo: hello"},
			"bob": {"a__e__get-sum", "a__e__echo", map[string]any{"a": 2, "b": 3}, "5"},
		} {
			t.Run(revision+", "+who, func(t *testing.T) {
				connections := &http.Transport{}
				defer connections.CloseIdleConnections()
				client := mcp.NewClient(&mcp.Implementation{Name: who, Version: "1"}, nil)
				session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
					Endpoint: outer.URL, HTTPClient: &http.Client{Transport: keyed{connections, "outer-" + who}}, MaxRetries: -1,
				}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				list, err := session.ListTools(ctx, nil)
				if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != tools.own {
					t.Fatalf("the list is %+v, %v", list, err)
				}
				result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tools.own, Arguments: tools.arguments})
				if err != nil || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, tools.want) {
					t.Errorf("%s: %+v, %v", tools.own, result, err)
				}
				if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tools.other}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
					t.Errorf("%s: %v", tools.other, err)
				}
			})
		}
	}
}
