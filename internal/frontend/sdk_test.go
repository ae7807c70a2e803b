package frontend

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// revisions are those of the SDK's client.
var revisions = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// listHandler adds tools/list, with a tool that strict clients accept.
type listHandler struct{ *scriptHandler }

func (l listHandler) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	if c.Method == wire.MethodToolsList {
		return own(`{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
	}
	return l.scriptHandler.Handle(ctx, c)
}

// serve runs a server over HTTP during a test.
func serve(t *testing.T, h Handler) (*Server, string) {
	s := New(Options{Handler: h, Info: wire.Raw(`{"name":"gateway","version":"1"}`), LoopbackListener: true})
	web := httptest.NewServer(s)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		web.Close()
	})
	return s, web.URL + "/mcp"
}

func connect(t *testing.T, url, revision string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	transport := &http.Transport{}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	session, err := client.Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	t.Cleanup(func() {
		session.Close() // the server may have ended it before
		transport.CloseIdleConnections()
	})
	if got := session.InitializeResult(); got.ProtocolVersion != revision || got.Instructions != "Be kind." {
		t.Errorf("negotiated %s with instructions %q", got.ProtocolVersion, got.Instructions)
	}
	return session
}

// The SDK's client lists and calls tools, and gets progress, log messages and list
// changes, in each revision.
func TestSDKClient(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			s, url := serve(t, listHandler{newScriptHandler()})
			progress, changed := make(chan float64, 8), make(chan struct{}, 8)
			session := connect(t, url, revision, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					progress <- r.Params.Progress
				},
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
			})
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "echo" {
				t.Fatalf("tools: %+v, %v", tools, err)
			}
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"a": 1}}); err != nil {
				t.Fatal(err)
			}
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "progress", Meta: mcp.Meta{"progressToken": "t"}}); err != nil {
				t.Fatal(err)
			}
			if got := <-progress; got != 1 {
				t.Errorf("progress %v, want 1", got)
			}
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fail", Arguments: map[string]any{"code": -32602}}); err == nil {
				t.Error("a call that fails did not")
			}
			s.ListChanged(true, false, false)
			<-changed
		})
	}
}

// A legacy client is asked by a call, and answers.
func TestSDKClientIsAsked(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2025-06-18"} {
		t.Run(revision, func(t *testing.T) {
			h := newScriptHandler()
			_, url := serve(t, h)
			session := connect(t, url, revision, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"said": r.Params.Message}}, nil
				},
			})
			h.take()
			_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{
				"method": "elicitation/create",
				"params": map[string]any{"message": "Sure?", "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{"said": map[string]any{"type": "string"}}}},
			}})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The context of a call ends when the client cancels it: a modern client closes the
// connection, a legacy client sends a notification.
func TestSDKClientCancels(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			h := &hangingHandler{scriptHandler: newScriptHandler(), began: make(chan struct{}), ended: make(chan error)}
			_, url := serve(t, h)
			session := connect(t, url, revision, nil)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "hang"})
				done <- err
			}()
			<-h.began
			cancel()
			if got := <-h.ended; got == nil {
				t.Error("the call's context did not end")
			}
			if err := <-done; err == nil {
				t.Error("a cancelled call succeeded")
			}
		})
	}
}

// hangingHandler blocks in each tools/call until the context ends.
type hangingHandler struct {
	*scriptHandler
	began chan struct{}
	ended chan error
}

func (h *hangingHandler) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	if c.Method != wire.MethodToolsCall {
		return h.scriptHandler.Handle(ctx, c)
	}
	h.began <- struct{}{}
	<-ctx.Done()
	h.ended <- context.Cause(ctx)
	return call.Result{}, ctx.Err()
}

// Many concurrent clients of both eras get their own answers, while lists change and
// sessions begin and end.
func TestManyClients(t *testing.T) {
	s, url := serve(t, checkingHandler{newScriptHandler()})
	var wg sync.WaitGroup
	for i := range 12 {
		revision := revisions[i%len(revisions)]
		wg.Go(func() {
			session := connect(t, url, revision, nil)
			var calls sync.WaitGroup
			for j := range 20 {
				calls.Go(func() {
					want := fmt.Sprintf("%d/%d", i, j)
					res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "say", Arguments: map[string]any{"text": want}, Meta: mcp.Meta{"progressToken": want}})
					if err != nil {
						t.Errorf("%s: %v", want, err)
						return
					}
					if got := res.Content[0].(*mcp.TextContent).Text; got != want {
						t.Errorf("got the answer %q to %q", got, want)
					}
				})
			}
			s.ListChanged(true, true, true)
			calls.Wait()
		})
	}
	wg.Wait()
}

// checkingHandler echoes its argument. It reads its params before and after it notifies,
// which detects a body that is reused too early.
type checkingHandler struct{ *scriptHandler }

func (h checkingHandler) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	if c.Method != wire.MethodToolsCall {
		return h.scriptHandler.Handle(ctx, c)
	}
	before := string(c.Params)
	c.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":`+string(wire.ValueOf(c.Params).Get("_meta", "progressToken").Raw())+`,"progress":1}`))
	if after := string(c.Params); after != before {
		return call.Result{}, wire.Errorf(wire.CodeInternal, "params changed from %s to %s", before, after)
	}
	return own(fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, wire.ValueOf(c.Params).Get("arguments", "text").Raw()))
}
