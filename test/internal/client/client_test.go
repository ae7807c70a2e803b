package client_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	rig.Enter()
	goleak.VerifyTestMain(m)
}

// operations are the operations of a test with one server, in the server's names.
type operations struct {
	tool, slowTool, prompt, uri string
	updates                     int // of progress by slowTool
	toolArgs, promptArgs        map[string]any
	toolText                    string // in the tool's result
	promptText, uriText         string
	items                       [4]int // minimum numbers of tools, resources, templates and prompts
	completeRef                 map[string]any
	completeArg, completeWant   string
}

var everything = operations{
	tool: "get-sum", toolArgs: map[string]any{"a": 2, "b": 3}, toolText: "The sum of 2 and 3 is 5.",
	slowTool: "trigger-long-running-operation", updates: 2,
	prompt: "args-prompt", promptArgs: map[string]any{"city": "Oslo"}, promptText: "What's weather in Oslo?",
	uri: "demo://resource/dynamic/text/7", uriText: "Resource 7: This is a plaintext resource",
	items:       [4]int{12, 7, 2, 4},
	completeRef: map[string]any{"type": "ref/prompt", "name": "completable-prompt"}, completeArg: "department", completeWant: "Engineering",
}

var fixture = operations{
	tool: "test_simple_text", toolText: "This is a simple text response for testing.",
	slowTool: "test_tool_with_progress", updates: 3,
	prompt: "test_simple_prompt", promptText: "This is a simple prompt for testing.",
	uri: "test://static-text", uriText: "This is the content of the static text resource.",
	items:       [4]int{20, 3, 1, 4},
	completeRef: map[string]any{"type": "ref/prompt", "name": "test_prompt_with_arguments"}, completeArg: "arg1",
}

// The clients run the operations of the other tests without the gateway. An operation that fails only in the other tests is a fault of the gateway.
func TestClientsWithoutGateway(t *testing.T) {
	legacy, legacyFixture, modern := rig.EverythingHTTP(t), rig.Fixture(t, rig.Legacy), rig.Fixture(t, rig.Modern)
	for _, c := range client.All() {
		if c.Era() == client.Modern {
			t.Run(c.Name()+" with the modern fixture", func(t *testing.T) { try(t, c, client.Target{URL: modern}, fixture) })
			continue
		}
		t.Run(c.Name()+" with everything", func(t *testing.T) { try(t, c, client.Target{URL: legacy}, everything) })
		if c == client.Inspector(client.Legacy) {
			continue // a process for every step: one server suffices
		}
		t.Run(c.Name()+" with the legacy fixture", func(t *testing.T) { try(t, c, client.Target{URL: legacyFixture}, fixture) })
	}
}

func TestOtherTransports(t *testing.T) {
	sse := client.Target{SSE: rig.EverythingSSE(t)}
	stdio := client.Target{Command: rig.EverythingCommand(t)}
	stdioFixture := client.Target{Command: rig.FixtureCommand(t)}
	for _, test := range []struct {
		transport string
		client    client.Client
		target    client.Target
		server    operations
	}{
		{"SSE", client.V1(), sse, everything},
		{"SSE", client.GoSDK(client.Legacy), sse, everything},
		{"stdio", client.V1(), stdio, everything},
		{"stdio", client.V2(client.Legacy), stdioFixture, fixture},
		{"stdio", client.V2(client.Modern), stdioFixture, fixture},
		{"stdio", client.GoSDK(client.Legacy), stdioFixture, fixture},
		{"stdio", client.GoSDK(client.Modern), stdioFixture, fixture},
	} {
		t.Run(test.client.Name()+" over "+test.transport, func(t *testing.T) { try(t, test.client, test.target, test.server) })
	}
}

func try(t *testing.T, c client.Client, target client.Target, server operations) {
	t.Parallel()
	lists := []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"}
	var steps []client.Step
	for _, method := range lists {
		steps = append(steps, client.Step{Method: method})
	}
	steps = append(steps,
		client.Step{Method: "tools/call", Params: map[string]any{"name": server.tool, "arguments": server.toolArgs}},
		client.Step{Method: "resources/read", Params: map[string]any{"uri": server.uri}},
		client.Step{Method: "prompts/get", Params: map[string]any{"name": server.prompt, "arguments": server.promptArgs}},
		client.Step{Method: "tools/call", Params: map[string]any{"name": "no-such-tool"}},
	)
	complete := c.Can("completion/complete")
	if complete {
		steps = append(steps,
			client.Step{Method: "completion/complete", Params: map[string]any{
				"ref": server.completeRef, "argument": map[string]any{"name": server.completeArg, "value": "E"},
			}},
			client.Step{Method: "tools/call", Progress: server.updates, Params: map[string]any{
				"name": server.slowTool, "arguments": map[string]any{"duration": 0.1, "steps": 2},
			}},
		)
	}
	got := c.Run(t, target, steps).Steps
	for i, method := range lists {
		list := client.Decode[client.List](t, got[i])
		if len(list.Items) < server.items[i] {
			t.Errorf("%s: %d items, want at least %d", method, len(list.Items), server.items[i])
		}
	}
	for i, want := range []string{server.toolText, server.uriText, server.promptText} {
		if text := string(client.Decode[rawText](t, got[4+i])); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want text %q in it", got[4+i].Method, text, want)
		}
	}
	if unknown := got[7]; unknown.Error == nil && !strings.Contains(string(unknown.Result), `"isError":true`) {
		t.Errorf("an unknown tool gave %s", unknown.Result)
	}
	if !complete {
		return
	}
	completion := client.Decode[struct{ Completion struct{ Values []string } }](t, got[8]).Completion.Values
	if want := strings.Fields(server.completeWant); fmt.Sprint(completion) != fmt.Sprint(want) {
		t.Errorf("completion: %q, want %q", completion, want)
	}
	if progress := got[9].Progress; len(progress) != server.updates || !strings.Contains(string(progress[0]), `"total"`) {
		t.Errorf("progress: %s, want %d updates (result %s, error %+v)", progress, server.updates, got[9].Result, got[9].Error)
	}
}

// rawText is the undecoded text of a result.
type rawText string

func (r *rawText) UnmarshalJSON(text []byte) error {
	*r = rawText(text)
	return nil
}

func TestFailedConnectionFailsTheRun(t *testing.T) {
	url := rig.EverythingHTTP(t)
	t.Run("modern client, legacy server", func(t *testing.T) {
		message := failure(t, client.V2(client.Modern), client.Target{URL: url})
		if want := "did not offer pinned protocol version 2026-07-28"; !strings.Contains(message, want) {
			t.Errorf("failure %q, want %q in it", message, want)
		}
	})
}

// failure runs a client that must fail its test, and returns the message.
func failure(t *testing.T, c client.Client, target client.Target) string {
	t.Helper()
	fake := &fakeT{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(fake, target, nil)
	}()
	<-done
	return fake.message
}

// fakeT is a testing.TB that records a fatal failure and ends its goroutine.
type fakeT struct {
	testing.TB
	message string
}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
