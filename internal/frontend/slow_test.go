package frontend

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// stalledWriter is the ResponseWriter of a client that stops reading: writes block until
// their deadline.
type stalledWriter struct {
	recorder
	mu       sync.Mutex
	deadline time.Time
	blocked  bool
}

func newStalledWriter() *stalledWriter {
	return &stalledWriter{recorder: recorder{header: make(http.Header), done: make(chan struct{})}}
}

func (w *stalledWriter) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return nil
}

func (w *stalledWriter) block() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocked = true
}

func (w *stalledWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	blocked, deadline := w.blocked, w.deadline
	w.mu.Unlock()
	if !blocked {
		return w.recorder.Write(b)
	}
	if deadline.IsZero() {
		select {} // a write without a deadline never ends
	}
	time.Sleep(time.Until(deadline))
	return 0, os.ErrDeadlineExceeded
}

// floodHandler sends notifications until its call ends, and records the cause.
type floodHandler struct {
	sent  int // bytes
	cause error
}

func (f *floodHandler) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	if c.Method == wire.MethodDiscover {
		return own(`{"capabilities":{}}`)
	}
	params := wire.Raw(`{"progressToken":1,"progress":1,"message":"` + strings.Repeat("x", 1<<16) + `"}`)
	for f.sent < 64<<20 && ctx.Err() == nil {
		c.Back.Notify(wire.NoteProgress, params)
		f.sent += len(params)
	}
	f.cause = context.Cause(ctx)
	return own(`{"content":[]}`)
}

// A client that does not read loses its stream, and neither blocks the handler nor
// fills the memory. The call ends with the stream, except in a session, where the client
// can resume it.
func TestSlowClientLosesStream(t *testing.T) {
	for name, tt := range map[string]struct {
		era       wire.Era
		session   bool
		wantCause error
	}{
		"modern":                  {wire.EraModern, false, errClientGone},
		"legacy, without session": {wire.EraLegacy, false, errClientGone},
		"legacy, in a session":    {wire.EraLegacy, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &floodHandler{}
				s := New(Options{Handler: f, Info: wire.Raw(`{}`)})
				r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood"%s}}`, tt.era)
				if tt.session {
					r.Header.Set(wire.HeaderSession, newSessionClient(t, s).session)
				}
				w := newStalledWriter()
				w.block()
				began := time.Now()
				s.ServeHTTP(w, r)
				const most = writeTimeout * 3 / 2 // of a write with a short end, see pieceSize
				if took := time.Since(began); took > most {
					t.Errorf("the request was held for %s by one write, want at most %s", took, most)
				}
				if f.cause != tt.wantCause {
					t.Errorf("the call ended with %v, want %v", f.cause, tt.wantCause)
				}
				if tt.wantCause == errClientGone && f.sent > 8*stream.MaxQueue {
					t.Errorf("the call could send %d bytes to a client that reads none", f.sent)
				}
				if got := w.take(); strings.Contains(got, "result") {
					t.Errorf("a lost stream carried %.200q", got)
				}
			})
		})
	}
}

// callFor returns a request of an era. The %s in the body is replaced by the metadata.
func callFor(t *testing.T, body string, era wire.Era) *http.Request {
	meta := ""
	if era == wire.EraModern {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway.test/mcp", strings.NewReader(strings.Replace(body, "%s", meta, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if era == wire.EraModern {
		r.Header.Set(wire.HeaderVersion, "2026-07-28")
		r.Header.Set(wire.HeaderMethod, wire.MethodToolsCall)
		r.Header.Set(wire.HeaderName, "flood")
	}
	return r
}

// A write that exceeds its deadline ends a GET stream. The notifications that were not
// written go onto the next one.
func TestStalledStreamGivesChangesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: &floodHandler{}, Info: wire.Raw(`{}`)})
		first := newStalledWriter()
		s.ServeHTTP(first, callFor(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`, wire.EraLegacy))
		get := func(w http.ResponseWriter) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway.test/mcp", nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header[wire.HeaderSession] = first.header[wire.HeaderSession]
			s.ServeHTTP(w, r)
		}
		var wg sync.WaitGroup
		dead, alive := newStalledWriter(), newStalledWriter()
		wg.Go(func() { get(dead) })
		synctest.Wait()
		dead.block()
		began := time.Now()
		s.ListChanged(true, false, false)
		wg.Wait()
		if took := time.Since(began); took != writeTimeout {
			t.Errorf("the stuck stream ended after %s, want %s", took, writeTimeout)
		}
		s.ListChanged(false, true, false)
		wg.Go(func() { get(alive) })
		synctest.Wait()
		got := alive.take()
		for _, want := range []string{wire.NoteToolsChanged, wire.NotePromptsChanged} {
			if strings.Count(got, want) != 1 {
				t.Errorf("the next stream carried %q, want %s once", got, want)
			}
		}
		s.Drain()
		wg.Wait()
	})
}

// Over HTTP+SSE answers wait for each other. A client whose waiting answers exceed its
// share loses the stream sooner.
func TestAnswersThatWaitOverSSEAreBounded(t *testing.T) {
	for calls, waiting := range map[int]int64{5: 3, 6: 0} {
		t.Run(fmt.Sprint(calls), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const message = 1 << 20 // one client may have half of the 8 MiB of unread answers
				s := New(Options{Info: wire.Raw(`{}`), Limits: Limits{MaxMessage: message}, Handler: handlerFunc(func(_ context.Context, c *call.Call) (call.Result, error) {
					if c.Method == wire.MethodDiscover {
						return own(`{"capabilities":{}}`)
					}
					return own(`"` + strings.Repeat("x", message-100) + `"`)
				})})
				c := openSSEClient(t, s)
				defer c.end()
				if w := c.send(t, strings.NewReader(initializeBody)); w.Code != http.StatusAccepted {
					t.Fatalf("initialize: status %d", w.Code)
				}
				synctest.Wait()
				c.stream.block()
				began := time.Now()
				for id := range calls { // one is being written, one is queued, and the others wait
					c.send(t, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, id)))
					synctest.Wait()
				}
				time.Sleep(writeHurried)
				synctest.Wait()
				if n := s.calls.Held(); n != waiting {
					t.Errorf("%d answers wait, want %d", n, waiting)
				}
				<-c.stream.done
				if took := time.Since(began); took != writeTimeout {
					t.Errorf("the stream was given up after %s, want %s", took, writeTimeout)
				}
				if n := s.unsent.Held(); n != 0 {
					t.Errorf("%d bytes are still held", n)
				}
			})
		})
	}
}

// Unread answers occupy memory. The server waits only a short time for a client whose
// unread answers exceed its share, in both forms of a response.
func TestUnreadAnswersAreBounded(t *testing.T) {
	for _, accept := range []string{"application/json", "text/event-stream"} {
		t.Run(accept, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const message = 128 << 10 // one client may have half of the 1 MiB of unread answers
				c := newLoadServer(t, Options{Limits: Limits{MaxMessage: message}})
				c.s.options.Handler = handlerFunc(func(context.Context, *call.Call) (call.Result, error) {
					return own(`"` + strings.Repeat("x", message-100) + `"`)
				})
				began := time.Now()
				ended := make([]time.Duration, 8)
				var wg sync.WaitGroup
				for i := range ended {
					wg.Go(func() {
						r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, wire.EraLegacy)
						r.Header.Set("Accept", accept)
						r.RemoteAddr = c.address(i / 6) // six from one client, then two from another
						w := newStalledWriter()
						w.block()
						c.s.ServeHTTP(w, r)
						ended[i] = time.Since(began)
					})
					synctest.Wait()
				}
				wg.Wait()
				const patient, hurried = writeTimeout, writeHurried
				if want := []time.Duration{patient, patient, patient, patient, hurried, hurried, patient, patient}; !slices.Equal(ended, want) {
					t.Errorf("the answers were dropped after %v, want %v", ended, want)
				}
				if n := c.s.unsent.Held(); n != 0 {
					t.Errorf("%d bytes are still held", n)
				}
			})
		})
	}
}
