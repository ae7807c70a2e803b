package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/store/storetest"
)

// watchedServer is a legacy upstream that keeps the subscriptions of each session. Its tool "touch" updates
// the resource if the session has subscribed to it.
type watchedServer struct {
	mu         sync.Mutex
	opened     int
	subscribed map[string]bool // sessions
	ended      []string        // sessions that have unsubscribed
	streams    map[string]chan string
	end        chan struct{}
}

func newWatchedServer(t *testing.T) (*watchedServer, string) {
	s := &watchedServer{subscribed: map[string]bool{}, streams: map[string]chan string{}, end: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /legacy", s.serve)
	mux.HandleFunc("GET /legacy", s.stream)
	mux.HandleFunc("DELETE /legacy", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		close(s.end)
		server.CloseClientConnections()
		server.Close()
	})
	return s, server.URL
}

// of returns what is sent on the stream of a session. The caller holds mu.
func (s *watchedServer) of(session string) chan string {
	if s.streams[session] == nil {
		s.streams[session] = make(chan string, 100)
	}
	return s.streams[session]
}

func (s *watchedServer) stream(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	events := s.of(r.Header.Get("Mcp-Session-Id"))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case e := <-events:
			_, _ = fmt.Fprintf(w, "data: %s\n\n", e)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		case <-s.end:
			return
		}
	}
}

func (s *watchedServer) serve(w http.ResponseWriter, r *http.Request) {
	var m wireMessage
	_ = json.NewDecoder(r.Body).Decode(&m)
	session := r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		s.opened++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", s.opened))
		reply(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}`)
	case m.Method == "tools/list":
		reply(w, m.ID, `{"tools":[{"name":"touch","inputSchema":{"type":"object"}}]}`)
	case m.Method == "resources/list":
		reply(w, m.ID, `{"resources":[{"name":"r","uri":"x:r"}]}`)
	case m.Method == "resources/subscribe":
		s.subscribed[session] = true
		reply(w, m.ID, `{}`)
	case m.Method == "resources/unsubscribe":
		s.ended = append(s.ended, session)
		reply(w, m.ID, `{}`)
	case m.Method == "tools/call":
		if s.subscribed[session] {
			s.of(session) <- `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:r"}}`
		}
		reply(w, m.ID, `{`+said("touched in "+session)+`}`)
	default:
		reply(w, m.ID, `{}`)
	}
}

// sessions returns the sessions that have subscribed, and those that have unsubscribed.
func (s *watchedServer) sessions() (subscribed, ended []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session := range s.subscribed {
		subscribed = append(subscribed, session)
	}
	slices.Sort(subscribed)
	return subscribed, slices.Clone(s.ended)
}

// updates returns the URIs of the updates on a client's stream, as they come.
func updates(body io.Reader) <-chan string {
	got := make(chan string, 100)
	go func() {
		defer close(got)
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.Contains(data, "notifications/resources/updated") {
				_, uri, _ := strings.Cut(data, `"uri":"`)
				uri, _, _ = strings.Cut(uri, `"`)
				got <- uri
			}
		}
	}()
	return got
}

// A client subscribes, and has its stream, at a replica that does not hold its session with the upstream.
// The one that holds it subscribes there; when it ends, the other one subscribes in a session of its own.
func TestSubscriptionInASessionHeldElsewhere(t *testing.T) {
	s, url := newWatchedServer(t)
	shared := new(storetest.Memory)
	dying := &deadStore{Store: shared}
	perClient := func(c *config.Config) {
		c.Upstreams = c.Upstreams[:1] // without the modern one
		c.Upstreams[0].Session = config.SessionPerClient
	}
	a, b := startAttackOn(t, url, sharedKeys, dying, perClient), startAttackOn(t, url, sharedKeys, shared, perClient)
	session := a.session("ann")
	b.session("ann") // waits until b is ready
	first := a.callTool(session, "touch")
	stream := b.listening(t.Context(), http.MethodGet, "ann", "", "Mcp-Session-Id", session)
	defer stream.Body.Close()
	got := updates(stream.Body)
	about := func(what string) {
		if _, _, text := b.legacy("ann", session, `{"jsonrpc":"2.0","id":7,"method":"resources/`+what+`","params":{"uri":"legacy+x:r"}}`); !strings.Contains(text, `"result"`) {
			t.Fatalf("%s: %s", what, text)
		}
	}
	about("subscribe")
	if subscribed, _ := s.sessions(); len(subscribed) != 1 || !strings.Contains(first, "touched in "+subscribed[0]) {
		t.Errorf("the sessions %q have subscribed; %s", subscribed, first)
	}
	a.callTool(session, "touch")
	if uri := <-got; uri != "legacy+x:r" {
		t.Errorf("an update of %q", uri)
	}
	about("unsubscribe")
	polltest.Until(t, "the holder has unsubscribed", func() bool { _, ended := s.sessions(); return len(ended) == 1 })
	about("subscribe")
	b.callTool(session, "touch")
	if uri := <-got; uri != "legacy+x:r" {
		t.Errorf("an update of %q", uri)
	}

	dying.dead.Store(true) // the holder ends
	if uri := <-got; uri != "legacy+x:r" {
		t.Errorf("what may have been missed counts as an update of %q", uri)
	}
	if subscribed, _ := s.sessions(); len(subscribed) != 2 {
		t.Errorf("the sessions %q have subscribed", subscribed)
	}
	b.callTool(session, "touch")
	if uri := <-got; uri != "legacy+x:r" {
		t.Errorf("an update of %q", uri)
	}
}
