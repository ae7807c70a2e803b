//lint:file-ignore SA1019 log messages are deprecated in 2026-07-28 and still valid

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// waitsFor is the duration of the tool "wait" if it is not cancelled.
const waitsFor = 30 * time.Second

var anyObject = json.RawMessage(`{"type":"object"}`)

// input is the union of the tools' arguments.
type input struct {
	Text string `json:"text"` // of echo
	Key  string `json:"key"`  // of wait, cancelled, sign_in and finish_sign_in: identifies one of several concurrent callers
	Name string `json:"name"` // of grow and shrink

	Within int `json:"within"` // of cancelled: timeout in milliseconds
}

func (f *fixture) add(name string, do func(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, error)) {
	f.server.AddTool(&mcp.Tool{Name: name, InputSchema: anyObject}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in input
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		return do(ctx, r, in)
	})
}

// addTools adds the tools without questions.
func (f *fixture) addTools() {
	f.add("echo", func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
		return text("echo: " + in.Text), nil
	})
	f.add("count", func(ctx context.Context, r *mcp.CallToolRequest, _ input) (*mcp.CallToolResult, error) {
		for i := range 3 {
			if err := progress(ctx, r, float64(i+1)); err != nil {
				return nil, err
			}
		}
		return text("counted"), nil
	})
	f.add("log", func(ctx context.Context, r *mcp.CallToolRequest, _ input) (*mcp.CallToolResult, error) {
		for _, m := range []*mcp.LoggingMessageParams{{Level: "debug", Data: "quiet"}, {Level: "info", Data: "loud"}} {
			if err := r.Session.Log(ctx, m); err != nil {
				return nil, err
			}
		}
		return text("logged"), nil
	})
	// wait reports progress once it has begun, and then waits for its cancellation. cancelled reports whether the call with this key was cancelled.
	f.add("wait", func(ctx context.Context, r *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
		if err := progress(ctx, r, 1); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			close(f.cancellation(in.Key))
			return nil, ctx.Err()
		case <-time.After(waitsFor):
			return text("nobody cancelled"), nil
		}
	})
	f.add("cancelled", func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
		select {
		case <-f.cancellation(in.Key):
			return text("cancelled"), nil
		case <-time.After(time.Duration(in.Within) * time.Millisecond):
			return text("not cancelled"), nil
		}
	})
	f.add("touch", func(ctx context.Context, _ *mcp.CallToolRequest, _ input) (*mcp.CallToolResult, error) {
		f.mu.Lock()
		f.touched++
		f.mu.Unlock()
		return text("touched"), f.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: watchedURI})
	})
	f.add("grow", func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
		f.grow(in.Name)
		return text("grown"), nil
	})
	f.add("shrink", func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
		f.shrink(in.Name)
		return text("shrunk"), nil
	})
	if f.era == legacy {
		f.addSignIn()
	}
}

// addSignIn adds sign_in, which fails until its user has visited a page (spec 2025-11-25, client/elicitation, -32042), and finish_sign_in, which
// stands for the user's browser: it notifies the client, outside of any call, that the user has completed the page. Later revisions have neither.
func (f *fixture) addSignIn() {
	f.add("sign_in", func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.signedIn[in.Key] {
			return text("signed in"), nil
		}
		f.signedIn[in.Key] = true
		return nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{
			{Mode: "url", Message: "Sign in.", URL: signInURL, ElicitationID: "sign-in-" + in.Key},
		})
	})
	f.add("finish_sign_in", func(_ context.Context, r *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
		// The context of this call would tie the notification to the call.
		return text("finished"), r.Session.NotifyElicitationComplete(context.Background(), &mcp.ElicitationCompleteParams{ElicitationID: "sign-in-" + in.Key})
	})
}

// cancellation returns a channel that is closed when the call with this key is cancelled.
func (f *fixture) cancellation(key string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancelled[key] == nil {
		f.cancelled[key] = make(chan struct{})
	}
	return f.cancelled[key]
}

func progress(ctx context.Context, r *mcp.CallToolRequest, step float64) error {
	token := r.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	return r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: token, Progress: step, Total: 3, Message: fmt.Sprintf("step %g", step),
	})
}

func text(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}
