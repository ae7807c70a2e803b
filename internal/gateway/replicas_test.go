package gateway

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/ruleset"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/internal/wire"
)

// startReplicas runs demo gateways with one key and one store until the test ends. Each has a function that
// ends it early.
func startReplicas(t *testing.T, n int) (all []*Gateway, ends []func()) {
	t.Helper()
	return startReplicasOf(t, n, true, "upstreams: {none: {url: 'http://127.0.0.1:1/mcp'}}")
}

// startReplicasOf is startReplicas with a configuration.
func startReplicasOf(t *testing.T, n int, demo bool, text string) (all []*Gateway, ends []func()) {
	t.Helper()
	kept := store.Sealed(new(storetest.Memory), [][]byte{[]byte(strings.Repeat("k", 32))}, func(kind string, err error) { t.Errorf("%s: %v", kind, err) })
	return startReplicasOn(t, n, demo, text, kept)
}

// startReplicasOn is startReplicasOf with a store.
func startReplicasOn(t *testing.T, n int, demo bool, text string, kept store.Store) (all []*Gateway, ends []func()) {
	t.Helper()
	for range n {
		cfg, err := config.Parse("gateway.yaml", []byte("bridge: {keys: [a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=]}\n"+text), os.LookupEnv, ruleset.CheckConditions())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Listen, cfg.Admin.Listen, cfg.StateDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
		g, err := New(Options{Config: cfg, Demo: demo, Version: "test", Logger: zap.NewNop(), Store: kept})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		ended := false
		end := func() {
			if cancel(); !ended {
				ended = true
				if err := <-done; err != nil {
					t.Errorf("Run: %v", err)
				}
			}
		}
		t.Cleanup(end)
		all, ends = append(all, g), append(ends, end)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return all, ends
}

// slowToShow is a store that shows a replica to the others only after a client had time to be served.
type slowToShow struct {
	store.Store
	served <-chan struct{} // closed when a client has got an answer
	shown  atomic.Bool
}

func (s *slowToShow) PutNew(ctx context.Context, key store.Key, value []byte, ttl time.Duration) (bool, error) {
	select {
	case <-s.served:
	case <-time.After(200 * time.Millisecond):
	}
	s.shown.Store(true)
	return s.Store.PutNew(ctx, key, value, ttl)
}

// TestReplicaIsShownFirst checks that a replica serves nobody before others can see it: they would take it
// for one that has ended, and refuse what belongs to its calls.
func TestReplicaIsShownFirst(t *testing.T) {
	served := make(chan struct{})
	kept := &slowToShow{Store: new(storetest.Memory), served: served}
	all, _ := startReplicasOn(t, 1, true, "upstreams: {none: {url: 'http://127.0.0.1:1/mcp'}}", kept)
	resp, err := http.Get("http://" + all[0].Addr() + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	shown := kept.shown.Load()
	close(served)
	if !shown {
		t.Error("a client was served before the replica was shown to others")
	}
}

// openStream opens the stream of a session at a gateway and returns its events.
func openStream(t *testing.T, g *Gateway, session, lastEvent string) (*wire.SSEReader, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.Addr()+pathMCP, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	if lastEvent != "" {
		req.Header.Set("Last-Event-ID", lastEvent)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET: %s", resp.Status)
	}
	end := func() {
		cancel()
		resp.Body.Close()
	}
	t.Cleanup(end)
	return wire.NewSSEReader(resp.Body, 1<<20), end
}

func next(t *testing.T, r *wire.SSEReader) wire.Event {
	t.Helper()
	e, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A session goes from replica to replica: its stream moves, and when it ends at one, it ends at all.
func TestSessionAmongReplicas(t *testing.T) {
	all, ends := startReplicas(t, 3)
	a, b, c := all[0], all[1], all[2]
	resp, _ := post(t, a, "", initialize)
	session := resp.Header.Get("Mcp-Session-Id")
	first, endFirst := openStream(t, a, session, "")
	primed := next(t, first)
	second, _ := openStream(t, b, session, primed.ID)
	moved := next(t, second)
	if _, err := first.Next(); err == nil {
		t.Error("the stream is at two replicas")
	}
	endFirst()
	ends[1]() // its stream is copied
	third, _ := openStream(t, c, session, moved.ID)
	if again := next(t, third); again.ID == "" || again.ID == moved.ID {
		t.Errorf("the third stream begins with %+v", again)
	}
	polltest.Until(t, "the replicas see each other", func() bool { return slices.Contains(a.sharing.replicas.Others(), c.replica) })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+a.Addr()+pathMCP, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", session)
	deleted, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	deleted.Body.Close()
	if deleted.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", deleted.Status)
	}
	if resp, _ := post(t, c, session, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); resp.StatusCode != http.StatusNotFound {
		t.Errorf("after DELETE, the other replica answers %s", resp.Status)
	}
}
