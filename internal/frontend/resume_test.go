package frontend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

// counting notifies as often as it is told, with pauses between, and then
// answers with the number and as much more as it is told.
type counting struct{}

func (counting) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	if c.Method == wire.MethodDiscover {
		return own(`{"capabilities":{}}`)
	}
	args := wire.ValueOf(c.Params).Get("arguments")
	n, _ := args.Get("n").Int()
	size, _ := args.Get("size").Int()
	message := strings.Repeat("x", int(size)) // to quote megabytes takes a busy machine longer than all else here
	for i := range n {
		time.Sleep(time.Millisecond) // of the bubble's clock
		c.Back.Notify(wire.NoteProgress, wire.Raw(fmt.Sprintf(`{"progress":%d,"message":"%s"}`, i, message)))
	}
	if pad, _ := args.Get("pad").Int(); pad > 0 {
		return own(fmt.Sprintf(`{"n":%d,"pad":"%s"}`, n, strings.Repeat("x", int(pad))))
	}
	return own(fmt.Sprintf(`{"n":%d}`, n))
}

// host is a legacy client with its session.
type host struct {
	t       *testing.T
	s       *Server
	session string
}

func newHost(t *testing.T, s *Server) *host {
	w := do(s, request(t, strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)))
	return &host{t, s, w.Header().Get(wire.HeaderSession)}
}

// begin sends one request and returns what will hold the answer.
func (h *host) begin(method, body, lastEvent string) *recorder {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, method, "http://gateway.test/mcp", strings.NewReader(body))
	if err != nil {
		h.t.Error(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(wire.HeaderSession, h.session)
	if lastEvent != "" {
		r.Header.Set(wire.HeaderLastEvent, lastEvent)
	}
	w := &recorder{header: make(http.Header), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(w.done)
		h.s.ServeHTTP(w, r)
	}()
	return w
}

// written returns a copy of the body so far.
func (w *recorder) written() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.String()
}

func (w *recorder) code() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// eventsOf returns the events of a body, of which the last may be cut off.
func eventsOf(t *testing.T, body string) []wire.Event {
	var out []wire.Event
	for r := wire.NewSSEReader(strings.NewReader(body), 1<<24); ; {
		ev, err := r.Next()
		if err != nil {
			return out
		}
		out = append(out, ev)
	}
}

// However often connections break, and wherever in their bytes, each of many
// calls at once gets its notifications once and in order, and then its answer.
func TestRandomDisconnects(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			s := New(Options{Handler: counting{}, Info: wire.Raw(`{}`)})
			h := newHost(t, s)
			var wg sync.WaitGroup
			for id := range 4 {
				random := rand.New(rand.NewPCG(seed, uint64(id)))
				wg.Go(func() { h.followThrough(id, random) })
			}
			wg.Wait()
		})
	}
}

// followThrough makes a call over connections that break at random.
func (h *host) followThrough(id int, random *rand.Rand) {
	n := random.IntN(100) + 1 // all calls together stay within the bound of the log
	w := h.begin(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x","arguments":{"n":%d,"size":%d}}}`, id, n, random.IntN(5000)), "")
	var want, got []string
	for i := range n {
		want = append(want, fmt.Sprint("progress ", i))
	}
	want = append(want, fmt.Sprintf(`answer {"n":%d}`, n))
	ids := make(map[string]bool)
	for last := ""; ; {
		wait := time.Duration(random.IntN(40)+2) * time.Millisecond
		select {
		case <-w.done:
		case <-time.After(wait):
		}
		body := w.written()
		whole := w.ended() && random.IntN(2) == 0
		w.cancel()
		if w.code() == http.StatusNoContent {
			h.t.Errorf("call %d: the stream is complete after %q", id, got)
			return
		}
		if !whole { // the rest is lost on the way
			body = body[:random.IntN(len(body)+1)]
		}
		for _, ev := range eventsOf(h.t, body) {
			if ev.HasID {
				if ids[ev.ID] {
					h.t.Errorf("call %d: event %s came twice", id, ev.ID)
				}
				ids[ev.ID], last = true, ev.ID
			}
			if m, err := wire.Parse(ev.Data, wire.Limits{}); len(ev.Data) > 0 && err != nil {
				h.t.Errorf("call %d: event %q: %v", id, ev.Data, err)
			} else if m.Method != "" {
				got = append(got, "progress "+string(wire.ValueOf(m.Params).Get("progress").Raw()))
			} else if m.Result != nil {
				got = append(got, "answer "+string(m.Result))
			}
		}
		if len(got) > 0 && strings.HasPrefix(got[len(got)-1], "answer") {
			break
		}
		if last == "" { // nothing arrived that could be resumed from: take what the connection has
			first := eventsOf(h.t, w.written())
			if len(first) == 0 {
				<-w.done // it has not begun; a client would have waited
				h.t.Errorf("call %d ended without an event", id)
				return
			}
			ids[first[0].ID], last = true, first[0].ID
		}
		w = h.begin(http.MethodGet, "", last)
		time.Sleep(time.Microsecond) // of the bubble's clock: it has begun
		if code := w.code(); code != http.StatusOK {
			h.t.Errorf("call %d: resuming from %s: status %d", id, last, code)
			return
		}
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("call %d got\n%q\nwant\n%q", id, got, want)
	}
}

// Nobody resumes from before the bound of the log, and whoever has kept up is
// not bothered by it.
func TestResumeBeyondBound(t *testing.T) {
	for name, c := range map[string]struct{ n, size int }{
		"events": {maxLogEvents + 10, 1},
		"bytes":  {20, maxLogBytes / 10},
		"one":    {1, maxLogBytes + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{Handler: counting{}, Info: wire.Raw(`{}`)})
				h := newHost(t, s)
				w := h.begin(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":%d,"size":%d}}}`, c.n, c.size), "")
				<-w.done
				events := eventsOf(t, w.written())
				if len(events) != c.n+2 {
					t.Fatalf("%d events, want the priming one, %d and the answer", len(events), c.n)
				}
				old := h.begin(http.MethodGet, "", events[0].ID)
				<-old.done
				want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"events after Last-Event-ID are no longer kept: the stream cannot be resumed"}}`
				if old.code() != http.StatusGone || old.written() != want {
					t.Errorf("from the first event: status %d, %s", old.code(), old.written())
				}
				late := h.begin(http.MethodGet, "", events[len(events)-2].ID)
				<-late.done
				if got := eventsOf(t, late.written()); len(got) != 1 || string(got[0].Data) != string(events[len(events)-1].Data) {
					t.Errorf("from the last but one: status %d, %d events", late.code(), len(got))
				}
			})
		})
	}
}

func newMemoryLog() *memoryLog { return &memoryLog{budget: fairshare.New(1<<40, 0)} }

// All logs together are bounded, and those of one client: who wants more than there
// is makes room by what it has itself, and what a session held is there for others
// when it has ended.
func TestLogsShareTheirSpace(t *testing.T) {
	space := fairshare.New(1000, 0)
	logs := make([]*memoryLog, 6)
	kept := func(l *memoryLog) int { return len(l.After("s", 0)) }
	for i := range logs {
		logs[i] = &memoryLog{budget: space, share: fairshare.Share(i / 3)} // the first three are one client's
		for n := range 3 {
			logs[i].Append("s", n+1, make([]byte, 100))
			if used := space.Held(); used > 1000 {
				t.Fatalf("%d bytes are used", used)
			}
		}
	}
	for i, want := range []int{3, 2, 0, 2, 0, 0} {
		if got := kept(logs[i]); got != want {
			t.Errorf("log %d holds %d events, want %d", i, got, want)
		}
	}
	logs[0].Append("s", 4, make([]byte, 150)) // there is less for its client since another has come
	if after := logs[0].After("s", 0); len(after) != 1 || len(after[0]) != 150 {
		t.Errorf("a log that makes room holds %d events", len(after))
	}
	for _, l := range logs[:5] {
		l.Close()
		l.Append("s", 5, make([]byte, 10))
	}
	if used := space.Held(); used != 0 {
		t.Errorf("%d bytes are used by nobody", used)
	}
	logs[5].Append("s", 4, make([]byte, 500))
	if kept(logs[5]) != 1 {
		t.Error("what others held is not free")
	}
}

// A session that ends gives back what its log holds.
func TestLogEndsWithItsSession(t *testing.T) {
	l := newMemoryLog()
	s := New(Options{Handler: counting{}, Info: wire.Raw(`{}`), EventLog: func(string) EventLog { return l }})
	h := newHost(t, s)
	w := h.begin(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":3,"size":100}}}`, "")
	<-w.done
	if l.budget.Held() == 0 {
		t.Fatal("the log holds nothing")
	}
	<-h.begin(http.MethodDelete, "", "").done
	if used := l.budget.Held(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// What a log holds is bounded, and what a session keeps of streams too.
func TestLogIsBounded(t *testing.T) {
	l := newMemoryLog()
	for i := range 3 * maxLogEvents {
		l.Append("s", i+1, make([]byte, i*7))
		if len(l.events) > maxLogEvents || l.bytes > maxLogBytes {
			t.Fatalf("%d events with %d bytes", len(l.events), l.bytes)
		}
	}
	sum := 0
	for _, data := range l.After("s", 0) {
		sum += len(data)
	}
	if sum != l.bytes {
		t.Errorf("the log counts %d bytes and has %d", l.bytes, sum)
	}

	s := New(Options{Handler: newScript(), Info: wire.Raw(`{}`)})
	sh := shelf{log: newMemoryLog()}
	running := s.newStream(wire.EraLegacy)
	sh.open(running, pipeCarrier{}, true, false)
	running.detach(running.conn, nil) // the client is gone, the call is not
	for range 2 * maxKept {
		st := s.newStream(wire.EraLegacy)
		sh.open(st, pipeCarrier{}, true, false)
		st.finish([]byte("{}"))
		st.detach(st.conn, nil)
	}
	if len(sh.order) != maxKept || len(sh.byID) != maxKept {
		t.Errorf("%d streams in order, %d by id, want %d", len(sh.order), len(sh.byID), maxKept)
	}
	if got, _, err := sh.find(running.record.eventID(1)); got != running || err != nil {
		t.Errorf("the stream of a running call was forgotten: %v", err)
	}
}

// What is said while nothing carries a stream waits for the client, if it can
// come for it. A connection that another has replaced takes nothing with it.
func TestStreamBetweenConnections(t *testing.T) {
	s := New(Options{Handler: newScript(), Info: wire.Raw(`{}`)})
	sh := shelf{log: newMemoryLog()}
	kept, lost := s.newStream(wire.EraLegacy), s.newStream(wire.EraLegacy)
	first := sh.open(kept, pipeCarrier{}, true, false)
	second := kept.attach(pipeCarrier{})
	kept.detach(first, nil)
	if !kept.isCarried() {
		t.Error("the end of the old connection took the new one's stream")
	}
	kept.detach(second, nil)
	if !kept.send([]byte(`{}`)) {
		t.Error("the client could still come for the message, but it was not taken")
	}
	lost.detach(lost.attach(pipeCarrier{}), nil)
	if lost.send([]byte(`{}`)) {
		t.Error("a message was taken that nobody can get")
	}
}

// A slow client loses its connection and nothing else: the rest waits for it.
func TestSlowClientResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: counting{}, Info: wire.Raw(`{}`)})
		h := newHost(t, s)
		r := request(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":30,"size":100000}}}`))
		r.Header.Set(wire.HeaderSession, h.session)
		w := newStuck()
		go func() {
			time.Sleep(5 * time.Millisecond)
			w.block()
		}()
		s.ServeHTTP(w, r)
		first := eventsOf(t, w.written())
		rest := h.begin(http.MethodGet, "", first[len(first)-1].ID)
		<-rest.done
		all := append(first, eventsOf(t, rest.written())...)
		if len(all) != 32 || !strings.Contains(string(all[31].Data), `"result"`) {
			t.Errorf("%d events, want the priming one, 30 and the answer; the last is %.100q", len(all), all[len(all)-1].Data)
		}
	})
}
