package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/store"
)

// countingServer is a legacy upstream that counts the calls of each session. Its tool "stay" runs until the
// server ends.
type countingServer struct {
	mu      sync.Mutex
	calls   map[string]int
	staying chan struct{}
	end     chan struct{}
}

func newCountingServer(t *testing.T) (*countingServer, string) {
	s := &countingServer{calls: map[string]int{}, staying: make(chan struct{}, 1), end: make(chan struct{})}
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
	if m.Method == "initialize" {
		session = fmt.Sprintf("s%d", len(s.calls)+1)
		s.calls[session] = 0
	}
	if m.Method == "tools/call" {
		s.calls[session]++
	}
	count := fmt.Sprintf("call %d of %s", s.calls[session], session)
	s.mu.Unlock()
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", session)
		reply(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
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
	s, url := newCountingServer(t)
	shared := new(store.Memory)
	dying = &deadStore{Store: shared}
	perClient := func(c *config.Config) {
		c.Upstreams = c.Upstreams[:1] // without the modern one
		c.Upstreams[0].Session = config.SessionPerClient
	}
	return s, startAttackOn(t, url, sharedKeys, dying, perClient), startAttackOn(t, url, sharedKeys, shared, perClient), dying
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
