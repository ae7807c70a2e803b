package upstream

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// startSharedSessions runs shared sessions with a server over streamable HTTP.
func startSharedSessions(t *testing.T, s *script, change ...func(*Options)) *sessionsRig {
	t.Helper()
	s.caps = `{"logging":{}}` // no lists
	h := &sessionsRig{watch: &originWatcher{watcher: newWatcher()}}
	o := *testOptions(t, serve(t, s).URL, change...)
	o.Observer = h.watch
	h.run(t, o)
	return h
}

// declaredTo returns the capabilities that each session but the first declared.
func declaredTo(s *script) []string {
	var out []string
	for _, m := range s.got(wire.MethodInitialize)[1:] {
		out = append(out, string(wire.ValueOf(m.params).Get("capabilities").Raw()))
	}
	return out
}

// Over streamable HTTP, the gateway declares the capabilities of a call's client to
// the server.
func TestSharedSessionsByCapabilities(t *testing.T) {
	s := &script{}
	h := startSharedSessions(t, s, func(o *Options) { o.Era = wire.EraLegacy })
	for n, capabilities := range []string{
		`{"elicitation":{}}`,
		`{"elicitation":{"form":{}},"roots":{"listChanged":true},"sampling":null}`, // equal to the previous set
		`{"sampling":{"context":{}},"elicitation":{"url":{}}}`,
		`{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`, // equal to the catalog session
		`{}`,
		`{"extensions":{"com.example/b":{},"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"n":1}}}`,
		`{"extensions":{"io.modelcontextprotocol/ui":{"n":1}}}`, // equal to the previous set
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
	} {
		if got := h.call(t.Context(), legacyCall(fmt.Sprint("c", n), capabilities, &upstreamtest.Peer{})); got != doneResult {
			t.Fatalf("%s: %s", capabilities, got)
		}
	}
	want := []string{
		`{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}},"sampling":{}}`, `{}`, `{"extensions":{"io.modelcontextprotocol/ui":{"n":1}}}`,
	}
	if diff := cmp.Diff(want, declaredTo(s)); diff != "" {
		t.Errorf("declared in sessions after the first (-want +got):\n%s", diff)
	}
	for n := range 8 {
		h.EndClient(fmt.Sprint("c", n))
	}
	if len(h.setNames) > 0 {
		t.Errorf("%d entries of ended clients are left", len(h.setNames))
	}
}

// The number of shared sessions is bounded. Other clients then use the session of
// all clients. An idle session is freed after a while.
func TestSharedSessionsAreBounded(t *testing.T) {
	s := &script{}
	h := startSharedSessions(t, s, func(o *Options) { o.Era, o.SessionIdle = wire.EraLegacy, time.Hour })
	nth := func(n int) *call.Call {
		return legacyCall(fmt.Sprint("c", n), fmt.Sprintf(`{"extensions":{"io.modelcontextprotocol/ui":{"x":%d}}}`, n), &upstreamtest.Peer{})
	}
	for n := range maxSets {
		if name, err := h.Session(t.Context(), nth(n)); err != nil || name == "" {
			t.Fatalf("session %d is %q, %v", n, name, err)
		}
	}
	if name, err := h.Session(t.Context(), nth(maxSets)); err != nil || name != "" {
		t.Errorf("session above the limit is %q, %v; want the session of all clients", name, err)
	}
	if got := h.call(t.Context(), nth(maxSets)); got != doneResult {
		t.Errorf("call above the limit: %s", got)
	}
	h.mu.Lock()
	for _, b := range h.open {
		b.used = b.used.Add(-2 * time.Hour)
	}
	h.mu.Unlock()
	if name, err := h.Session(t.Context(), nth(maxSets)); err != nil || name == "" {
		t.Errorf("session after the idle time is %q, %v", name, err)
	}
}

// A modern server has no sessions, for every sharing mode.
func TestNoSessionsWithModernServer(t *testing.T) {
	for _, sharing := range []Sharing{Shared, PerClient, PerPrincipal} {
		h := startSharedSessions(t, &script{modern: true}, func(o *Options) { o.Sharing = sharing })
		for _, c := range []*call.Call{legacyCall("c", `{}`, &upstreamtest.Peer{}), modernCallBy("carl")} {
			if name, err := h.Session(t.Context(), c); name != "" || err != nil {
				t.Errorf("%d: session %q, %v", sharing, name, err)
			}
		}
	}
}

// The gateway ends a client's session at the server when the client's session ends.
func TestSessionOverHTTPEnds(t *testing.T) {
	s := &script{on: map[string]func(http.ResponseWriter, *http.Request, wire.Message){}}
	var opened atomic.Int64
	s.on[wire.MethodInitialize] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		w.Header().Set(wire.HeaderSession, fmt.Sprint("s", opened.Add(1)))
		answerJSON(w, m, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"script","version":"1"}}`)
	}
	h := startSharedSessions(t, s, func(o *Options) { o.Era, o.Sharing = wire.EraLegacy, PerClient })
	for _, key := range []string{"ann", "bob", "ann"} {
		h.call(t.Context(), legacyCall(key, `{}`, &upstreamtest.Peer{}))
	}
	var used []string
	for _, m := range s.got(wire.MethodToolsCall) {
		used = append(used, m.header.Get(wire.HeaderSession))
	}
	if diff := cmp.Diff([]string{"s2", "s3", "s2"}, used); diff != "" {
		t.Errorf("sessions of the calls (-want +got):\n%s", diff)
	}
	h.EndClient("ann")
	polltest.Until(t, "the session is ended at the server", func() bool {
		ended := s.got(http.MethodDelete)
		return len(ended) == 1 && ended[0].header.Get(wire.HeaderSession) == "s2"
	})
}

// List changes in the session of some clients reach the catalog. If the server has
// forgotten that session, the gateway checks the catalog session too.
func TestSharedSessionsInformTheCatalogSession(t *testing.T) {
	const caps = `{"tools":{"listChanged":true}}`
	s := &script{}
	var lists, opened atomic.Int64
	var restarted atomic.Bool // the server has forgotten its sessions
	s.on = map[string]func(http.ResponseWriter, *http.Request, wire.Message){
		wire.MethodInitialize: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
			w.Header().Set(wire.HeaderSession, fmt.Sprint("s", opened.Add(1)))
			answerJSON(w, m, `{"protocolVersion":"2025-11-25","capabilities":`+caps+`,"serverInfo":{"name":"script","version":"1"}}`)
		},
		wire.MethodToolsList: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
			answerJSON(w, m, fmt.Sprintf(`{"tools":[{"name":"t%d","inputSchema":{"type":"object"}}]}`, lists.Add(1)))
		},
		wire.MethodToolsCall: func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			if restarted.Load() && r.Header.Get(wire.HeaderSession) <= "s2" {
				http.Error(w, "session not found", http.StatusNotFound)
				return
			}
			send := streaming(w)
			send(`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			send(`data: {"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		},
		wire.MethodPing: func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			if restarted.Load() && r.Header.Get(wire.HeaderSession) == "s1" {
				http.Error(w, "session not found", http.StatusNotFound)
				return
			}
			answerJSON(w, m, `{}`)
		},
	}
	h := &sessionsRig{watch: &originWatcher{watcher: newWatcher()}}
	o := *testOptions(t, serve(t, s).URL, func(o *Options) { o.Era = wire.EraLegacy })
	o.Observer = h.watch
	h.run(t, o)
	if got := h.call(t.Context(), legacyCall("ann", `{}`, &upstreamtest.Peer{})); got != `{}` {
		t.Fatalf("the call: %s", got)
	}
	h.watch.wait(t, func(s connector.Snapshot) bool {
		return s.Changes.Tools == 1 && len(s.Catalog.Tools) == 1 && string(s.Catalog.Tools[0][9:11]) == "t2"
	})
	if got := h.watch.noted(); len(got) > 0 {
		t.Errorf("the client got the notifications %q", got)
	}
	restarted.Store(true)
	if got := h.call(t.Context(), legacyCall("ann", `{}`, &upstreamtest.Peer{})); got != `{}` {
		t.Fatalf("the call after the restart: %s", got)
	}
	polltest.Until(t, "the head looks and opens its session anew, too", func() bool { return opened.Load() == 4 })
}

// With a server of both eras, legacy clients have sessions and modern clients need
// none. A server that lists a legacy revision and refuses initialize has no
// sessions.
func TestSessionsWithServerOfBothEras(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		s := &script{on: map[string]on{wire.MethodDiscover: discovered(`["2026-07-28","2025-11-25"]`)}}
		if refuses {
			s.on[wire.MethodInitialize] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
				answerError(w, http.StatusBadRequest, m.ID.String(), `{"code":-32602,"message":"no"}`)
			}
		}
		for _, sharing := range []Sharing{Shared, PerClient} {
			h := startSharedSessions(t, s, func(o *Options) { o.Sharing = sharing })
			if name, err := h.Session(t.Context(), modernCallBy("carl")); name != "" || err != nil {
				t.Errorf("a modern client: session %q, %v", name, err)
			}
			for range 2 {
				if got := h.call(t.Context(), legacyCall("ann", `{}`, &upstreamtest.Peer{})); got != doneResult {
					t.Errorf("a legacy client: %s", got)
				}
			}
			if got, want := len(h.open), map[bool]int{false: 1, true: 0}[refuses]; got != want {
				t.Errorf("sharing %d, refuses %v: %d sessions beside the catalog session, want %d", sharing, refuses, got, want)
			}
		}
	}
}

// A server that opens a single session serves all clients in that session.
func TestServerWithOneSession(t *testing.T) {
	var opened atomic.Int64
	s := &script{on: map[string]on{}}
	s.on[wire.MethodInitialize] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		if opened.Add(1) > 1 {
			answerError(w, http.StatusBadRequest, m.ID.String(), `{"code":-32600,"message":"Invalid Request: Server already initialized"}`)
			return
		}
		answerJSON(w, m, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"script","version":"1"}}`)
	}
	h := startSharedSessions(t, s, func(o *Options) { o.Era = wire.EraLegacy })
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 3 {
				if got := h.call(t.Context(), legacyCall(fmt.Sprint("c", n), `{}`, &upstreamtest.Peer{})); got != doneResult {
					t.Errorf("a call: %s", got)
				}
			}
		})
	}
	all.Wait()
	tried := opened.Load()
	h.call(t.Context(), legacyCall("another", `{"sampling":{}}`, &upstreamtest.Peer{}))
	if len(h.open) > 0 || opened.Load() != tried {
		t.Errorf("%d sessions beside the catalog session; %d attempts, then %d", len(h.open), tried, opened.Load())
	}
}
