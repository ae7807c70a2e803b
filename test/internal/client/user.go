//lint:file-ignore SA1019 sampling, roots and log messages are deprecated in 2026-07-28 and still valid

package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// eventsWithin is the default timeout of a step's events.
const eventsWithin = 45 * time.Second

var home = &mcp.Root{URI: "file:///home/ann", Name: "home"}

// user answers the requests to a client of the Go SDK, and records requests and notifications. test/clients/user.mjs is the equivalent for the
// TypeScript SDK.
type user struct {
	more   chan struct{} // receives a value after an event was recorded
	acks   chan struct{} // receives a value for each acknowledged subscription
	mu     sync.Mutex
	events []Event

	declines bool // declines every question
}

func newUser() *user { return &user{more: make(chan struct{}, 1), acks: make(chan struct{}, 100)} }

// watchAcks notices acknowledgements of subscriptions. The SDK does not report them, and a server does not notify of changes before them.
func (u *user) watchAcks(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method == "notifications/subscriptions/acknowledged" {
			u.acks <- struct{}{}
		}
		return next(ctx, method, r)
	}
}

// awaitAck waits for the acknowledgement of one more subscription.
func (u *user) awaitAck(ctx context.Context) error {
	select {
	case <-u.acks:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the subscription was not acknowledged: %w", ctx.Err())
	}
}

// addHandlers sets the handlers and capabilities of a client in its options.
func (u *user) addHandlers(options *mcp.ClientOptions) {
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

// sampled returns the answer of a model: a call of the offered tool first, then the text of the tool's result.
func sampled(params *mcp.CreateMessageWithToolsParams) *mcp.CreateMessageWithToolsResult {
	message := &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m", StopReason: "endTurn"}
	last := params.Messages[len(params.Messages)-1].Content[0]
	if result, ok := last.(*mcp.ToolResultContent); ok {
		message.Content = result.Content[:1]
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

// await waits until the events of a step make a condition true. It returns false after the timeout.
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

// count returns the number of events of a method since the last call of take.
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

// take returns the recorded events since the last call of take.
func (u *user) take() []Event {
	u.mu.Lock()
	defer u.mu.Unlock()
	events := u.events
	u.events = nil
	return events
}
