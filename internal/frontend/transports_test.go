package frontend

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// cuttingTransport is an http.RoundTripper that cuts off streams of events after some
// bytes.
type cuttingTransport struct {
	next http.RoundTripper
	cuts atomic.Int32
}

func (c *cuttingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil && resp.Header.Get("Content-Type") == "text/event-stream" {
		resp.Body = &cut{resp.Body, c, 700}
	}
	return resp, err
}

type cut struct {
	io.ReadCloser
	by   *cuttingTransport
	left int
}

func (b *cut) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.by.cuts.Add(1)
		b.ReadCloser.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// The SDK's client resumes a call whose connections break, and gets each notification once
// and in order.
func TestSDKClientResumes(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel() // the client waits before it reconnects
			_, url := serve(t, countingHandler{})
			transport := &http.Transport{}
			cutter := &cuttingTransport{next: transport}
			progress := make(chan float64, 100)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					progress <- r.Params.Progress
				},
			})
			session, err := client.Connect(t.Context(),
				&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: cutter}, DisableStandaloneSSE: true},
				&mcp.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				session.Close() // the server may have ended it before
				transport.CloseIdleConnections()
			})
			const n = 12
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "x", Arguments: map[string]any{"n": n, "size": 10}, Meta: mcp.Meta{"progressToken": "t"}}); err != nil {
				t.Fatal(err)
			}
			if cutter.cuts.Load() == 0 {
				t.Error("no connection broke: the test shows nothing")
			}
			for i := range n {
				if got := <-progress; got != float64(i) {
					t.Errorf("progress %v, want %d", got, i)
				}
			}
			if len(progress) > 0 {
				t.Errorf("%d notifications too many", len(progress))
			}
		})
	}
}

// observingHandler is a listHandler that reports when calls of the tool wait begin and
// end.
type observingHandler struct {
	listHandler
	began chan struct{}
	ended chan error
}

func (n observingHandler) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	if !wire.ValueOf(c.Params).Get("name").IsString("wait") {
		return n.listHandler.Handle(ctx, c)
	}
	n.began <- struct{}{}
	res, err := n.listHandler.Handle(ctx, c)
	n.ended <- context.Cause(ctx)
	return res, err
}

func newNoticing() observingHandler {
	return observingHandler{listHandler{newScriptHandler()}, make(chan struct{}, 1), make(chan error, 1)}
}

// exercise runs the steps of TestSDKClient over another transport.
func exercise(t *testing.T, s *Server, transport mcp.Transport, revision string) {
	t.Helper()
	h := s.options.Handler.(observingHandler)
	progress, changed := make(chan float64, 8), make(chan struct{}, 8)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
	})
	acknowledged := make(chan struct{}, 1)
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == wire.NoteAcknowledged {
				acknowledged <- struct{}{}
			}
			return next(ctx, method, r)
		}
	})
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	defer session.Close()
	if wire.Revision(revision).Era() == wire.EraModern { // it only gets changes that come after its listen request
		<-acknowledged
	}
	if got := session.InitializeResult(); got.ProtocolVersion != revision || got.Instructions != "Be kind." {
		t.Errorf("negotiated %s with instructions %q", got.ProtocolVersion, got.Instructions)
	}
	if tools, err := session.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 1 {
		t.Errorf("tools: %+v, %v", tools, err)
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "progress", Meta: mcp.Meta{"progressToken": "t"}}); err != nil {
		t.Error(err)
	}
	if got := <-progress; got != 1 {
		t.Errorf("progress %v, want 1", got)
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{
		"method": "elicitation/create",
		"params": map[string]any{"message": "Sure?", "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{}}},
	}}); err != nil {
		t.Error(err)
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "fail", Arguments: map[string]any{"code": -32602}}); err == nil {
		t.Error("a call that fails did not")
	}
	s.ListChanged(true, false, false)
	<-changed
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-h.began // a call that is cancelled before it is sent never begins
		cancel()
	}()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{"for": "ever"}}); err == nil {
		t.Error("a cancelled call succeeded")
	}
	if <-h.ended == nil {
		t.Error("the call's context did not end")
	}
}

// The SDK's client works over HTTP+SSE in each legacy revision.
func TestSDKClientOverSSE(t *testing.T) {
	for _, revision := range revisions {
		if wire.Revision(revision).Era() != wire.EraLegacy {
			continue
		}
		t.Run(revision, func(t *testing.T) {
			s := New(Options{Handler: newNoticing(), Info: wire.Raw(`{"name":"gateway","version":"1"}`), LoopbackListener: true})
			mux := http.NewServeMux()
			mux.HandleFunc("/sse", s.ServeSSE)
			mux.HandleFunc("/sse/message", s.ServeSSE)
			web := httptest.NewServer(mux)
			defer web.Close()
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			exercise(t, s, &mcp.SSEClientTransport{Endpoint: web.URL + "/sse", HTTPClient: &http.Client{Transport: transport}}, revision)
		})
	}
}

// The SDK's client works over stdio in each revision of both eras.
func TestSDKClientOverStdio(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			s := New(Options{Handler: newNoticing(), Info: wire.Raw(`{"name":"gateway","version":"1"}`)})
			toServer, in := io.Pipe()
			out, fromServer := io.Pipe()
			served := make(chan error, 1)
			go func() {
				err := s.ServeStdio(t.Context(), call.Local, toServer, fromServer, time.Minute)
				fromServer.Close() // as the end of the process would
				served <- err
			}()
			exercise(t, s, &mcp.IOTransport{Reader: out, Writer: in}, revision)
			in.Close()
			if err := <-served; err != nil {
				t.Error(fmt.Errorf("the server: %w", err))
			}
		})
	}
}
