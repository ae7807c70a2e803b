package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// newIdleGateway returns a gateway that does not run: the test sets the snapshots of its
// upstreams.
func newIdleGateway(t *testing.T, yaml string) *Gateway {
	t.Helper()
	cfg, err := config.Parse("gateway.yaml", []byte(yaml), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	cfg.StateDir = t.TempDir()
	g, err := New(Options{Config: cfg, Version: "test", Logger: zap.NewNop(), Stdio: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// setSnapshot delivers a snapshot of an upstream.
func (g *Gateway) setSnapshot(s connector.Snapshot) {
	connectionObserver{g, g.generation.Load().entry(s.Name).conn}.Changed(s)
}

// tools returns the answer to tools/list.
func tools(t *testing.T, g *Gateway) string {
	t.Helper()
	res, err := g.router.Handle(t.Context(), &call.Call{
		Method: wire.MethodToolsList, Principal: call.Anonymous, Client: &call.Client{Key: "c", Revision: wire.Rev20251125},
	})
	if err != nil {
		return err.Error()
	}
	return string(res.Raw)
}

// The tools of an upstream that has just crashed stay listed until an attempt to reach it
// has failed: hosts would lose them at every crash. Readiness and calls report its real
// state meanwhile.
func TestCatalogOutlivesACrash(t *testing.T) {
	g := newIdleGateway(t, "upstreams: {files: {command: cat, required: true}, other: {command: cat}}")
	say := func(s connector.Snapshot) string {
		g.setSnapshot(s)
		g.rebuild(t.Context(), time.Now())
		return tools(t, g)
	}
	up := connector.Snapshot{
		State: connector.Ready, Settled: true, Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"tools":{}}`), Since: time.Now(),
		Catalog: connector.Catalog{Tools: []wire.Raw{wire.Raw(`{"name":"read","inputSchema":{"type":"object"}}`)}},
	}
	up.Name = "other"
	g.setSnapshot(up)
	up.Name = "files"
	const (
		item    = `"files__read"`
		missing = `"mcpgateway/unavailable":[{"upstream":"files"`
	)
	if got := say(up); !strings.Contains(got, item) || strings.Contains(got, missing) {
		t.Fatalf("up: %s", got)
	}
	lost := up
	lost.State, lost.Reason, lost.Lost, lost.Since = connector.Down, "the server ended", true, time.Now()
	if got := say(lost); !strings.Contains(got, item) || strings.Contains(got, missing) {
		t.Errorf("just lost: %s", got)
	}
	if waits := g.waitingFor(reasonForAll); len(waits) != 1 || !strings.Contains(waits[0], "files") {
		t.Errorf("readiness waits for %q, want the required upstream", waits)
	}
	gone := lost
	gone.Lost = false
	if got := say(gone); strings.Contains(got, item) || !strings.Contains(got, missing) {
		t.Errorf("an attempt has failed: %s", got)
	}
	if got := say(lost); !strings.Contains(got, item) {
		t.Errorf("lost once more: %s", got)
	}
	never := connector.Snapshot{Name: "files", State: connector.Down, Settled: true, Lost: true, Reason: "the server ended", Since: time.Now()}
	if got := say(never); strings.Contains(got, item) || !strings.Contains(got, missing) {
		t.Errorf("lost before the first attempt: %s", got)
	}
}

// The log has the results of the first attempts before any list is answered.
func TestStartedIsLogged(t *testing.T) {
	g := newIdleGateway(t, "startup_wait: 10s\nupstreams: {slow: {command: cat}, dead: {command: cat}, up: {command: cat}}")
	core, logs := observer.New(zap.InfoLevel)
	g.log = zap.New(core)
	started := func() []observer.LoggedEntry { return logs.FilterMessage("upstreams have started").All() }
	answered := make(chan []observer.LoggedEntry, 1)
	go func() {
		tools(t, g)
		answered <- started()
	}()
	g.setSnapshot(connector.Snapshot{Name: "up", State: connector.Ready, Settled: true, Revision: wire.Rev20251125, Since: time.Now()})
	g.setSnapshot(connector.Snapshot{Name: "dead", State: connector.Down, Settled: true, Reason: "gone", Since: time.Now()})
	g.rebuild(t.Context(), time.Now())
	if lines := started(); len(lines) > 0 {
		t.Errorf("the log while an upstream is starting: %v", lines)
	}
	g.rebuild(t.Context(), time.Now().Add(time.Minute))
	lines := <-answered
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	want := map[string]any{"ready": []any{"up"}, "idle": []any{}, "failed": []any{"dead"}, "starting": []any{"slow"}}
	if diff := cmp.Diff(want, lines[0].ContextMap()); diff != "" {
		t.Error(diff)
	}
}
