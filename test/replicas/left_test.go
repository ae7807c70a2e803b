package replicas

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// open returns the ids of the sessions at a server.
func (s *server) open() []string {
	var out []string
	for session := range s.mcp.Sessions() {
		out = append(out, session.ID())
	}
	return out
}

// startImpatient runs one more replica, which takes a silent one for dead soon, with a legacy upstream and the key of the others.
func startImpatient(t *testing.T, addr, url string) {
	t.Helper()
	text := fmt.Sprintf("bridge: {keys: [%q]}\nstore: {kind: redis, url: 'redis://%s'}\nupstreams: {legacy: {url: %q}}\n", leftKey, addr, url)
	cfg, err := config.Parse("gateway.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen, cfg.Admin.Listen, cfg.StateDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	g, err := gateway.New(gateway.Options{Config: cfg, Version: "test", Logger: zap.NewNop(), DeadAfter: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

const leftKey = "abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789"

// A replica that is paused for longer than its sign of life lasts keeps the sessions that it has open at servers, and its calls end as always.
func TestSessionsOfPausedReplica(t *testing.T) {
	addr, _ := rig.StartRedis(t)
	r, servers := startAll(t, redisAt(addr))
	w, s := &withoutStore{r: r, servers: servers}, servers["legacy"]
	w.servedEverywhere(t, w.session(t))
	seeEachOther(t, r)
	before := s.open()
	signal(t, r.Gateways[0].Process.PID(), syscall.SIGSTOP)
	see(t, r.Gateways[1:], replicas-1)
	signal(t, r.Gateways[0].Process.PID(), syscall.SIGCONT)
	seeEachOther(t, r)
	w.servedEverywhere(t, w.session(t))
	for _, id := range before {
		if !slices.Contains(s.open(), id) {
			t.Error("a session was ended while its replica was paused")
		}
	}
}

// The sessions that a killed replica had open at a server are ended by another one, and no others.
func TestSessionsOfKilledReplicaAreEnded(t *testing.T) {
	addr, _ := rig.StartRedis(t)
	r, servers := startAll(t, redisAt(addr), rig.Config{"bridge": rig.Config{"keys": []string{leftKey}}})
	w, s := &withoutStore{r: r, servers: servers}, servers["legacy"]
	startImpatient(t, addr, s.url)
	for range 3 {
		w.servedEverywhere(t, w.session(t)) // replicas open sessions for clients that can be asked
	}
	c := at(t, r.Gateways[1].URL, raw.Legacy)
	if _, err := c.Call(t.Context(), "tools/call", `{"name":"legacy__record","arguments":{"token":"before"}}`); err != nil {
		t.Fatal(err)
	}
	// booked checks that the store has the open sessions, of so many replicas.
	booked := func(replicas int) error {
		keys, n := keysOf(t, addr, "open-sessions"), 0
		for _, key := range keys {
			n += len(fieldsOf(t, addr, key))
		}
		if len(keys) != replicas || n != len(s.open()) {
			return fmt.Errorf("%d sessions are open, and %d of %d replicas are in the store", len(s.open()), n, len(keys))
		}
		return nil
	}
	polltest.UntilNil(t, "the sessions are in the store", func() error { return booked(replicas + 1) })
	before := len(s.open())
	r.Gateways[0].Process.Kill()
	polltest.UntilNil(t, "the sessions of the killed replica are ended", func() error { return booked(replicas) })
	t.Logf("%d sessions were open when a replica was killed, %d afterwards", before, len(s.open()))
	if len(s.open()) == before {
		t.Error("no session was ended")
	}
	kept := s.open()
	if _, err := c.Call(t.Context(), "tools/call", `{"name":"legacy__record","arguments":{"token":"after"}}`); err != nil {
		t.Error(err)
	}
	for _, id := range kept {
		if !slices.Contains(s.open(), id) {
			t.Error("a session of a living replica was ended")
		}
	}
}
