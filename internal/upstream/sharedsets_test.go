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
	"mcpgateway/internal/wire"
)

// sets runs shared sessions with a server over streamable HTTP.
func sets(t *testing.T, s *script, change ...func(*Options)) *house {
	t.Helper()
	s.caps = `{"logging":{}}` // it lists nothing
	h := &house{watch: &originWatcher{watcher: newWatcher()}}
	o := *testOptions(t, serve(t, s).URL, change...)
	o.Observer = h.watch
	h.run(t, o)
	return h
}

// declaredTo returns what each session but the first declared.
func declaredTo(s *script) []string {
	var out []string
	for _, m := range s.got(wire.MethodInitialize)[1:] {
		out = append(out, string(wire.ValueOf(m.params).Get("capabilities").Raw()))
	}
	return out
}

// Over streamable HTTP the server learns what the client of a call can do.
func TestSetsOfAbilities(t *testing.T) {
	s := &script{}
	h := sets(t, s, func(o *Options) { o.Era = wire.EraLegacy })
	for n, capabilities := range []string{
		`{"elicitation":{}}`,
		`{"elicitation":{"form":{}},"roots":{"listChanged":true},"sampling":null}`, // the same
		`{"sampling":{"context":{}},"elicitation":{"url":{}}}`,
		`{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`, // what the head declares
		`{}`,
		`{"extensions":{"com.example/b":{},"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"n":1}}}`,
		`{"extensions":{"io.modelcontextprotocol/ui":{"n":1}}}`, // the same
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
	} {
		if got := h.call(t.Context(), by(fmt.Sprint("c", n), capabilities, &peer{})); got != doneResult {
			t.Fatalf("%s: %s", capabilities, got)
		}
	}
	want := []string{
		`{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}},"sampling":{}}`, `{}`, `{"extensions":{"io.modelcontextprotocol/ui":{"n":1}}}`,
	}
	if diff := cmp.Diff(want, declaredTo(s)); diff != "" {
		t.Errorf("declared in sessions beside the first (-want +got):\n%s", diff)
	}
	for n := range 8 {
		h.EndClient(fmt.Sprint("c", n))
	}
	if len(h.setNames) > 0 {
		t.Errorf("%d clients that are gone are remembered", len(h.setNames))
	}
}

// There is a bound; who finds no place is served by the session of everybody. An
// unused place is free again after a while.
func TestSetsAreBounded(t *testing.T) {
	s := &script{}
	h := sets(t, s, func(o *Options) { o.Era, o.SessionIdle = wire.EraLegacy, time.Hour })
	nth := func(n int) *call.Call {
		return by(fmt.Sprint("c", n), fmt.Sprintf(`{"extensions":{"io.modelcontextprotocol/ui":{"x":%d}}}`, n), &peer{})
	}
	for n := range maxSets {
		if name, err := h.Session(t.Context(), nth(n)); err != nil || name == "" {
			t.Fatalf("session %d is %q, %v", n, name, err)
		}
	}
	if name, err := h.Session(t.Context(), nth(maxSets)); err != nil || name != "" {
		t.Errorf("one more is %q, %v; want the session of everybody", name, err)
	}
	if got := h.call(t.Context(), nth(maxSets)); got != doneResult {
		t.Errorf("a call without a place: %s", got)
	}
	h.mu.Lock()
	for _, b := range h.open {
		b.used = b.used.Add(-2 * time.Hour)
	}
	h.mu.Unlock()
	if name, err := h.Session(t.Context(), nth(maxSets)); err != nil || name == "" {
		t.Errorf("after a while it is %q, %v", name, err)
	}
}

// A modern server needs no sessions, whatever is configured.
func TestNoSessionsWithModernServer(t *testing.T) {
	for _, sharing := range []Sharing{Shared, PerClient, PerPrincipal} {
		h := sets(t, &script{modern: true}, func(o *Options) { o.Sharing = sharing })
		for _, c := range []*call.Call{by("c", `{}`, &peer{}), byModern("carl")} {
			if name, err := h.Session(t.Context(), c); name != "" || err != nil {
				t.Errorf("%d: session %q, %v", sharing, name, err)
			}
		}
	}
}

// A session of a client's own is ended at the server with it.
func TestSessionOverHTTPEnds(t *testing.T) {
	s := &script{on: map[string]func(http.ResponseWriter, *http.Request, wire.Message){}}
	var opened atomic.Int64
	s.on[wire.MethodInitialize] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		w.Header().Set(wire.HeaderSession, fmt.Sprint("s", opened.Add(1)))
		answerJSON(w, m, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"script","version":"1"}}`)
	}
	h := sets(t, s, func(o *Options) { o.Era, o.Sharing = wire.EraLegacy, PerClient })
	for _, key := range []string{"ann", "bob", "ann"} {
		h.call(t.Context(), by(key, `{}`, &peer{}))
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

// What a server tells only to the session of some clients, the catalog hears of;
// and when it has forgotten that session, so may it have forgotten the first.
func TestSetsKeepTheHeadInformed(t *testing.T) {
	const caps = `{"tools":{"listChanged":true}}`
	s := &script{}
	var lists, opened atomic.Int64
	var restarted atomic.Bool // the server has forgotten its first sessions
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
			say := streaming(w)
			say(`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			say(`data: {"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		},
		wire.MethodPing: func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			if restarted.Load() && r.Header.Get(wire.HeaderSession) == "s1" {
				http.Error(w, "session not found", http.StatusNotFound)
				return
			}
			answerJSON(w, m, `{}`)
		},
	}
	h := &house{watch: &originWatcher{watcher: newWatcher()}}
	o := *testOptions(t, serve(t, s).URL, func(o *Options) { o.Era = wire.EraLegacy })
	o.Observer = h.watch
	h.run(t, o)
	if got := h.call(t.Context(), by("ann", `{}`, &peer{})); got != `{}` {
		t.Fatalf("the call: %s", got)
	}
	h.watch.wait(t, func(s connector.Snapshot) bool {
		return s.Changes.Tools == 1 && len(s.Catalog.Tools) == 1 && string(s.Catalog.Tools[0][9:11]) == "t2"
	})
	if got := h.watch.noted(); len(got) > 0 {
		t.Errorf("the client alone was told %q", got)
	}
	restarted.Store(true)
	if got := h.call(t.Context(), by("ann", `{}`, &peer{})); got != `{}` {
		t.Fatalf("the call after the restart: %s", got)
	}
	polltest.Until(t, "the head looks and opens its session anew, too", func() bool { return opened.Load() == 4 })
}

// With a server that speaks both eras legacy clients have sessions, and modern ones
// need none. One that lists a legacy revision and refuses initialize has none.
func TestSessionsWithServerOfBothEras(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		s := &script{on: map[string]on{wire.MethodDiscover: discovered(`["2026-07-28","2025-11-25"]`)}}
		if refuses {
			s.on[wire.MethodInitialize] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
				answerError(w, http.StatusBadRequest, m.ID.String(), `{"code":-32602,"message":"no"}`)
			}
		}
		for _, sharing := range []Sharing{Shared, PerClient} {
			h := sets(t, s, func(o *Options) { o.Sharing = sharing })
			if name, err := h.Session(t.Context(), byModern("carl")); name != "" || err != nil {
				t.Errorf("a modern client: session %q, %v", name, err)
			}
			for range 2 {
				if got := h.call(t.Context(), by("ann", `{}`, &peer{})); got != doneResult {
					t.Errorf("a legacy client: %s", got)
				}
			}
			if got, want := len(h.open), map[bool]int{false: 1, true: 0}[refuses]; got != want {
				t.Errorf("sharing %d, refuses %v: %d sessions beside the head, want %d", sharing, refuses, got, want)
			}
		}
	}
}

// A server that opens one session only serves all its clients in that one.
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
	h := sets(t, s, func(o *Options) { o.Era = wire.EraLegacy })
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 3 {
				if got := h.call(t.Context(), by(fmt.Sprint("c", n), `{}`, &peer{})); got != doneResult {
					t.Errorf("a call: %s", got)
				}
			}
		})
	}
	all.Wait()
	tried := opened.Load()
	h.call(t.Context(), by("another", `{"sampling":{}}`, &peer{}))
	if len(h.open) > 0 || opened.Load() != tried {
		t.Errorf("%d sessions beside the head; %d attempts, then %d", len(h.open), tried, opened.Load())
	}
}
