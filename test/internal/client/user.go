//lint:file-ignore SA1019 sampling, roots and log messages are deprecated from 2026-07-28 on, and in force

package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// eventsWithin bounds the wait of a step for its events, where the step does not say.
const eventsWithin = 45 * time.Second

var home = &mcp.Root{URI: "file:///home/ann", Name: "home"}

// user answers what a client of the Go SDK is asked, and records that and what the client is told. test/clients/user.mjs is the same for the
// TypeScript SDK.
type user struct {
	more   chan struct{} // holds one after an event was recorded
	acked  chan struct{} // one for each subscription of the modern era that stands
	mu     sync.Mutex
	events []Event

	declines bool // every question
}

func newUser() *user { return &user{more: make(chan struct{}, 1), acked: make(chan struct{}, 100)} }

// watch notices that subscriptions of the modern era stand, which the SDK does not tell: a change that is made before is told to nobody.
func (u *user) watch(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method == "notifications/subscriptions/acknowledged" {
			u.acked <- struct{}{}
		}
		return next(ctx, method, r)
	}
}

// stands waits until one more subscription does.
func (u *user) stands(ctx context.Context) error {
	select {
	case <-u.acked:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the subscription was not acknowledged: %w", ctx.Err())
	}
}

// sitDown puts the user behind a client that is to be made with the options.
func (u *user) sitDown(options *mcp.ClientOptions) {
	options.Capabilities = &mcp.ClientCapabilities{
		RootsV2:     &mcp.RootCapabilities{ListChanged: true},
		Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
	}
	options.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		u.record("elicitation/create", r.Params)
		if u.declines {
			return &mcp.ElicitResult{Action: "decline"}, nil
		}
		return elicited(r.Params), nil
	}
	options.CreateMessageWithToolsHandler = func(_ context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
		u.record("sampling/createMessage", r.Params)
		return sampled(r.Params), nil
	}
	options.ElicitationCompleteHandler = func(_ context.Context, r *mcp.ElicitationCompleteNotificationRequest) {
		u.record("notifications/elicitation/complete", r.Params)
	}
	options.ToolListChangedHandler = func(_ context.Context, r *mcp.ToolListChangedRequest) {
		u.record("notifications/tools/list_changed", r.Params)
	}
	options.PromptListChangedHandler = func(_ context.Context, r *mcp.PromptListChangedRequest) {
		u.record("notifications/prompts/list_changed", r.Params)
	}
	options.ResourceListChangedHandler = func(_ context.Context, r *mcp.ResourceListChangedRequest) {
		u.record("notifications/resources/list_changed", r.Params)
	}
	options.ResourceUpdatedHandler = func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
		u.record("notifications/resources/updated", r.Params)
	}
	options.LoggingMessageHandler = func(_ context.Context, r *mcp.LoggingMessageRequest) { u.record("notifications/message", r.Params) }
}

func elicited(params *mcp.ElicitParams) *mcp.ElicitResult {
	if params.Mode == "url" {
		return &mcp.ElicitResult{Action: "accept"}
	}
	schema, _ := params.RequestedSchema.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	content := make(map[string]any)
	for name, value := range map[string]string{"name": "Ann", "color": "blue"} {
		if _, ok := properties[name]; ok {
			content[name] = value
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}
}

// sampled is what a model says that uses the tool that it is offered, and then says what the tool brought.
func sampled(params *mcp.CreateMessageWithToolsParams) *mcp.CreateMessageWithToolsResult {
	message := &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m", StopReason: "endTurn"}
	last := params.Messages[len(params.Messages)-1].Content[0]
	if brought, ok := last.(*mcp.ToolResultContent); ok {
		message.Content = brought.Content[:1]
		return message
	}
	if len(params.Tools) > 0 {
		message.Content = []mcp.Content{&mcp.ToolUseContent{ID: "use-1", Name: params.Tools[0].Name, Input: map[string]any{"city": "Oslo"}}}
		message.StopReason = "toolUse"
		return message
	}
	message.Content = []mcp.Content{&mcp.TextContent{Text: "Paris"}}
	return message
}

func (u *user) record(method string, params any) {
	event := Event{Method: method, Params: mustJSON(params)}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.events = append(u.events, event)
	select {
	case u.more <- struct{}{}:
	default:
	}
}

// await waits until the events of a step make a condition true, and returns whether they did in time.
func (u *user) await(step Step, condition func() bool) bool {
	within := time.Duration(step.Within) * time.Millisecond
	if within == 0 {
		within = eventsWithin
	}
	late := time.After(within)
	for !condition() {
		select {
		case <-u.more:
		case <-late:
			return false
		}
	}
	return true
}

// count returns how many events of a method came since take was called last.
func (u *user) count(method string) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, event := range u.events {
		if event.Method == method {
			n++
		}
	}
	return n
}

func (u *user) have(wants []Want) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, want := range wants {
		found := false
		for _, event := range u.events {
			found = found || event.Is(want)
		}
		if !found {
			return false
		}
	}
	return true
}

// take returns what was recorded since it was called last.
func (u *user) take() []Event {
	u.mu.Lock()
	defer u.mu.Unlock()
	events := u.events
	u.events = nil
	return events
}
