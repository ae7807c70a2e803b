//lint:file-ignore SA1019 sampling and roots are deprecated in 2026-07-28 and still valid

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// soon bounds the wait for events that happen at once unless something is broken.
const soon = time.Minute

// legacyClient is a legacy client with some capabilities. It records the requests to it.
type legacyClient struct {
	name    string
	sdk     *mcp.Client
	session *mcp.ClientSession

	mu    sync.Mutex
	asked []string
}

// connectLegacy connects a client of the Go SDK. Its abilities are "elicitation", "sampling", and roots as file URIs.
func connectLegacy(t *testing.T, url, name string, abilities ...string) *legacyClient {
	t.Helper()
	p := &legacyClient{name: name}
	o := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	for _, ability := range abilities {
		switch {
		case ability == "elicitation":
			o.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				p.ask(r.Params.Message)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": name}}, nil
			}
		case ability == "sampling":
			o.CreateMessageHandler = func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
				p.ask("sampling")
				return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "sampled by " + name}}, nil
			}
		default:
			o.Capabilities.RootsV2 = &mcp.RootCapabilities{ListChanged: true}
		}
	}
	p.sdk = mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, o)
	for _, ability := range abilities {
		if strings.HasPrefix(ability, "file:") {
			p.sdk.AddRoots(&mcp.Root{URI: ability})
		}
	}
	connections := &http.Transport{}
	session, err := p.sdk.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: connections}, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		connections.CloseIdleConnections()
	})
	p.session = session
	return p
}

func (p *legacyClient) ask(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, what)
}

// takeRequests returns the requests to the client since its last call.
func (p *legacyClient) takeRequests() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.asked = nil }()
	return strings.Join(p.asked, ", ")
}

// call returns the text of a tool's result, or the error.
func (p *legacyClient) call(t *testing.T, tool string, arguments map[string]any) string {
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if arguments == nil {
		arguments = map[string]any{}
	}
	result, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "error: " + err.Error()
	}
	var text strings.Builder
	for _, block := range result.Content {
		if block, ok := block.(*mcp.TextContent); ok {
			fmt.Fprintln(&text, block.Text)
		}
	}
	if result.IsError {
		return "tool error: " + text.String()
	}
	return text.String()
}

// expect calls a tool. The result must contain the text.
func (p *legacyClient) expect(t *testing.T, tool string, arguments map[string]any, want string) {
	t.Helper()
	if got := p.call(t, tool, arguments); !strings.Contains(got, want) {
		t.Errorf("%s calls %s: %q, want %q in it", p.name, tool, got, want)
	}
}

// TestAbilities lets clients with different capabilities call a server that asks questions. Over streamable HTTP the server sees each client's own
// capabilities. Over stdio the gateway declares all capabilities and answers for a client that lacks one.
func TestAbilities(t *testing.T) {
	command := rig.EverythingCommand(t)
	gateway := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{
		"http":  {"url": rig.EverythingHTTP(t)},
		"stdio": {"command": command[0], "args": command[1:]},
	}})
	ann, bob := connectLegacy(t, gateway.URL, "ann", "elicitation"), connectLegacy(t, gateway.URL, "bob", "sampling")
	prompt := map[string]any{"prompt": "Who are you?"}
	const elicit, sample = "trigger-elicitation-request", "trigger-sampling-request"

	var both sync.WaitGroup // over HTTP a question arrives on the stream of its call, so the calls need not be serialized
	both.Go(func() { ann.expect(t, "http__"+elicit, nil, "- Name: ann") })
	both.Go(func() { bob.expect(t, "http__"+sample, prompt, "sampled by bob") })
	both.Wait()
	if a, b := ann.takeRequests(), bob.takeRequests(); !strings.HasPrefix(a, "http: ") || b != "sampling" {
		t.Errorf("over HTTP ann was asked %q, bob %q", a, b)
	}
	bob.expect(t, "http__"+elicit, nil, elicit+" not found")
	ann.expect(t, "http__"+sample, prompt, sample+" not found")

	ann.expect(t, "stdio__"+elicit, nil, "- Name: ann")
	bob.expect(t, "stdio__"+sample, prompt, "sampled by bob")
	if a, b := ann.takeRequests(), bob.takeRequests(); !strings.HasPrefix(a, "stdio: ") || b != "sampling" {
		t.Errorf("over stdio ann was asked %q, bob %q", a, b)
	}
	bob.expect(t, "stdio__"+elicit, nil, "User cancelled")
	ann.expect(t, "stdio__"+sample, prompt, "the client did not declare that it answers sampling/createMessage")
	if a, b := ann.takeRequests(), bob.takeRequests(); a+b != "" {
		t.Errorf("ann was asked %q and bob %q, but they declare no such capability", a, b)
	}
}

// TestRootsOfClients gives each client a server process that works in the client's folder. The test sees the processes start and end.
func TestRootsOfClients(t *testing.T) {
	none := t.TempDir() // the folder of a server without roots, and the mark of its processes
	command := rig.FilesystemCommand(t, none)
	gateway := rig.StartOne(t, "it counts the processes that one gateway starts", rig.Config{"upstreams": rig.Upstreams{
		"files": {"command": command[0], "args": command[1:], "session": "per-client"},
	}})
	processes := func(t *testing.T, want int) []int {
		t.Helper()
		var found []int
		polltest.Until(t, fmt.Sprintf("%d processes", want), func() bool {
			found = running(t, none)
			return len(found) == want
		})
		return found
	}
	head := processes(t, 1)[0]

	type owner struct {
		*legacyClient
		folder string
	}
	var owners []owner
	for _, name := range []string{"ann", "bob"} {
		o := owner{folder: t.TempDir()}
		if err := os.WriteFile(filepath.Join(o.folder, "note.txt"), []byte("a note of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		o.legacyClient = connectLegacy(t, gateway.URL, name, "file://"+o.folder)
		owners = append(owners, o)
	}
	if got := processes(t, 1); got[0] != head {
		t.Error("a process was started before the first call")
	}
	note := func(o owner) map[string]any { return map[string]any{"path": filepath.Join(o.folder, "note.txt")} }
	for n, o := range owners {
		other := owners[1-n]
		// On a quiet machine the first call already finds the folder: the gateway gives the server a moment to read the roots.
		polltest.Until(t, "the server works in the folder of "+o.name, func() bool {
			return strings.Contains(o.call(t, "files__read_text_file", note(o)), "a note of "+o.name)
		})
		o.expect(t, "files__read_text_file", note(other), "Access denied")
		if got := o.call(t, "files__list_allowed_directories", nil); !strings.Contains(got, o.folder) || strings.Contains(got, other.folder) || strings.Contains(got, none) {
			t.Errorf("%s sees %q", o.name, got)
		}
	}
	connectLegacy(t, gateway.URL, "eve").expect(t, "files__list_allowed_directories", nil, none)
	processes(t, 4)
	ann, bob := owners[0], owners[1]

	t.Run("a folder more", func(t *testing.T) {
		more := t.TempDir()
		ann.sdk.AddRoots(&mcp.Root{URI: "file://" + more})
		polltest.Until(t, "the server works in the new folder", func() bool {
			return strings.Contains(ann.call(t, "files__list_allowed_directories", nil), more)
		})
		if got := bob.call(t, "files__list_allowed_directories", nil); strings.Contains(got, more) {
			t.Errorf("bob sees %q", got)
		}
	})
	t.Run("a process dies", func(t *testing.T) {
		before := processes(t, 4)
		for _, pid := range before {
			if pid != head {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		polltest.Until(t, "the server is started again for bob, with his folder", func() bool {
			return strings.Contains(bob.call(t, "files__read_text_file", note(bob)), "a note of bob")
		})
		polltest.Until(t, "and for ann, with hers", func() bool {
			return strings.Contains(ann.call(t, "files__list_directory", map[string]any{"path": none}), "Access denied")
		})
	})
	t.Run("a client leaves", func(t *testing.T) {
		before := processes(t, 4)
		if err := bob.session.Close(); err != nil {
			t.Fatal(err)
		}
		after := processes(t, 3)
		if len(before) == len(after) || !slices.Contains(after, head) {
			t.Errorf("processes %v before, %v after; %d is the catalog session's", before, after, head)
		}
		ann.expect(t, "files__read_text_file", note(ann), "a note of ann")
	})
}

// running returns the node processes with a mark in their command line.
func running(t *testing.T, mark string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")) // the process may have ended
		program, arguments, _ := strings.Cut(string(line), "\x00")
		if filepath.Base(program) == "node" && strings.Contains(arguments, mark) {
			found = append(found, pid)
		}
	}
	return found
}

// TestState checks which clients share a server's state: server-sequential-thinking counts the received thoughts.
func TestState(t *testing.T) {
	command := rig.ThinkingCommand(t)
	server := func(more rig.Config) rig.Config {
		more["command"], more["args"] = command[0], command[1:]
		return more
	}
	gateway := rig.StartOne(t, "clients share the state of a server process, and each replica starts its own", rig.Config{"upstreams": rig.Upstreams{
		"all": server(rig.Config{}), "own": server(rig.Config{"session": "per-client"}),
		"each": server(rig.Config{"session": "per-principal"}), "one": server(rig.Config{"session": "per-client", "max_sessions": 1}),
	}})
	think := func(p *legacyClient, upstream string) string {
		return p.call(t, upstream+"__sequentialthinking", map[string]any{
			"thought": "I think", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1,
		})
	}
	ann, bob := connectLegacy(t, gateway.URL, "ann"), connectLegacy(t, gateway.URL, "bob")
	modern := connectUser(t, client.Modern, gateway.URL)
	for _, tt := range []struct {
		upstream string
		who      *legacyClient
		want     int
	}{
		{"all", ann, 1}, {"all", bob, 2}, {"all", ann, 3},
		{"own", ann, 1}, {"own", bob, 1}, {"own", ann, 2},
		{"each", ann, 1}, {"each", bob, 2}, // without authentication there is one principal
		{"one", ann, 1},
	} {
		if got, want := think(tt.who, tt.upstream), fmt.Sprintf(`"thoughtHistoryLength": %d`, tt.want); !strings.Contains(got, want) {
			t.Errorf("%s at %s: %s, want %s", tt.who.name, tt.upstream, got, want)
		}
	}
	thought := map[string]any{"thought": "I think", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}
	for upstream, want := range map[string]int{"own": 1, "each": 3} { // a client without a session uses its principal's session
		modern.call(t, upstream+"__sequentialthinking", thought, fmt.Sprintf(`"thoughtHistoryLength": %d`, want))
	}
	if got := think(bob, "one"); !strings.Contains(got, "raise max_sessions of the upstream") {
		t.Errorf("one client too many: %s", got)
	}
	if err := ann.session.Close(); err != nil {
		t.Fatal(err)
	}
	if got := think(bob, "one"); !strings.Contains(got, `"thoughtHistoryLength": 1`) {
		t.Errorf("after the other client has left: %s", got)
	}
}

// TestSerialize has a server on stdio ask several clients at once. Its questions do not name the call that they belong to.
func TestSerialize(t *testing.T) {
	command := rig.EverythingCommand(t)
	gateway := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{
		"everything": {"command": command[0], "args": command[1:], "ask_calls": "serialize"},
	}})
	var all sync.WaitGroup
	for n := range 4 {
		p := connectLegacy(t, gateway.URL, fmt.Sprint("client-", n), "elicitation")
		all.Go(func() {
			for range 5 {
				p.expect(t, "everything__trigger-elicitation-request", nil, "- Name: "+p.name+"\n")
			}
		})
	}
	all.Wait()
}
