package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/client"
)

// user is a client that answers every question.
type user struct {
	session *mcp.ClientSession
	message string // of the last elicitation
	asked   int    // number of elicitations so far
	action  string // the answer to them, "" for accept
}

func connectUser(t *testing.T, era, url string) *user {
	t.Helper()
	u := &user{}
	c := mcp.NewClient(&mcp.Implementation{Name: "user", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			u.message = r.Params.Message
			u.asked++
			content := map[string]any{}
			schema, _ := r.Params.RequestedSchema.(map[string]any)
			properties, _ := schema["properties"].(map[string]any)
			for name := range properties {
				content[name] = map[bool]string{true: "blue", false: "Ann"}[name == "color"]
			}
			return &mcp.ElicitResult{Action: cmp.Or(u.action, "accept"), Content: content}, nil
		},
	})
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

// call calls a tool. The result must contain the text.
func (u *user) call(t *testing.T, tool string, arguments map[string]any, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
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
