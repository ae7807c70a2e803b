package replicas

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is an upstream that counts what was done.
type server struct {
	url string
	mcp *mcp.Server

	mu   sync.Mutex
	done map[string]int // calls of record, by token

	waiting atomic.Int64 // calls of wait that run
}

func (s *server) note(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[token]++
}

// times returns how often a token was recorded, or one of the tools ask, limited and confirmed was called.
func (s *server) times(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[token]
}

// The resources of a server.
const touched, other = "test://touched", "test://other"

func (s *server) touch(ctx context.Context) error { return s.update(ctx, touched) }

// update tells all subscribers that a resource has changed.
func (s *server) update(ctx context.Context, uri string) error {
	return s.mcp.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
}

func (s *server) addResource(uri string) {
	s.mcp.AddResource(&mcp.Resource{Name: uri, URI: uri}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: "now"}}}, nil
	})
}

// progressPause is the time between two steps of the tool count.
const progressPause = 10 * time.Millisecond

// startServer runs a server over HTTP until the test ends, without sessions in the modern era and with sessions in the legacy era. Its tool record is
// not safe to repeat; count reports progress up to n before its result; ask returns what the client's user says; wait runs until it is cancelled.
func startServer(t *testing.T, name string, modern bool) *server {
	t.Helper()
	s := &server{done: make(map[string]int)}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler: func(context.Context, *mcp.SubscribeRequest) error { return nil },
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"completed"}}}, nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	schema := json.RawMessage(`{"type":"object"}`)
	s.mcp.AddTool(&mcp.Tool{Name: "record", InputSchema: schema}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ Token string }
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		s.note(in.Token)
		return text(in.Token), nil
	})
	s.mcp.AddTool(&mcp.Tool{Name: "count", InputSchema: schema}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ N int }
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		tick := time.NewTicker(progressPause)
		defer tick.Stop()
		for i := range in.N {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)})
			if err != nil {
				return nil, err
			}
			<-tick.C
		}
		return text("counted"), nil
	})
	s.mcp.AddTool(&mcp.Tool{Name: "ask", InputSchema: schema}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		question := &mcp.ElicitParams{Mode: "form", Message: "Go on?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}
		if answer, ok := r.Params.InputResponses["question"].(*mcp.ElicitResult); ok {
			return text(answer.Action), nil
		}
		if modern {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"question": question}, RequestState: "asked"}, nil
		}
		s.note("ask")
		res, err := r.Session.Elicit(ctx, question)
		if err != nil {
			return nil, err
		}
		return text(res.Action), nil
	})
	s.mcp.AddTool(&mcp.Tool{Name: "wait", InputSchema: schema}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		if err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for _, name := range []string{"limited", "confirmed"} {
		s.mcp.AddTool(&mcp.Tool{Name: name, InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.note(name)
			return text("done"), nil
		})
	}
	s.mcp.AddPrompt(&mcp.Prompt{Name: "hello", Arguments: []*mcp.PromptArgument{{Name: "name"}}}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello"}}}}, nil
	})
	for _, uri := range []string{touched, other} {
		s.addResource(uri)
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{Stateless: modern}))
	s.url = web.URL
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		for session := range s.mcp.Sessions() {
			session.Close()
		}
	})
	return s
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
