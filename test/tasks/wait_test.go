package tasks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/test/internal/rig"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// within bounds the work of one client.
const within = time.Minute

// taskless is a client without support for tasks: the Go SDK's.
type taskless struct {
	session *mcp.ClientSession
	answer  map[string]any // the answer to every elicitation

	mu       sync.Mutex
	messages []string // messages of progress updates
	asked    []string
}

// connect connects a client until the end of the test.
func connect(t *testing.T, url string, era rig.Era, answer map[string]any) *taskless {
	t.Helper()
	p := &taskless{answer: answer}
	client := mcp.NewClient(&mcp.Implementation{Name: "plain", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ElicitationHandler: func(_ context.Context, request *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.asked = append(p.asked, request.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: p.answer}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, request *mcp.ProgressNotificationClientRequest) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.messages = append(p.messages, request.Params.Message)
		},
	})
	options := &mcp.ClientSessionOptions{}
	if era == rig.Legacy {
		options.ProtocolVersion = "2025-11-25"
	}
	connections := &http.Transport{}
	t.Cleanup(connections.CloseIdleConnections)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: connections}, MaxRetries: -1,
	}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	p.session = session
	return p
}

// call calls a tool and asks for progress.
func (p *taskless) call(t *testing.T, name string, arguments map[string]any) (*mcp.CallToolResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	params := &mcp.CallToolParams{Name: name, Arguments: arguments}
	params.SetProgressToken(name)
	return p.session.CallTool(ctx, params)
}

// seen returns a copy of a list of p.
func (p *taskless) seen(list *[]string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(*list)
}

func upstreams(t *testing.T, era rig.Era, stdio bool) rig.Upstreams {
	t.Helper()
	if !stdio {
		return rig.Upstreams{"jobs": {"url": rig.Tasks(t, era)}}
	}
	command := rig.TasksCommand(t, era)
	return rig.Upstreams{"jobs": {"era": era, "command": command[0], "args": command[1:]}}
}

// A client without support for tasks gets the results of tools that always run as tasks, in all combinations of eras.
func TestWaiting(t *testing.T) {
	for _, upstream := range []rig.Era{rig.Legacy, rig.Modern} {
		for _, stdio := range []bool{false, true} {
			name := string(upstream) + " upstream over HTTP"
			if stdio {
				name = string(upstream) + " upstream over stdio"
			}
			t.Run(name, func(t *testing.T) {
				gateway := rig.StartGateway(t, rig.Config{"upstreams": upstreams(t, upstream, stdio)})
				for _, client := range []rig.Era{rig.Legacy, rig.Modern} {
					t.Run(string(client)+" client", func(t *testing.T) { wait(t, gateway.URL, client) })
				}
			})
		}
	}
}

func wait(t *testing.T, url string, era rig.Era) {
	t.Run("a status message is progress", func(t *testing.T) {
		p := connect(t, url, era, nil)
		// Each step lasts ten times the gateway's polling interval, so that no step is missed on a busy machine.
		expect(t, p, "jobs__steps", map[string]any{"seconds": 1}, "three steps", false)
		if got := strings.Join(p.seen(&p.messages), ", "); got != "step 1, step 2, step 3" {
			t.Errorf("progress %q, want the three steps", got)
		}
	})
	t.Run("a tool with optional task support", func(t *testing.T) {
		expect(t, connect(t, url, era, nil), "jobs__slow_compute", map[string]any{"label": "x"}, "computed x", false)
	})
	t.Run("a tool that fails", func(t *testing.T) {
		expect(t, connect(t, url, era, nil), "jobs__failing_job", nil, "the job failed", true)
	})
	t.Run("a request that fails", func(t *testing.T) {
		_, err := connect(t, url, era, nil).call(t, "jobs__protocol_error_job", nil)
		fault, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || fault.Code != -32603 || fault.Message != "the job broke" || string(fault.Data) != `{"job":"protocol_error_job"}` {
			t.Errorf("error %v, want that of the job", err)
		}
	})
	t.Run("a question", func(t *testing.T) {
		p := connect(t, url, era, map[string]any{"confirm": true})
		expect(t, p, "jobs__confirm_delete", map[string]any{"filename": "a.txt"}, `"confirm":true`, false)
		if got := strings.Join(p.seen(&p.asked), ", "); got != "jobs: Delete a.txt?" {
			t.Errorf("asked %q", got)
		}
	})
	t.Run("two questions at once", func(t *testing.T) {
		p := connect(t, url, era, map[string]any{"name": "me"})
		expect(t, p, "jobs__multi_input", nil, `"name":"me"`, false)
		asked := p.seen(&p.asked)
		slices.Sort(asked)
		if got := strings.Join(asked, ", "); got != "jobs: Question 1, jobs: Question 2" {
			t.Errorf("asked %q", got)
		}
	})
	t.Run("a round and then a task", func(t *testing.T) {
		expect(t, connect(t, url, era, map[string]any{"name": "Alice"}), "jobs__test_tool_with_task", nil, "Hello, Alice!", false)
	})
}

// expect calls a tool and checks the text of its result.
func expect(t *testing.T, p *taskless, tool string, arguments map[string]any, text string, isError bool) {
	t.Helper()
	result, err := p.call(t, tool, arguments)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Content) != 1 || result.IsError != isError {
		t.Fatalf("result %+v", result)
	}
	if got, ok := result.Content[0].(*mcp.TextContent); !ok || !strings.Contains(got.Text, text) {
		t.Errorf("content %+v, want the text %q", result.Content[0], text)
	}
	if result.Meta["io.modelcontextprotocol/related-task"] != nil {
		t.Errorf("the result names a task, which the client does not support: %v", result.Meta)
	}
}

// The only task of an independent server asks a question during its work and sends a notification of each stage, over stdio too. Over stdio only the
// content of the question and the notifications shows which task they belong to.
func TestWaitingForRealServer(t *testing.T) {
	command := rig.EverythingCommand(t)
	gateway := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{
		"http":  {"url": rig.EverythingHTTP(t)},
		"stdio": {"command": command[0], "args": command[1:]},
	}})
	stages := func(topic string) []string {
		return []string{
			"Gathering sources...",
			"Analyzing content...",
			"Synthesizing findings...",
			fmt.Sprintf("Found multiple interpretations for %q. Requesting clarification...", topic),
			`Continuing with interpretation: "historical"...`,
			"Generating report...",
		}
	}
	for _, upstream := range []string{"http", "stdio"} {
		t.Run(upstream, func(t *testing.T) {
			var both sync.WaitGroup // concurrently, so that the calls in flight do not identify the caller
			for _, era := range []rig.Era{rig.Legacy, rig.Modern} {
				topic := string(era) + " tea"
				p := connect(t, gateway.URL, era, map[string]any{"interpretation": "historical"})
				both.Go(func() {
					result, err := p.call(t, upstream+"__simulate-research-query", map[string]any{"topic": topic, "ambiguous": true})
					if err != nil {
						t.Error(err)
						return
					}
					if text, ok := result.Content[0].(*mcp.TextContent); !ok || !strings.Contains(text.Text, topic+" (historical)") {
						t.Errorf("%s client: content %+v, want the user's answer", era, result.Content[0])
					}
					if asked := p.seen(&p.asked); len(asked) != 1 || !strings.HasPrefix(asked[0], fmt.Sprintf("%s: The research query %q", upstream, topic)) {
						t.Errorf("%s client: asked %q", era, asked)
					}
					if diff := cmp.Diff(stages(topic), p.seen(&p.messages)); diff != "" {
						t.Errorf("%s client: progress (-want +got):\n%s", era, diff)
					}
				})
			}
			both.Wait()
		})
	}
}
