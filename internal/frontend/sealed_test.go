package frontend

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// replica is one of several servers with the same clients, whose senders say in headers who they
// are.
type replica struct {
	*Server
	t       *testing.T
	handler *clientRecorder
	logs    *observer.ObservedLogs
}

func sealKey(b byte) []byte { return bytes.Repeat([]byte{b}, bridge.KeySize) }

// newReplica starts a replica with the keys, and without any if there are none.
func newReplica(t *testing.T, change func(*Options), keys ...byte) *replica {
	core, logs := observer.New(zap.DebugLevel)
	r := &replica{t: t, handler: &clientRecorder{}, logs: logs}
	o := Options{Handler: r.handler, Info: wire.Raw(`{}`), Logger: zap.New(core), Authenticate: func(r *http.Request) (*call.Principal, error) {
		return &call.Principal{Subject: r.Header.Get("X-Api-Key"), Profile: r.Header.Get("X-Profile"), AuthMethod: "api-key"}, nil
	}}
	for _, k := range keys {
		o.Sessions.Keys = append(o.Sessions.Keys, sealKey(k))
	}
	if change != nil {
		change(&o)
	}
	r.Server = New(o)
	return r
}

// from sends a message of a principal. The headers are pairs of name and value.
func (r *replica) from(verb, who, body string, headers ...string) *httptest.ResponseRecorder {
	r.t.Helper()
	req := request(r.t, strings.NewReader(body))
	req.Method = verb
	req.Header.Set("X-Api-Key", who)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return do(r.Server, req)
}

const listBody = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// initializeWith returns an initialize with these members of its params.
func initializeWith(revision wire.Revision, members string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q%s}}`, revision, members)
}

// open opens a session for ann, with further headers.
func (r *replica) open(body string, headers ...string) string {
	r.t.Helper()
	w := r.from(http.MethodPost, "ann", body, headers...)
	id := w.Header().Get(wire.HeaderSession)
	if w.Code != http.StatusOK || id == "" {
		r.t.Fatalf("no session: %d %s", w.Code, w.Body)
	}
	return id
}

// stream opens a GET stream of ann's session, and returns what writes it, and its end.
func (r *replica) stream(session, lastEvent string) *recorder {
	req := request(r.t, nil)
	req.Method = http.MethodGet
	req.Header.Set("X-Api-Key", "ann")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set(wire.HeaderSession, session)
	if lastEvent != "" {
		req.Header.Set(wire.HeaderLastEvent, lastEvent)
	}
	w := &recorder{header: make(http.Header), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		r.ServeHTTP(w, req)
	}()
	synctest.Wait()
	return w
}

// Every replica with the key serves a session, and knows its client as the one that opened it does.
func TestAnyReplicaServesASession(t *testing.T) {
	for _, revision := range []wire.Revision{wire.Rev20241105, wire.Rev20250326, wire.Rev20250618, wire.Rev20251125} {
		a, b, c := newReplica(t, nil, 1, 2), newReplica(t, nil, 1, 2), newReplica(t, nil, 2, 1) // keys rotate
		id := a.open(initializeWith(revision, `,"capabilities":{"elicitation":{}},"clientInfo":{"name":"host","version":"1"}`))
		for _, r := range []*replica{a, b, c, b, a} {
			if w := r.from(http.MethodPost, "ann", listBody, wire.HeaderSession, id); w.Code != http.StatusOK {
				t.Errorf("%s: %d %s", revision, w.Code, w.Body)
			}
			if w := r.from(http.MethodPost, "ann", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, wire.HeaderSession, id); w.Code != http.StatusAccepted {
				t.Errorf("%s: %d %s", revision, w.Code, w.Body)
			}
			known := r.handler.clients[len(r.handler.clients)-1]
			if known.Key != id || known.Sessionless || known.Revision != revision || string(known.Info) != `{"name":"host","version":"1"}` || string(known.Capabilities) != `{"elicitation":{}}` {
				t.Errorf("%s: the client is %+v", revision, known)
			}
			if w := r.from(http.MethodPost, "ann", listBody, wire.HeaderSession, id, wire.HeaderVersion, "2024-10-07"); w.Code != http.StatusBadRequest {
				t.Errorf("%s: another revision: %d %s", revision, w.Code, w.Body)
			}
			w := r.from(http.MethodPost, "ann", "["+listBody+"]", wire.HeaderSession, id)
			if want := revision == wire.Rev20250326; (w.Code == http.StatusOK) != want {
				t.Errorf("%s: a batch: %d %s", revision, w.Code, w.Body)
			}
			if n := testutil.ToFloat64(r.options.Metrics.Sessions.WithLabelValues("legacy")); n != 1 {
				t.Errorf("%s: %v sessions", revision, n)
			}
		}
	}
}

// A stream hears what its replica hears.
func TestStreamAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, nil, 1), newReplica(t, nil, 1)
		id := a.open(initializeWith(wire.Rev20250618, `,"capabilities":{}`))
		w := b.stream(id, "")
		b.ListChanged(true, false, false)
		synctest.Wait()
		if got := eventsOf(t, w.written()); w.code() != http.StatusOK || len(got) != 1 || !strings.Contains(string(got[0].Data), wire.NoteToolsChanged) {
			t.Errorf("%d, %s", w.code(), w.written())
		}
		b.Drain()
		<-w.done
	})
}

// A client whose replica is gone resumes at another one. It gets a new stream, and learns that it
// may have missed changes of lists. The stream of a call cannot go on.
func TestResumptionAtAnotherReplica(t *testing.T) {
	for _, isNew := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { testResumption(t, isNew) })
	}
}

// testResumption resumes streams at a replica that runs already, or that has been started since.
func testResumption(t *testing.T, isNew bool) {
	b := newReplica(t, nil, 1)
	a := newReplica(t, func(o *Options) { o.Handler = countingHandler{} }, 1)
	id := a.open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
	first := a.stream(id, "")
	events := eventsOf(t, first.written())
	calls := eventsOf(t, a.from(http.MethodPost, "ann", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":1}}}`,
		wire.HeaderSession, id).Body.String())
	if len(events) != 1 || len(calls) == 0 {
		t.Fatalf("%d events, and %d of the call", len(events), len(calls))
	}
	unknown := a.from(http.MethodGet, "ann", "", wire.HeaderSession, id, wire.HeaderLastEvent, "X-1", "Accept", "text/event-stream")
	if unknown.Code != http.StatusBadRequest {
		t.Errorf("an unknown event at the replica of the session: %d %s", unknown.Code, unknown.Body)
	}
	a.Stop()
	<-first.done
	time.Sleep(time.Second)

	if isNew {
		b = newReplica(t, nil, 1)
	}
	for name, event := range map[string]string{"of a call": calls[0].ID, "without form": "7", "of no number": "X-0"} {
		if w := b.from(http.MethodGet, "ann", "", wire.HeaderSession, id, wire.HeaderLastEvent, event, "Accept", "text/event-stream"); w.Code != http.StatusBadRequest {
			t.Errorf("an event %s: %d %s", name, w.Code, w.Body)
		}
	}
	second := b.stream(id, events[0].ID)
	var told []string
	for _, e := range eventsOf(t, second.written()) {
		if m, err := wire.Parse(e.Data, wire.Limits{Depth: 10}); err == nil {
			told = append(told, m.Method)
		}
	}
	slices.Sort(told)
	if want := []string{wire.NotePromptsChanged, wire.NoteResourcesChanged, wire.NoteToolsChanged}; second.code() != http.StatusOK || !slices.Equal(told, want) {
		t.Errorf("%d, %q, want %q", second.code(), told, want)
	}
	b.Drain()
	<-second.done
}

// A refused session looks like one that never was. The log says why.
func TestRefusedSealedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newReplica(t, nil, 1)
		body := initializeWith(wire.LatestLegacy, `,"capabilities":{}`)
		id, coding, ended := a.open(body), a.open(body, "X-Profile", "coding"), a.open(body)
		unsealed := newReplica(t, nil).open(body)
		foreign := newReplica(t, nil, 2).open(body)
		long := a.open(initializeWith(wire.LatestLegacy, `,"capabilities":{"experimental":{"x":"`+strings.Repeat("x", 4000)+`"}}`))
		raw, err := base64.RawURLEncoding.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)/2] ^= 1

		b := newReplica(t, nil, 1)
		if w := b.from(http.MethodDelete, "ann", "", wire.HeaderSession, ended); w.Code != http.StatusNoContent {
			t.Fatalf("DELETE: %d %s", w.Code, w.Body)
		}
		const gone = "there is no such session: it has ended, or never was"
		refused := func(name, who, session, reason string, headers ...string) {
			t.Helper()
			for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				b.logs.TakeAll()
				headers := append(slices.Clip(headers), wire.HeaderSession, session, "Accept", "application/json, text/event-stream")
				w := b.from(verb, who, listBody, headers...)
				lines := b.logs.FilterMessage("session id refused").TakeAll()
				headers[len(headers)-3] = "never-was"
				never := b.from(verb, who, listBody, headers...)
				if w.Code != http.StatusNotFound || never.Code != w.Code || withoutRequestIDs(t, w.Body.String()) != withoutRequestIDs(t, never.Body.String()) {
					t.Errorf("%s, %s: %d %s; one that never was: %d %s", name, verb, w.Code, w.Body, never.Code, never.Body)
				}
				if len(lines) != 1 || fmt.Sprint(lines[0].ContextMap()["reason"]) != reason {
					t.Errorf("%s, %s: the log has %v, want %q", name, verb, lines, reason)
				}
				time.Sleep(time.Minute) // lines of the log are limited
			}
		}
		refused("another principal's", "bob", id, "the session belongs to another principal")
		refused("another principal's in a profile", "bob", coding, "the session belongs to another principal")
		refused("in a profile", "ann", id, "the session belongs to another profile", "X-Profile", "coding")
		refused("of a profile", "ann", coding, "the session belongs to another profile")
		refused("of a profile, in another", "ann", coding, "the session belongs to another profile", "X-Profile", "ops")
		refused("ended", "ann", ended, gone)
		refused("truncated", "ann", id[:len(id)-8], gone)
		refused("changed", "ann", base64.RawURLEncoding.EncodeToString(raw), gone)
		refused("longer", "ann", id+strings.Repeat("A", 8000), gone)
		refused("not sealed", "ann", unsealed, gone)
		refused("of a client with too many capabilities", "ann", long, gone)
		refused("sealed with other keys", "ann", foreign, "the session id is sealed with a key that this replica does not have")
		if w := a.from(http.MethodPost, "ann", listBody, wire.HeaderSession, long); w.Code != http.StatusOK {
			t.Errorf("the replica that opened it: %d %s", w.Code, w.Body)
		}
		if w := b.from(http.MethodPost, "ann", listBody, wire.HeaderSession, id); w.Code != http.StatusOK {
			t.Errorf("the session has become invalid: %d %s", w.Code, w.Body)
		}
		time.Sleep(7 * 24 * time.Hour)
		b.sessions.Expire(time.Now())
		refused("expired", "ann", id, "the session id has expired")
	})
}

// Without keys a session ends when it is idle, and with its server. With keys it goes on.
func TestIdleSessions(t *testing.T) {
	for keys, want := range map[string]int{"": http.StatusNotFound, "\x01": http.StatusOK} {
		synctest.Test(t, func(t *testing.T) {
			var ended []string
			r := newReplica(t, func(o *Options) { o.Events.SessionEnded = func(id string) { ended = append(ended, id) } }, []byte(keys)...)
			id := r.open(initializeWith(wire.LatestLegacy, `,"capabilities":{}`))
			time.Sleep(time.Hour)
			r.sessions.Expire(time.Now())
			if len(ended) != 1 || ended[0] != id {
				t.Errorf("ended %q", ended)
			}
			if w := r.from(http.MethodPost, "ann", listBody, wire.HeaderSession, id); w.Code != want {
				t.Errorf("with keys %q: %d %s", keys, w.Code, w.Body)
			}
		})
	}
}

// A session that ended with its principal's credentials, or with its profile, does not come back.
func TestRevokedSessionsAreNotAdopted(t *testing.T) {
	r := newReplica(t, nil, 1)
	body := initializeWith(wire.LatestLegacy, `,"capabilities":{}`)
	id, coding := r.open(body), r.open(body, "X-Profile", "coding")
	r.EndProfiles(func(profile string) bool { return profile == "coding" })
	for session, want := range map[string]int{id: http.StatusOK, coding: http.StatusNotFound} {
		profile := map[bool]string{true: "coding"}[session == coding]
		if w := r.from(http.MethodPost, "ann", listBody, wire.HeaderSession, session, "X-Profile", profile); w.Code != want {
			t.Errorf("profile %q: %d %s", profile, w.Code, w.Body)
		}
	}
	r.Revoke(func(p *call.Principal) bool { return p.Subject == "ann" })
	if w := r.from(http.MethodPost, "ann", listBody, wire.HeaderSession, id); w.Code != http.StatusNotFound {
		t.Errorf("revoked: %d %s", w.Code, w.Body)
	}
}

// A replica that has no room for a session, or stops, does not say that the session is gone: the
// client would begin anew.
func TestBusyReplicaKeepsSessions(t *testing.T) {
	a, full := newReplica(t, nil, 1), newReplica(t, func(o *Options) { o.Limits.MaxSessions = 2 }, 1)
	body := initializeWith(wire.LatestLegacy, `,"capabilities":{}`)
	id := a.open(body)
	held := full.open(body)
	expect := func(r *replica, verb, who, session string, want int) {
		t.Helper()
		w := r.from(verb, who, listBody, wire.HeaderSession, session, "Accept", "application/json, text/event-stream")
		if w.Code != want || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %s, want %d", verb, w.Code, w.Body, want)
		}
	}
	for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		expect(full, verb, "ann", id, http.StatusTooManyRequests)
	}
	if w := full.from(http.MethodPost, "ann", listBody, wire.HeaderSession, held); w.Code != http.StatusOK {
		t.Errorf("the session that it has: %d %s", w.Code, w.Body)
	}
	a.Stop()
	for _, verb := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		expect(a, verb, "ann", id, http.StatusServiceUnavailable)
		expect(a, verb, "ann", held, http.StatusServiceUnavailable)
	}
}
