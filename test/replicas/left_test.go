package replicas

import (
	"fmt"
	"slices"
	"testing"

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

// The sessions that a killed replica had open at a server are ended by another one, and no others.
func TestSessionsOfKilledReplicaAreEnded(t *testing.T) {
	addr, _ := rig.StartRedis(t)
	r, servers := startAll(t, redisAt(addr))
	w, s := &withoutStore{r: r, servers: servers}, servers["legacy"]
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
	polltest.UntilNil(t, "the sessions are in the store", func() error { return booked(replicas) })
	before := len(s.open())
	r.Gateways[0].Process.Kill()
	polltest.UntilNil(t, "the sessions of the killed replica are ended", func() error { return booked(replicas - 1) })
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
