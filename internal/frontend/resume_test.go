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
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// countingHandler sends as many notifications as the arguments say, with pauses, and then
// a result with their number and padding.
type countingHandler struct{}

func (countingHandler) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	if c.Method == wire.MethodDiscover {
		return own(`{"capabilities":{}}`)
	}
	args := wire.ValueOf(c.Params).Get("arguments")
	n, _ := args.Get("n").Int()
	size, _ := args.Get("size").Int()
	message := strings.Repeat("x", int(size)) // faster than quoting megabytes
	for i := range n {
		time.Sleep(time.Millisecond) // of the bubble's clock
		c.Back.Notify(wire.NoteProgress, wire.Raw(fmt.Sprintf(`{"progress":%d,"message":"%s"}`, i, message)))
	}
	if pad, _ := args.Get("pad").Int(); pad > 0 {
		return own(fmt.Sprintf(`{"n":%d,"pad":"%s"}`, n, strings.Repeat("x", int(pad))))
	}
	return own(fmt.Sprintf(`{"n":%d}`, n))
}

// sessionClient is a legacy client with its session.
type sessionClient struct {
	t       *testing.T
	s       *Server
	session string
	// pick, if not nil, returns the server of the next request, in place of s.
	pick func() *Server
}

func newSessionClient(t *testing.T, s *Server) *sessionClient {
	w := do(s, request(t, strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)))
	return &sessionClient{t: t, s: s, session: w.Header().Get(wire.HeaderSession)}
}

// begin sends a request and returns the recorder of its response.
func (h *sessionClient) begin(method, body, lastEvent string) *recorder {
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
		s := h.s
		if h.pick != nil {
			s = h.pick()
		}
		serveContinued(s.ServeHTTP, w, r)
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

// eventsOf returns the events of a body. The last one may be cut off.
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

// Connections break at random places. Still each of many concurrent calls gets its
// notifications once and in order, and then its answer.
func TestRandomDisconnects(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			s := New(Options{Handler: countingHandler{}, Info: wire.Raw(`{}`)})
			h := newSessionClient(t, s)
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
func (h *sessionClient) followThrough(id int, random *rand.Rand) {
	n := random.IntN(100) + 1 // all calls together stay within the limits of the log
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
		if !whole { // the connection loses the rest
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
		if last == "" { // no event id has arrived: use this connection
			first := eventsOf(h.t, w.written())
			if len(first) == 0 {
				<-w.done // the stream has not begun; a client would have waited
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

// A stream cannot be resumed at an event that the log has forgotten, but at a later one.
func TestResumeBeyondBound(t *testing.T) {
	for name, c := range map[string]struct{ n, size int }{
		"events": {stream.MaxLogEvents + 10, 1},
		"bytes":  {20, stream.MaxLogBytes / 10},
		"one":    {1, stream.MaxLogBytes + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{Handler: countingHandler{}, Info: wire.Raw(`{}`)})
				h := newSessionClient(t, s)
				w := h.begin(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":%d,"size":%d}}}`, c.n, c.size), "")
				<-w.done
				events := eventsOf(t, w.written())
				if len(events) != c.n+2 {
					t.Fatalf("%d events, want the priming one, %d and the answer", len(events), c.n)
				}
				old := h.begin(http.MethodGet, "", events[0].ID)
				<-old.done
				want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"events after Last-Event-ID are no longer kept: the stream cannot be resumed"}}`
				if old.code() != http.StatusGone || withoutRequestIDs(t, old.written()) != want {
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

// The end of a session releases what its log holds.
func TestLogEndsWithItsSession(t *testing.T) {
	budget := fairshare.New(1<<40, 0)
	l := stream.NewMemoryLog(budget, 0)
	s := New(Options{Handler: countingHandler{}, Info: wire.Raw(`{}`), Sessions: Sessions{EventLog: func(string) stream.EventLog { return l }}})
	h := newSessionClient(t, s)
	w := h.begin(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":3,"size":100}}}`, "")
	<-w.done
	if budget.Held() == 0 {
		t.Fatal("the log holds nothing")
	}
	<-h.begin(http.MethodDelete, "", "").done
	if used := budget.Held(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// A slow client loses its connection, and can fetch the rest later.
func TestSlowClientResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: countingHandler{}, Info: wire.Raw(`{}`)})
		h := newSessionClient(t, s)
		r := request(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":30,"size":100000}}}`))
		r.Header.Set(wire.HeaderSession, h.session)
		w := newStalledWriter()
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
