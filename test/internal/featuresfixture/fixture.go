package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	watchedURI  = "test://watched"
	embeddedURI = "test://embedded"
	grownURI    = "test://grown/"
	thingURI    = "test://thing/"
)

// fixture is the server and the state that its clients share.
type fixture struct {
	server *mcp.Server
	era    string

	mu        sync.Mutex
	touched   int                      // number of changes of the watched resource
	cancelled map[string]chan struct{} // by key; closed when the call of "wait" is cancelled
	signedIn  map[string]bool          // keys of clients that were sent to the sign-in page
}

func newFixture(era string) *fixture {
	f := &fixture{era: era, cancelled: make(map[string]chan struct{}), signedIn: make(map[string]bool)}
	f.server = mcp.NewServer(&mcp.Implementation{Name: "features-" + era, Version: "1.0.0"}, &mcp.ServerOptions{
		SupportedProtocolVersions: revisions[era],
		CompletionHandler:         complete,
		SubscribeHandler:          func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler:        func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	f.addTools()
	f.addDialogs()
	f.addResources()
	f.addPrompts()
	return f
}

func (f *fixture) addResources() {
	f.server.AddResource(&mcp.Resource{Name: "watched", URI: watchedURI, MIMEType: "text/plain"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return contents(watchedURI, fmt.Sprintf("touched %d times", f.touched)), nil
		})
	f.server.AddResource(&mcp.Resource{Name: "embedded", URI: embeddedURI, MIMEType: "text/plain"}, readText("embedded text"))
	f.server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "thing", URITemplate: thingURI + "{id}", MIMEType: "text/plain"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return contents(r.Params.URI, "thing "+strings.TrimPrefix(r.Params.URI, thingURI)), nil
		})
}

func (f *fixture) addPrompts() {
	f.server.AddPrompt(&mcp.Prompt{Name: "with_resource"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.EmbeddedResource{
			Resource: &mcp.ResourceContents{URI: embeddedURI, MIMEType: "text/plain", Text: "embedded text"},
		}}}}, nil
	})
	f.server.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "name"}}}, message("Good morning."))
}

// complete completes the argument of the prompt "greet" and the variable of the template.
func complete(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	known := []string{"Ann", "Anton", "Bob"}
	if r.Params.Ref.Type == "ref/resource" {
		known = []string{"17", "18", "42"}
	}
	values := []string{}
	for _, value := range known {
		if strings.HasPrefix(value, r.Params.Argument.Value) {
			values = append(values, value)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}, nil
}

// grow adds a tool, a prompt and a resource with this name. The SDK notifies the clients.
func (f *fixture) grow(name string) {
	f.server.AddTool(&mcp.Tool{Name: name, InputSchema: anyObject}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("I am " + name), nil
	})
	f.server.AddPrompt(&mcp.Prompt{Name: name}, message("I am "+name))
	f.server.AddResource(&mcp.Resource{Name: name, URI: grownURI + name}, readText("I am "+name))
}

func (f *fixture) shrink(name string) {
	f.server.RemoveTools(name)
	f.server.RemovePrompts(name)
	f.server.RemoveResources(grownURI + name)
}

func contents(uri, text string) *mcp.ReadResourceResult {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: text}}}
}

func readText(text string) mcp.ResourceHandler {
	return func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return contents(r.Params.URI, text), nil
	}
}

func message(text string) mcp.PromptHandler {
	return func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
	}
}
