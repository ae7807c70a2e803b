package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// TestConfirm lets users of both eras accept and decline calls that need a
// confirmation, at servers of both eras. If the server asks a question itself,
// the consent covers the later rounds.
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

// TestConfirmWithRealClients asks the users of all real clients. Some users accept, some decline, and some clients cannot ask.
func TestConfirmWithRealClients(t *testing.T) {
	everything := rig.EverythingCommand(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	g := rig.StartGateway(t, rig.Config{
		"telemetry": rig.Config{"audit": rig.Config{"file": file}},
		"policy": rig.Config{"default": "allow", "rules": []rig.Config{
			{"name": "ask", "effect": "confirm", "what": rig.Config{"tools": []string{"e__echo"}}},
		}},
		"upstreams": rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}},
	})
	const secret = "s3cret-argument"
	call := []client.Step{{Method: "tools/call", Params: map[string]any{"name": "e__echo", "arguments": map[string]any{"message": secret}}}}
	type result struct {
		Content []struct{ Type, Text string }
		IsError bool
	}
	outcomes := map[string]int{}
	for _, c := range []client.Client{client.V1(), client.V2(client.Legacy), client.V2(client.Modern), client.GoSDK(client.Legacy), client.GoSDK(client.Modern)} {
		for _, tc := range []struct {
			name    string
			c       client.Client
			asked   int
			isError bool
			want    string
			outcome string
		}{
			{"accepts", client.Answering(c), 1, false, "Echo: " + secret, "accepted"},
			{"declines", client.Declining(c), 1, true, "The tool e__echo was not used: the user declined it.", "declined"},
			{"cannot be asked", c, 0, true, "The tool e__echo was not used: the user has to confirm it, and this client cannot ask them: it does not support elicitation.", "undeclared"},
		} {
			t.Run(c.Name()+" "+tc.name, func(t *testing.T) {
				got := tc.c.Run(t, client.Target{URL: g.URL}, call).Steps[0]
				asked := 0
				for _, e := range got.Events {
					if e.Method == "elicitation/create" {
						asked++
						if !strings.Contains(string(e.Params), "e: may the tool e__echo be called?") || !strings.Contains(string(e.Params), secret) {
							t.Errorf("the user was asked %s", e.Params)
						}
					}
				}
				r := client.Decode[result](t, got)
				if asked != tc.asked || r.IsError != tc.isError || len(r.Content) != 1 || r.Content[0].Text != tc.want {
					t.Errorf("the user was asked %d times, the result is %+v; want %q", asked, r, tc.want)
				}
			})
			outcomes[tc.outcome]++
		}
	}
	// The audit has every answer, and an execution after accepted answers only.
	if err := g.Process.Stop(time.Minute); err != nil { // what is not written yet is written then
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var a struct{ Event, Outcome string }
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if a.Event == "consent" {
			outcomes[a.Outcome]--
		}
		if a.Event == "end" && a.Outcome == "ok" {
			outcomes["done"]++
		}
	}
	if diff := gocmp.Diff(map[string]int{"accepted": 0, "declined": 0, "undeclared": 0, "done": 5}, outcomes); diff != "" || strings.Contains(string(data), secret) {
		t.Errorf("the audit has wrong outcomes (-want +got) or an argument:\n%s%s", diff, data)
	}
}
