package traces

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asServer is the environment variable with which the test program is the server metaServer.
const asServer = "MCPGATEWAY_TRACES_SERVER"

// slowness is how long the tool slow takes.
const slowness = 2 * time.Second

// runMetaServer serves tools on standard input and output: meta returns the _meta of its call, fail and slow do what their names
// say, and ask asks the user.
func runMetaServer() {
	server := mcp.NewServer(&mcp.Implementation{Name: "meta", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "meta", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := json.Marshal(r.Params.Meta)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, err
	})
	add := func(name string, handle func(context.Context, *mcp.CallToolRequest) error) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if err := handle(ctx, r); err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
	}
	add("fail", func(context.Context, *mcp.CallToolRequest) error {
		return &jsonrpc.Error{Code: -32603, Message: "failed"}
	})
	add("slow", func(context.Context, *mcp.CallToolRequest) error {
		time.Sleep(slowness)
		return nil
	})
	add("ask", func(ctx context.Context, r *mcp.CallToolRequest) error {
		_, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Go on?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		return err
	})
	_ = server.Run(context.Background(), &mcp.StdioTransport{}) // it ends with the input
}

// asking is a hand-written server of 2026-07-28 whose tool asks two questions in its first round.
type asking struct {
	mu    sync.Mutex
	calls []request
}

// request is what the server got of a call.
type request struct{ header, meta string } // traceparent

// startAsking runs the server and returns its URL.
func startAsking(t *testing.T) (*asking, string) {
	a := new(asking)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return a, server.URL
}

func (a *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			InputResponses map[string]any
			Meta           struct{ Traceparent string } `json:"_meta"`
		}
	}
	if err != nil || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	result := `"content":[{"type":"text","text":"done"}]`
	switch m.Method {
	case "server/discover":
		result = `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"asking","version":"1"}},"ttlMs":0,"cacheScope":"private"`
	case "tools/list":
		result = `"tools":[{"name":"book","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"`
	case "tools/call":
		a.mu.Lock()
		a.calls = append(a.calls, request{r.Header.Get("Traceparent"), m.Params.Meta.Traceparent})
		a.mu.Unlock()
		if len(m.Params.InputResponses) < 2 {
			ask := `{"method":"elicitation/create","params":{"mode":"form","message":"QUESTION","requestedSchema":{"type":"object","properties":{}}}}`
			result = `"resultType":"input_required","requestState":"s","inputRequests":{"day":` + strings.Replace(ask, "QUESTION", "Which day?", 1) +
				`,"hour":` + strings.Replace(ask, "QUESTION", "Which hour?", 1) + `}`
		}
	case "subscriptions/listen":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":{"code":-32601,"message":"unknown"}}`)
		return
	}
	if !strings.Contains(result, "resultType") {
		result = `"resultType":"complete",` + result
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{`+result+`}}`)
}
