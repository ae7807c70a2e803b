//lint:file-ignore SA1019 sampling and roots are deprecated from 2026-07-28 on, and in force

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// TestAsks lets clients of both eras call tools that ask for input, at servers of both eras. A modern client cannot be sent a request and a modern
// server cannot send one, so three of the four combinations work by what stands between them.
func TestAsks(t *testing.T) {
	stdio := func(era rig.Era) rig.Config {
		command := rig.FixtureCommand(t)
		return rig.Config{"command": command[0], "args": command[1:], "era": era}
	}
	gateway := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{
		"legacy": {"url": rig.Fixture(t, rig.Legacy), "era": rig.Legacy}, "legacy-stdio": stdio(rig.Legacy),
		"modern": {"url": rig.Fixture(t, rig.Modern), "era": rig.Modern}, "modern-stdio": stdio(rig.Modern),
	}})
	for _, era := range []string{client.Legacy, client.Modern} {
		for _, upstream := range []string{"legacy", "legacy-stdio", "modern", "modern-stdio"} {
			t.Run(era+" client, "+upstream, func(t *testing.T) {
				u := connectUser(t, era, gateway.URL)
				elicit, sample := "test_input_required_result_elicitation", "test_input_required_result_sampling"
				elicited, sampled := "Hello, Ann!", "Sampling response: Paris"
				arguments := map[string]any{}
				if strings.HasPrefix(upstream, "legacy") { // the tools that ask in the way of that era
					elicit, sample = "test_elicitation", "test_sampling"
					elicited, sampled = "action=accept, content=map[username:Ann]", "Paris"
					arguments = map[string]any{"message": "What is your name?", "prompt": "What is the capital of France?"}
				}
				only := func(key string) map[string]any {
					if v, ok := arguments[key]; ok {
						return map[string]any{key: v}
					}
					return arguments
				}
				u.call(t, publicName(upstream, elicit), only("message"), elicited)
				if want := upstream + ": What is your name?"; u.message != want {
					t.Errorf("the user was asked %q, want %q", u.message, want)
				}
				u.call(t, publicName(upstream, sample), only("prompt"), sampled)
				if strings.HasPrefix(upstream, "modern") {
					u.call(t, publicName(upstream, "test_input_required_result_multiple_inputs"), nil, "Ann — 1 root(s) visible")
					u.call(t, publicName(upstream, "test_input_required_result_multi_round"), nil, "blue")
				}
			})
		}
	}
}

// user is a client that answers every question.
type user struct {
	session *mcp.ClientSession
	message string // of the last elicitation
}

func connectUser(t *testing.T, era, url string) *user {
	t.Helper()
	u := &user{}
	c := mcp.NewClient(&mcp.Implementation{Name: "user", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			u.message = r.Params.Message
			content := map[string]any{}
			schema, _ := r.Params.RequestedSchema.(map[string]any)
			properties, _ := schema["properties"].(map[string]any)
			for name := range properties {
				content[name] = map[bool]string{true: "blue", false: "Ann"}[name == "color"]
			}
			return &mcp.ElicitResult{Action: "accept", Content: content}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "Paris"}}, nil
		},
	})
	c.AddRoots(&mcp.Root{URI: "file:///home/ann", Name: "home"})
	connections := &http.Transport{}
	options := &mcp.ClientSessionOptions{}
	if era == client.Legacy {
		options.ProtocolVersion = "2025-11-25"
	}
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: connections}, MaxRetries: -1}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		connections.CloseIdleConnections()
	})
	u.session = session
	return u
}

// call calls a tool, whose result must hold the text.
func (u *user) call(t *testing.T, tool string, arguments map[string]any, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if arguments == nil {
		arguments = map[string]any{}
	}
	result, err := u.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Errorf("%s: %v", tool, err)
		return
	}
	var text strings.Builder
	for _, block := range result.Content {
		if block, ok := block.(*mcp.TextContent); ok {
			fmt.Fprint(&text, block.Text)
		}
	}
	if !strings.Contains(text.String(), want) || result.IsError {
		t.Errorf("%s: %q (error: %t), want %q", tool, text.String(), result.IsError, want)
	}
}
