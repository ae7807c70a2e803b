package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/replica"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// countingServer is a legacy upstream that counts the calls of each session, and knows its log level. Its
// tool "stay" runs until the server ends.
type countingServer struct {
	mu      sync.Mutex
	calls   map[string]int
	levels  map[string]string
	trace   string // in the headers of the last request
	staying chan struct{}
	end     chan struct{}
}

func newCountingServer(t *testing.T) (*countingServer, string) {
	s := &countingServer{calls: map[string]int{}, levels: map[string]string{}, staying: make(chan struct{}, 1), end: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /legacy", s.serve)
	mux.HandleFunc("DELETE /legacy", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		close(s.end)
		server.CloseClientConnections()
		server.Close()
	})
	return s, server.URL
}

func (s *countingServer) serve(w http.ResponseWriter, r *http.Request) {
	var m wireMessage
	_ = json.NewDecoder(r.Body).Decode(&m)
	session := r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	s.trace = r.Header.Get("Traceparent")
	if m.Method == "initialize" {
		session = fmt.Sprintf("s%d", len(s.calls)+1)
		s.calls[session] = 0
	}
	switch m.Method {
	case "tools/call":
		s.calls[session]++
	case "logging/setLevel":
		s.levels[session] = m.Params.Level
	}
	count := fmt.Sprintf("call %d of %s", s.calls[session], session)
	if level := s.levels[session]; level != "" {
		count += " with the level " + level
	}
	s.mu.Unlock()
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", session)
		reply(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}`)
	case m.Method == "tools/list":
		reply(w, m.ID, `{"tools":[{"name":"count","inputSchema":{"type":"object"}},{"name":"stay","inputSchema":{"type":"object"}}]}`)
	case m.Params.Name == "stay":
		s.staying <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-s.end:
		}
	default:
		reply(w, m.ID, `{`+said(count)+`}`)
	}
}

// countingReplicas are two replicas in front of a countingServer with a session for each client.
func countingReplicas(t *testing.T) (s *countingServer, a, b *attackTest, dying *deadStore) {
	shared := new(storetest.Memory)
	dying = &deadStore{Store: shared}
	s, a, b = countingReplicasOn(t, config.SessionPerClient, dying, shared)
	return s, a, b, dying
}

// countingReplicasOn are countingReplicas whose store is seen differently by each.
func countingReplicasOn(t *testing.T, session config.Session, ofA, ofB store.Store) (s *countingServer, a, b *attackTest) {
	s, url := newCountingServer(t)
	change := func(c *config.Config) {
		c.Upstreams = c.Upstreams[:1] // without the modern one
		c.Upstreams[0].Session = session
	}
	return s, startAttackOn(t, url, sharedKeys, ofA, change), startAttackOn(t, url, sharedKeys, ofB, change)
}

// setLevel sets the log level of a session.
func (a *attackTest) setLevel(session, level string) {
	a.t.Helper()
	if status, _, text := a.legacy("ann", session, `{"jsonrpc":"2.0","id":7,"method":"logging/setLevel","params":{"level":"`+level+`"}}`); status != http.StatusOK {
		a.t.Fatalf("logging/setLevel: %d %s", status, text)
	}
}

// withoutNotes is a store in which notes to all replicas get lost.
type withoutNotes struct{ store.Store }

func (s withoutNotes) Append(ctx context.Context, key store.Key, keep int, ttl time.Duration, entries ...[]byte) error {
	if key.Kind == "notes" {
		return nil
	}
	return s.Store.Append(ctx, key, keep, ttl, entries...)
}

// The level that a client has set holds for its next call, also at another replica that has its session with
// the server, and in a session of its principal at a replica that does not know the session of the client.
func TestLogLevelAmongReplicas(t *testing.T) {
	for _, sharing := range []config.Session{config.SessionPerClient, config.SessionPerPrincipal} {
		t.Run(string(sharing), func(t *testing.T) {
			kept := withoutNotes{new(storetest.Memory)}
			_, a, b := countingReplicasOn(t, sharing, kept, kept)
			session := a.session("ann")
			other := b.session("ann")
			for _, r := range []*attackTest{a, b, a} { // a opens the session with the server
				if got := r.callTool(session, "count"); strings.Contains(got, "level") {
					t.Fatalf("before the client has set a level: %s", got)
				}
			}
			polltest.Until(t, "the replicas see each other", func() bool {
				return len(a.g.sharing.replicas.Others()) == 1 && len(b.g.sharing.replicas.Others()) == 1
			})
			b.setLevel(session, "warning")
			if got := a.callTool(session, "count"); !strings.Contains(got, "with the level warning") {
				t.Errorf("a call of a client that has set its level at another replica: %s", got)
			}
			if sharing == config.SessionPerClient {
				return
			}
			b.setLevel(other, "notice")
			if got := b.callTool(other, "count"); !strings.Contains(got, "with the level notice") {
				t.Errorf("a call in a session that another replica does not know: %s", got)
			}
		})
	}
}

func (a *attackTest) callTool(session, name string) string {
	_, _, text := a.legacy("ann", session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"legacy__`+name+`","arguments":{}}}`)
	return text
}

// All replicas use the one session that a client has with an upstream.
func TestSessionsOfClientsAmongReplicas(t *testing.T) {
	_, a, b, _ := countingReplicas(t)
	session := a.session("ann")
	b.session("ann") // waits until b is ready
	first := a.callTool(session, "count")
	for i, r := range []*attackTest{b, a, b} {
		got := r.callTool(session, "count")
		if want := strings.Replace(first, "call 1 of", fmt.Sprintf("call %d of", i+2), 1); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	other := b.session("ann")
	if got := b.callTool(other, "count"); !strings.Contains(got, "call 1 of") {
		t.Errorf("another session of the client gets %s", got)
	}
	if got := a.callTool(other, "count"); !strings.Contains(got, "call 2 of") {
		t.Errorf("another session of the client gets %s at the other replica", got)
	}
}

// The line of a call that is forwarded to another replica names that replica, and has the times of the stages there. The server
// gets the trace context of the call.
func TestTimesOfForwardedCalls(t *testing.T) {
	kept := new(storetest.Memory)
	s, url := newCountingServer(t)
	all := [2]*attackTest{}
	for i := range all {
		all[i] = startAttackOn(t, url, sharedKeys, kept, func(c *config.Config) {
			c.Upstreams = c.Upstreams[:1] // without the modern one
			c.Upstreams[0].Session, c.Telemetry.Slow = config.SessionPerClient, time.Nanosecond
			c.Telemetry.OTLP = config.OTLP{Endpoint: url, Protocol: config.OTLPHTTP, Sample: 1, Signals: []config.Signal{config.SignalTraces}}
		})
	}
	a, b := all[0], all[1]
	session := a.session("ann")
	b.session("ann") // waits until b is ready
	a.callTool(session, "count")
	b.callTool(session, "count")
	line := func(r *attackTest) map[string]any {
		lines := r.logs.FilterMessage("slow call").FilterField(zap.String("item", "legacy__count")).All()
		if len(lines) != 1 {
			t.Fatalf("%d lines, want 1", len(lines))
		}
		return lines[0].ContextMap()
	}
	if at := line(a); at["replica"] != nil || at["replica_ms"] != nil || at["upstream_ms"] == nil {
		t.Errorf("a call at the replica with the session: %v", at)
	}
	at := line(b)
	if at["replica"] != a.g.replica || at["replica_ms"] == nil || at["upstream_ms"] == nil {
		t.Fatalf("a call that was forwarded to %s: %v", a.g.replica, at)
	}
	if all, server := at["replica_ms"].(float64), at["upstream_ms"].(float64); server > all {
		t.Errorf("%v ms at the server are not part of %v ms at the other replica", server, all)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, _ := at["trace_id"].(string); id == "" || !strings.Contains(s.trace, id) {
		t.Errorf("the server has the trace context %q, want one of the trace %q", s.trace, id)
	}
}

// The line of a call that is made where it arrives, because the replica with the session has ended, names no replica.
func TestLineOfCallAfterTheHolderHasEnded(t *testing.T) {
	for name, messages := range map[string][]string{
		"tools/call":          {`"method":"tools/call","params":{"name":"legacy__touch","arguments":{}}`},
		"resources/subscribe": {`"method":"resources/subscribe","params":{"uri":"legacy+x:r"}`, `"method":"resources/unsubscribe","params":{"uri":"legacy+x:r"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a replica is seen as ended after seconds
			shared := new(storetest.Memory)
			dying := &deadStore{Store: shared}
			_, url := newWatchedServer(t)
			change := func(c *config.Config) {
				c.Upstreams = c.Upstreams[:1] // without the modern one
				c.Upstreams[0].Session, c.Telemetry.Slow = config.SessionPerClient, time.Nanosecond
			}
			a, b := startAttackOn(t, url, sharedKeys, dying, change), startAttackOn(t, url, sharedKeys, shared, change)
			session := a.session("ann")
			b.session("ann") // waits until b is ready
			a.callTool(session, "touch")
			send := func() {
				for _, m := range messages {
					if _, _, text := b.legacy("ann", session, `{"jsonrpc":"2.0","id":7,`+m+`}`); !strings.Contains(text, `"result"`) {
						t.Fatalf("%s: %s", m, text)
					}
				}
			}
			send()
			dying.dead.Store(true)
			polltest.Until(t, "the replica is seen as ended", func() bool { return len(b.g.sharing.replicas.Others()) == 0 })
			send()
			if n := b.logs.FilterMessage("the replica that held a session with an upstream has ended").Len(); n != 1 {
				t.Fatalf("%d lines about the end of the replica, want 1", n)
			}
			lines := b.logs.FilterMessage("slow call").FilterField(zap.String("method", name)).All()
			if len(lines) != 2 {
				t.Fatalf("%d lines, want 2", len(lines))
			}
			if got := lines[0].ContextMap(); got["replica"] != a.g.replica {
				t.Errorf("the call that was forwarded to %s: %v", a.g.replica, got)
			}
			if got := lines[1].ContextMap(); got["replica"] != nil || got["replica_ms"] != nil {
				t.Errorf("the call that ran here: %v", got)
			}
		})
	}
}

// When the replica that holds a session dies, a call that runs ends with an error and is not repeated; the
// next call opens a new session where it arrives.
func TestHolderOfSessionDies(t *testing.T) {
	s, a, b, dying := countingReplicas(t)
	session := a.session("ann")
	b.session("ann")
	first := a.callTool(session, "count")
	result := make(chan string, 1)
	go func() { result <- b.callTool(session, "stay") }()
	<-s.staying
	dying.dead.Store(true)
	if got := <-result; !strings.Contains(got, "the server may have run the call") || !strings.Contains(got, `"retryable":false`) {
		t.Errorf("the call that runs gets %s", got)
	}
	polltest.Until(t, "the replica is seen as ended", func() bool { return len(b.g.sharing.replicas.Others()) == 0 })
	if got := b.callTool(session, "count"); !strings.Contains(got, "call 1 of") || got == first {
		t.Errorf("the next call gets %s", got)
	}
	if n := b.logs.FilterMessage("the replica that held a session with an upstream has ended").Len(); n != 1 {
		t.Errorf("%d lines in the log, want 1", n)
	}
}

// A replica that drains gives up the sessions in which no call runs: another replica takes them over at once. Of the others a client learns when to try
// again.
func TestHolderOfSessionDrains(t *testing.T) {
	kept := new(storetest.Memory)
	s, a, b := countingReplicasOn(t, config.SessionPerClient, kept, kept)
	session, busy := a.session("ann"), a.session("ann")
	b.session("ann") // waits until b is ready
	for _, id := range []string{session, busy} {
		a.callTool(id, "count")
		if got := b.callTool(id, "count"); !strings.Contains(got, "call 2 of") { // b knows the holder
			t.Fatalf("before the drain: %s", got)
		}
	}
	var ends sync.WaitGroup
	ends.Go(func() { a.callTool(busy, "stay") })
	<-s.staying
	ends.Go(a.stop)
	polltest.Until(t, "the replica takes no more calls of others", func() bool {
		_, err := b.g.sharing.replicas.Call(t.Context(), a.g.replica, kindRetry, nil, nil)
		return errors.Is(err, replica.ErrEnding)
	})
	if got := b.callTool(session, "count"); !strings.Contains(got, "call 1 of") {
		t.Errorf("a session in which no call runs: %s", got)
	}
	if got := b.callTool(busy, "count"); !strings.Contains(got, "a call still runs in the session") || !strings.Contains(got, `"retryable":true,"retryAfter":1`) {
		t.Errorf("a session in which a call runs: %s", got)
	}
	a.g.stopCalls()
	ends.Wait()
	if got := b.callTool(busy, "count"); !strings.Contains(got, "call 1 of") {
		t.Errorf("after the drain: %s", got)
	}
}
