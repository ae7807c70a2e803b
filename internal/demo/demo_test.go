package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestServersAreFitForTheGateway(t *testing.T) {
	owners := make(map[string][]string) // tool → servers
	var names []string
	for _, s := range Servers() {
		names = append(names, s.Name)
		if !regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`).MatchString(s.Name) {
			t.Errorf("%q is no upstream name", s.Name)
		}
		if s.Title == "" || s.Description == "" {
			t.Errorf("%s lacks a title or description", s.Name)
		}
		session := connect(t, s, legacyRevision, nil)
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools.Tools {
			owners[tool.Name] = append(owners[tool.Name], s.Name)
		}
	}
	if diff := cmp.Diff([]string{"cafe", "clock", "notes"}, names); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"clock", "notes"}, owners["search"]); diff != "" {
		t.Errorf("the clash of search (-want +got):\n%s", diff)
	}
}

// wire sends and receives the lines of one session.
type wire struct {
	t    *testing.T
	in   io.WriteCloser
	out  io.ReadCloser
	wait func() error

	lines *bufio.Scanner
}

func startWire(ctx context.Context, t *testing.T, name string) *wire {
	in, out, wait := find(t, name).Start(ctx)
	return &wire{t: t, in: in, out: out, wait: wait, lines: bufio.NewScanner(out)}
}

func (w *wire) send(line string) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		w.t.Fatalf("writing %s: %v", line, err)
	}
}

// answer has the members of a message that tests read.
type answer struct {
	Method string
	Result struct {
		ProtocolVersion   string
		SupportedVersions []string
		ResultType        string
		Tools             []struct{ Name string }
	}
	Error struct {
		Code    int
		Message string
	}
}

func (w *wire) receive() (a answer) {
	w.t.Helper()
	if !w.lines.Scan() {
		w.t.Fatalf("no line: %v", w.lines.Err())
	}
	if err := json.Unmarshal(w.lines.Bytes(), &a); err != nil {
		w.t.Fatalf("%s: %v", w.lines.Text(), err)
	}
	return a
}

// close ends the session by closing its input.
func (w *wire) close() {
	w.t.Helper()
	w.in.Close()
	if rest, err := io.ReadAll(w.out); err != nil || len(rest) != 0 {
		w.t.Errorf("after the input's end: %q, %v; want nothing", rest, err)
	}
	if err := w.wait(); err != nil {
		w.t.Errorf("wait: %v", err)
	}
}

const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func modern(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, method)
}

func TestLegacyEraOnTheWire(t *testing.T) {
	w := startWire(t.Context(), t, "notes")
	w.send(initialize)
	if got := w.receive().Result.ProtocolVersion; got != "2025-06-18" {
		t.Errorf("negotiated %q, want 2025-06-18", got)
	}
	w.send(initialized)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if got := w.receive(); len(got.Result.Tools) == 0 || got.Result.ResultType != "" {
		t.Errorf("tools/list answered %+v, want tools and no resultType", got)
	}
	w.close()
}

func TestModernEraOnTheWire(t *testing.T) {
	w := startWire(t.Context(), t, "notes")
	w.send(modern(1, "server/discover"))
	if got := w.receive().Result.SupportedVersions; len(got) == 0 || got[0] != firstModern {
		t.Errorf("supported versions %v, want %s first", got, firstModern)
	}
	w.send(modern(2, "tools/list"))
	if got := w.receive(); len(got.Result.Tools) == 0 || got.Result.ResultType != "complete" {
		t.Errorf("tools/list answered %+v, want tools and resultType complete", got)
	}
	w.close()
}

// A session has one era: a gateway that chooses legacy after a modern probe must start
// another session.
func TestInitializeAfterDiscoverIsRefused(t *testing.T) {
	w := startWire(t.Context(), t, "notes")
	w.send(modern(1, "server/discover"))
	w.receive()
	w.send(initialize)
	if got := w.receive().Error.Message; !strings.Contains(got, "duplicate") {
		t.Errorf("initialize answered %q, want the SDK's refusal of a duplicate", got)
	}
	w.close()
}

func TestClosingTheInputCancelsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWire(t.Context(), t, "clock")
		w.send(initialize)
		w.receive()
		w.send(initialized)
		w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"countdown","arguments":{"seconds":60},"_meta":{"progressToken":"p"}}}`)
		w.receive() // progress shows that it runs
		begin := time.Now()
		w.in.Close()
		if _, err := io.Copy(io.Discard, w.out); err != nil {
			t.Errorf("reading to the end: %v", err)
		}
		if err := w.wait(); err != nil {
			t.Errorf("wait: %v", err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the session lived on for %s", took)
		}
	})
}

func TestContextEndsASessionWhoseOutputNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := startWire(ctx, t, "notes")
		w.send(initialize)
		synctest.Wait() // the server is blocked in writing the answer
		cancel()
		if err := w.wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v, want %v", err, context.Canceled)
		}
		if _, err := w.in.Write([]byte("{}\n")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("writing afterwards: %v, want %v", err, io.ErrClosedPipe)
		}
		if _, err := io.Copy(io.Discard, w.out); err != nil {
			t.Errorf("reading afterwards: %v, want the end", err)
		}
	})
}

func TestClosedOutputEndsTheSession(t *testing.T) {
	w := startWire(t.Context(), t, "notes")
	w.out.Close()
	w.send(initialize)
	if err := w.wait(); err != nil {
		t.Errorf("wait: %v, want nil, since the peer ended the session", err)
	}
}

func TestGarbageEndsTheSession(t *testing.T) {
	w := startWire(t.Context(), t, "notes")
	w.send("this is not JSON")
	if err := w.wait(); err == nil {
		t.Error("wait: nil, want the reason")
	}
}

func TestSessionsShareStateAndSetsDoNot(t *testing.T) {
	notes := find(t, "notes")
	first := connect(t, notes, legacyRevision, nil)
	second := connect(t, notes, firstModern, nil)
	stranger := connect(t, find(t, "notes"), legacyRevision, nil)

	call(t, first, &mcp.CallToolParams{Name: "add", Arguments: map[string]any{"title": "Shared", "body": "b"}})
	if _, err := second.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note:///shared"}); err != nil {
		t.Errorf("reading in another session: %v", err)
	}
	if _, err := stranger.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note:///shared"}); err == nil {
		t.Error("another set of servers sees the note")
	}
}
