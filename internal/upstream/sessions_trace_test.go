package upstream

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// tickingTrace returns a trace with a clock that goes on by one second whenever it is read.
func tickingTrace() *call.Trace {
	var mu sync.Mutex
	now := time.Unix(0, 0)
	t := new(call.Trace)
	t.Begin(func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}, nil)
	return t
}

// The time in which the session for a call is opened is in the stage of the connection, once. A call whose session is open
// spends none.
func TestOpeningOfSessionsIsTimed(t *testing.T) {
	legacy := func(o *Options) { o.Era = wire.EraLegacy }
	both := map[string]on{wire.MethodDiscover: discovered(`["2026-07-28","2025-11-25"]`)}
	refuses := map[string]on{
		wire.MethodDiscover: both[wire.MethodDiscover],
		wire.MethodInitialize: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
			answerError(w, http.StatusBadRequest, m.ID.String(), `{"code":-32602,"message":"no"}`)
		},
	}
	for name, tc := range map[string]struct {
		on     map[string]on
		change func(*Options)
		want   time.Duration
	}{
		"for a set of capabilities":           {nil, legacy, time.Second},
		"for a client":                        {nil, func(o *Options) { legacy(o); o.Sharing = PerClient }, time.Second},
		"at a server of both eras":            {both, func(*Options) {}, 2 * time.Second}, // whether it opens sessions, and the session
		"at a server that refuses initialize": {refuses, func(*Options) {}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			h := startSharedSessions(t, &script{on: tc.on}, tc.change)
			upstreamtest.Equal(t, "a call of all clients", upstreamtest.Outcome(h.Do(t.Context(), modernCallBy("carl"))), doneResult) // waits for the connection
			for _, want := range []time.Duration{tc.want, 0} {
				c := legacyCall("ann", `{}`, &upstreamtest.Peer{})
				c.Trace = tickingTrace()
				upstreamtest.Equal(t, "the call", h.call(t.Context(), c), doneResult)
				upstreamtest.Equal(t, "time in the stage connect", c.Trace.Spent(call.StageConnect), want)
			}
		})
	}
}

// So is the time until the server is connected, on which the session depends. Who has lists gathered measures that.
func TestWaitForTheServerIsTimed(t *testing.T) {
	for name, tc := range map[string]struct {
		use  func(context.Context, *Sessions, *call.Call) error
		want time.Duration
	}{
		"a call": {func(ctx context.Context, s *Sessions, c *call.Call) error { _, err := s.Session(ctx, c); return err }, time.Second},
		"lists":  {func(ctx context.Context, s *Sessions, c *call.Call) error { s.Gather(ctx, c); return nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := countCalls()
				h := &sessionsRig{watch: &originWatcher{watcher: newWatcher()}}
				h.s = &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method == wire.MethodInitialize {
						time.Sleep(time.Second)
					}
					answer(l, m)
				}}
				s := NewSessions(Options{Name: "files", Server: Server{Pipe: h.s.Pipe, Era: wire.EraLegacy}, Hooks: Hooks{Observer: h.watch}, Scoping: Scoping{Sharing: PerPrincipal, Personal: true}})
				c := modernCallBy("carl")
				c.Trace = new(call.Trace)
				c.Trace.Begin(time.Now, nil)
				done := make(chan error, 1)
				go func() { done <- tc.use(t.Context(), s, c) }()
				synctest.Wait() // it waits for the server
				h.serve(t, s)
				upstreamtest.Equal(t, "error", <-done, nil)
				upstreamtest.Equal(t, "time in the stage connect", c.Trace.Spent(call.StageConnect), tc.want)
			})
		})
	}
}
