package e2e

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// TestConfirm lets users of both eras accept and decline calls that need a
// confirmation, at servers of both eras. Where the server asks something itself
// the consent goes on into the later rounds.
func TestConfirm(t *testing.T) {
	gateway := rig.StartGateway(t, rig.Config{
		"upstreams": rig.Upstreams{
			"legacy": {"url": rig.Fixture(t, rig.Legacy), "era": rig.Legacy},
			"modern": {"url": rig.Fixture(t, rig.Modern), "era": rig.Modern},
		},
		"policy": rig.Config{"default": "deny", "rules": []rig.Config{
			{"name": "ask", "effect": "confirm", "what": rig.Config{"tools": []string{"*__test_*"}}},
			{"name": "never", "effect": "deny", "what": rig.Config{"tools": []string{"*_image_*"}}},
			{"name": "short", "effect": "deny", "what": rig.Config{"tools": []string{"legacy__test_elicitation"}}, "when": "size(args.message) > 100"},
		}},
	})
	for _, era := range []string{client.Legacy, client.Modern} {
		for _, upstream := range []string{"legacy", "modern"} {
			t.Run(era+" client, "+upstream, func(t *testing.T) {
				u := connectUser(t, era, gateway.URL)
				tool := publicName(upstream, "test_simple_text")
				u.call(t, tool, nil, "This is a simple text response for testing.")
				if !strings.HasPrefix(u.message, upstream+": may the tool "+tool+" be called?") || u.asked != 1 {
					t.Errorf("the user was asked %d times: %q", u.asked, u.message)
				}
				u.call(t, tool, nil, "This is a simple text response for testing.")
				if u.asked != 2 {
					t.Errorf("the user was asked %d times, want once for each call", u.asked)
				}
				asks, arguments, want := "test_input_required_result_multi_round", map[string]any(nil), "blue"
				if upstream == "legacy" {
					asks, arguments, want = "test_elicitation", map[string]any{"message": "What is your name?"}, "username:Ann"
				}
				before := u.asked
				u.call(t, publicName(upstream, asks), arguments, want)
				if n := u.asked - before; n != map[string]int{"legacy": 2, "modern": 3}[upstream] {
					t.Errorf("the user was asked %d times", n)
				}

				u.action = "decline"
				result, err := u.session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
				if err != nil || !result.IsError || len(result.Content) != 1 {
					t.Fatalf("declined: %+v, %v", result, err)
				}
				if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != "The tool "+tool+" was not used: the user declined it." {
					t.Errorf("declined: %+v", result.Content[0])
				}

				before = u.asked
				hidden := publicName(upstream, "test_image_content")
				_, err = u.session.CallTool(t.Context(), &mcp.CallToolParams{Name: hidden, Arguments: map[string]any{}})
				if err == nil || !strings.Contains(err.Error(), "unknown tool") || u.asked != before {
					t.Errorf("%s: %v; the user was asked %d times", hidden, err, u.asked-before)
				}
				list, err := u.session.ListTools(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, tool := range list.Tools {
					if strings.Contains(tool.Name, "_image_") {
						t.Errorf("%s is listed", tool.Name)
					}
				}
			})
		}
	}
}
