package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// sdkServer is a server made with the Go SDK. Its tools report progress, ask the
// client and change the list of tools.
func sdkServer() *mcp.Server {
	type in struct {
		Text string `json:"text"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{Instructions: "be nice"})
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(ctx context.Context, r *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		return text("%s", a.Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "sure?"})
		if err != nil {
			return nil, nil, err
		}
		return text("%s", answer.Action), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "grow"}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
		mcp.AddTool(s, &mcp.Tool{Name: "more"}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
			return text("more"), nil, nil
		})
		return text("grown"), nil, nil
	})
	return s
}

func TestSDKServers(t *testing.T) {
	for name, tc := range map[string]struct {
		handler  func(func(*http.Request) *mcp.Server) http.Handler
		revision wire.Revision
		change   func(*Options)
		asks     bool
	}{
		"streamable, sessions": {func(get func(*http.Request) *mcp.Server) http.Handler { return mcp.NewStreamableHTTPHandler(get, nil) }, "2025-11-25", nil, true},
		"streamable, JSON": {func(get func(*http.Request) *mcp.Server) http.Handler {
			return mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{JSONResponse: true})
		}, "2025-11-25", nil, false},
		"streamable, resumable": {func(get func(*http.Request) *mcp.Server) http.Handler {
			return mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
		}, "2025-11-25", nil, true},
		"stateless": {func(get func(*http.Request) *mcp.Server) http.Handler {
			return mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
		}, "2026-07-28", nil, false},
		"stateless, as legacy": {func(get func(*http.Request) *mcp.Server) http.Handler {
			return mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
		}, "2025-11-25", legacyEra, false},
		"HTTP+SSE": {func(get func(*http.Request) *mcp.Server) http.Handler { return mcp.NewSSEHandler(get, nil) }, "2025-11-25", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := sdkServer()
			var change []func(*Options)
			if tc.change != nil {
				change = append(change, tc.change)
			}
			c := converse(t, tc.handler(func(*http.Request) *mcp.Server { return s }), change...)
			upstreamtest.Equal(t, "revision", c.hello.Revision, tc.revision)
			upstreamtest.Equal(t, "instructions", c.hello.Instructions, "be nice")

			back := &client{asked: make(chan string, 1), reply: `{"action":"decline"}`}
			cl := tool("a", `{"name":"echo","arguments":{"text":"hi"},"_meta":{"progressToken":"mine"}}`, back)
			if tc.revision.Era() == wire.EraModern {
				cl.Client = modernCall("", "").Client
			}
			contains(t, "echo", c.do(t, cl), `"text":"hi"`)
			if tc.asks || tc.revision.Era() == wire.EraModern {
				contains(t, "progress", strings.Join(back.notes, " "), `"progressToken":"mine"`)
			}
			if tc.asks {
				contains(t, "ask", c.do(t, cl.With(wire.Raw(`{"name":"ask","arguments":{"text":""}}`))), `"text":"decline"`)
			}
			unknown := cl.With(wire.Raw(`{"uri":"a:1"}`))
			unknown.Method = wire.MethodResourcesMetadata
			if _, err := c.Call(t.Context(), unknown); !saysUnknownMethod(err) {
				t.Errorf("unknown method: %v", err)
			}
			if name == "stateless, as legacy" {
				return // no stream for notifications
			}
			// The server drops notifications of changes until the stream or the subscription is open.
			traits := c.Traits()
			if traits.Stream != nil {
				<-traits.Stream.Known()
			}
			if traits.Listens {
				if _, err := c.Listen(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			contains(t, "grow", c.do(t, cl.With(wire.Raw(`{"name":"grow","arguments":{"text":""}}`))), `"text":"grown"`)
			select {
			case note := <-c.in:
				contains(t, "note", note, wire.NoteToolsChanged)
			case <-t.Context().Done():
			}
			contains(t, "unknown tool", c.do(t, cl.With(wire.Raw(`{"name":"nope"}`))), `error: {"code":-32602`)
		})
	}
}
