package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/internal/polltest"
)

// A real server's tools are renamed, hidden, sanitized and counted as configured. A call
// with invalid arguments never reaches the server.
func TestRulesOfARealServer(t *testing.T) {
	called := make(chan struct{}, 1)
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	for _, name := range []string{"add", "secret"} {
		server.AddTool(&mcp.Tool{Name: name, Description: "d\u202e", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			called <- struct{}{}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "\x1b[1mdone"}}}, nil
		})
	}
	up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(up.Close)
	g, _ := start(t, `
upstreams:
  s:
    url: `+up.URL+`
    validate_input: true
    sanitize: [ansi, invisible]
    tools: {override: {add: {name: plus}, secret: {hidden: true}}}
`, false)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + g.Addr() + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	var tools []*mcp.Tool
	polltest.Until(t, "the tools are listed", func() bool {
		list, err := session.ListTools(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		tools = list.Tools
		return len(tools) > 0
	})
	if len(tools) != 1 || tools[0].Name != "s__plus" || tools[0].Description != "d" {
		t.Fatalf("tools %+v", tools)
	}
	call := func(arguments any) *mcp.CallToolResult {
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "s__plus", Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := call(map[string]any{"n": "1"})
	if text := res.Content[0].(*mcp.TextContent).Text; !res.IsError || !strings.Contains(text, "$.n must be of type integer, not string") {
		t.Errorf("a call with invalid arguments: %q", text)
	}
	if len(called) != 0 {
		t.Error("the call reached the server")
	}
	if text := call(map[string]any{"n": 1}).Content[0].(*mcp.TextContent).Text; text != "done" {
		t.Errorf("the text is %q", text)
	}
	metrics := page(t, g, "/metrics")
	for _, want := range []string{
		`mcp_gateway_invalid_inputs_total{upstream="s"} 1`, `mcp_gateway_sanitized_total{kind="ansi",upstream="s"} 1`,
		`mcp_gateway_sanitized_total{kind="invisible",upstream="s"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s", want)
		}
	}
}
