package reload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// counter counts the calls by their text.
type counter struct {
	mu   sync.Mutex
	seen map[string]int
}

func newCounter() *counter { return &counter{seen: map[string]int{}} }

func (c *counter) note(text string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[text]++
}

func (c *counter) times(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[text]
}

// newServer returns a server with the tool echo, which answers with the server's name, its process and the given text. The tool's annotations do not
// allow retries.
func newServer(name string, count *counter) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)
	server.AddTool(&mcp.Tool{Name: "echo", Description: "of " + name, InputSchema: schema}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ Text string }
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		count.note(in.Text)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s %d %s", name, os.Getpid(), in.Text)}}}, nil
	})
	return server
}

// remote serves a server over HTTP, without sessions in the modern era and with sessions in the legacy era.
func remote(t *testing.T, name string, modern bool, count *counter) (url string) {
	t.Helper()
	server := newServer(name, count)
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: modern}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		for s := range server.Sessions() {
			s.Close()
		}
	})
	return web.URL
}
