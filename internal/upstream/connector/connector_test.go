package connector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

func TestReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := NewMetrics()
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(upstreamtest.Echo)}
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Metrics: metrics}})
		first := r.watch.wait(t, isReady)
		up := metrics.up.WithLabelValues("files")
		if testutil.ToFloat64(up) != 1 {
			t.Error("upstream_up is not 1")
		}
		s.Instance(1).Quit()
		down := r.watch.wait(t, isDown)
		if want := "the server closed its output"; down.Reason != want || down.Since.Before(first.Since) {
			t.Errorf("down since %s: %q, want %q", down.Since, down.Reason, want)
		}
		if len(down.Catalog.Tools) != 2 || !down.Lost {
			t.Errorf("%d tools, lost %v: want the last catalog and lost", len(down.Catalog.Tools), down.Lost)
		}
		if testutil.ToFloat64(up) != 0 {
			t.Error("upstream_up is not 0")
		}
		if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))); got != `{"ok":1}` {
			t.Errorf("the call after the restart: %s", got)
		}
		synctest.Wait()
		if got := r.Snapshot(); got.State != Ready || got.Reason != "" {
			t.Errorf("state %s, %q", got.State, got.Reason)
		}
		if got := testutil.ToFloat64(metrics.restarts.WithLabelValues("files")); got != 1 {
			t.Errorf("restarts %v, want 1", got)
		}
	})
}

// Lost is set until an attempt has failed.
func TestLostUntilAnAttemptFails(t *testing.T) {
	for name, again := range map[string]func(l *upstreamtest.Instance, m wire.Message){
		"the handshake fails": func(l *upstreamtest.Instance, _ wire.Message) { l.Quit() },
		"tools/list fails": func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method == wire.MethodToolsList {
				l.Quit()
				return
			}
			upstreamtest.Legacy(nil)(l, m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
					if l.N == 1 {
						upstreamtest.Legacy(nil)(l, m)
						return
					}
					again(l, m)
				}}
				r := start(t, setup{Pipe: s.Pipe})
				r.watch.wait(t, isReady)
				s.Instance(1).Quit()
				time.Sleep(5 * time.Second) // synthetic time for failed attempts
				var got []string
				for _, s := range r.watch.all() {
					if now := fmt.Sprintf("%s %v", s.State, s.Lost); len(got) == 0 || got[len(got)-1] != now {
						got = append(got, now)
					}
				}
				if want := "[ready false down true down false]"; fmt.Sprint(got) != want {
					t.Errorf("the snapshots are %v, want %s", got, want)
				}
			})
		})
	}
}

// A call that is made while the server ends must succeed if it was not sent.
func TestRestartBetweenTwoCalls(t *testing.T) {
	s := &upstreamtest.Server{Handle: upstreamtest.Legacy(upstreamtest.Echo)}
	r := start(t, setup{Pipe: s.Pipe})
	r.watch.wait(t, isReady)
	for n := range 5 {
		s.Instance(n + 1).Quit()
		s.WaitEnd(t, n+1)
		if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))); got != `{"ok":1}` {
			t.Fatalf("call after restart %d: %s", n+1, got)
		}
	}
}

// A call that waits for a connection does not fail because one was opened and lost before it
// could use it. It waits for the next one.
func TestConnectionLostBeforeItIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 { // the call mostly looks when the connection is lost already
			c := setup{}.connector()
			found := make(chan error, 1)
			go func() {
				_, err := c.Await(t.Context(), &call.Call{})
				found <- err
			}()
			synctest.Wait()
			c.set(&currentConn{})
			c.set(nil)
			synctest.Wait()
			c.set(&currentConn{})
			if err := <-found; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A call that was sent to a process before it ended is not sent again, whatever the
// tool's annotations. The call may have caused the end.
func TestCallLostWithTheProcess(t *testing.T) {
	for _, tt := range []struct {
		name, tool string
		size       int // additional bytes of arguments
		want       string
	}{
		{"no hint", "echo", 0, "the connection to the server was lost"},
		{"read-only", "read", 0, "the connection to the server was lost"},
		{"read-only and large", "read", 11 << 20, "the connection to the server was lost; the call was 11.0 MiB large, which may be the reason"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method == wire.MethodToolsCall {
						l.Quit()
					}
				})}
				metrics := NewMetrics()
				r := start(t, setup{Pipe: s.Pipe, Options: Options{Metrics: metrics}})
				r.watch.wait(t, isReady)
				c := upstreamtest.ToolCall(tt.tool, "a", &upstreamtest.Peer{})
				c.Params = wire.SetMember(c.Params, "padding", wire.String(strings.Repeat("x", tt.size)))
				_, err := r.Do(t.Context(), c)
				want := fmt.Sprintf(`{"upstream":"files","reason":%q,"since":"2000-01-01T00:00:00Z","retryable":false}`, tt.want)
				if got := upstreamtest.DataOf(t, err); got != want {
					t.Errorf("data %s, want %s", got, want)
				}
				r.watch.wait(t, func(s Snapshot) bool { return s.State == Down })
				time.Sleep(time.Second) // synthetic time for the reconnection
				if starts, sent := s.Starts(), s.Calls(); starts != 2 || sent != 1 {
					t.Errorf("%d instances got %d calls, want 2 and 1", starts, sent)
				}
				if got := testutil.ToFloat64(metrics.resends.WithLabelValues("files")); got != 0 {
					t.Errorf("resends %v, want none", got)
				}
			})
		})
	}
}

// A call that was queued behind the call that ended the server was not sent. It is
// sent to the next process, and the log says so.
func TestUnsentCallIsResent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method != wire.MethodToolsCall {
				return
			}
			if l.N == 1 {
				<-l.Hold
				l.Quit()
				<-l.Hold // the queued call is not read before the process ends
				return
			}
			l.Result(m, `{"instance":2}`)
		})}
		metrics := NewMetrics()
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Metrics: metrics, Logger: zap.New(core)}})
		r.watch.wait(t, isReady)
		first, second := make(chan string, 1), make(chan string, 1)
		go func() {
			first <- upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("read", "a", &upstreamtest.Peer{})))
		}()
		synctest.Wait()
		go func() {
			second <- upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{})))
		}()
		synctest.Wait()
		s.Instance(1).Hold <- struct{}{}
		synctest.Wait()
		close(s.Instance(1).Hold)
		if got := <-first; !strings.Contains(got, "lost") {
			t.Errorf("the call that ended the server: %s", got)
		}
		if got := <-second; got != `{"instance":2}` {
			t.Errorf("the queued call: %s", got)
		}
		if got := testutil.ToFloat64(metrics.resends.WithLabelValues("files")); got != 1 {
			t.Errorf("resends %v, want 1", got)
		}
		lines := logs.FilterMessage("a call is sent again").All()
		if len(lines) != 1 {
			t.Fatalf("%d log lines about the resent call", len(lines))
		}
		got := lines[0].ContextMap()
		if got["upstream"] != "files" || got["method"] != "tools/call" || got["request"] != "c1" || got["delivered"] != false {
			t.Errorf("the log says %v", got)
		}
	})
}

func TestCallsWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: func(*upstreamtest.Instance, wire.Message) {}}
		r := start(t, setup{Pipe: s.Pipe})
		began := time.Now()
		_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
		want := `{"upstream":"files","reason":"the server is still starting after 10s","since":"2000-01-01T00:00:00Z","retryable":true}`
		if got := upstreamtest.DataOf(t, err); got != want {
			t.Errorf("data %s, want %s", got, want)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %s", took)
		}
		if r.Snapshot().Settled {
			t.Error("Settled before the first attempt has ended")
		}
		down := r.watch.wait(t, isDown)
		if want := "the server did not introduce itself within 1m0s"; down.Reason != want || !down.Settled {
			t.Errorf("reason %q, want %q", down.Reason, want)
		}
	})
}

// There are at most four attempts a second, for any number of calls.
func TestAttemptsAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, _ wire.Message) { l.Quit() }}
		r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy})
		r.watch.wait(t, isDown)
		began := time.Now()
		for time.Since(began) < 10*time.Second {
			_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
			if got := upstreamtest.DataOf(t, err); !strings.Contains(got, "the connection to the server was lost") {
				t.Fatalf("data %s", got)
			}
		}
		// One at the start and 40 in ten seconds.
		if got := s.Starts(); got < 38 || got > 42 {
			t.Errorf("%d attempts in ten seconds", got)
		}
	})
}

// callOnDisconnect is a Session that makes a call when the connection is lost. It
// blocks until the call waits.
type callOnDisconnect struct {
	noSession
	call func() string
	once sync.Once
	got  chan string
}

func (o *callOnDisconnect) Changed(s Snapshot) {
	if isDown(s) {
		o.once.Do(func() {
			go func() { o.got <- o.call() }()
			synctest.Wait()
		})
	}
}

// A call after a failed attempt triggers another attempt, also when it comes at
// once.
func TestCallAfterAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
			if l.N == 1 {
				l.Quit()
				return
			}
			upstreamtest.Legacy(upstreamtest.Echo)(l, m)
		}}
		o := &callOnDisconnect{got: make(chan string, 1)}
		c := setup{Pipe: s.Pipe, Era: wire.EraLegacy, Options: Options{Session: o}}.connector()
		o.call = func() string {
			return upstreamtest.Outcome(c.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{})))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		if got := <-o.got; got != `{"ok":1}` {
			t.Errorf("the call: %s", got)
		}
		cancel()
		<-done
	})
}

// The pauses grow when a server ends soon after each start.
func TestCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{}
		s.Handle = upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method == wire.NoteInitialized {
				l.Quit()
			}
		})
		start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy})
		time.Sleep(time.Minute) // synthetic time
		if got := s.Starts(); got < 12 || got > 30 {
			t.Errorf("%d starts in the first minute", got)
		}
	})
}

func TestNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Limits: Limits{MaxConcurrent: 1, MaxQueue: -1}}})
		r.watch.wait(t, isReady)
		first := r.doing(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
		synctest.Wait()
		_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
		if got, want := upstreamtest.DataOf(t, err), `"reason":"overloaded: 1 call runs (max_concurrent 1) and 0 wait (max_queue 0)"`; !strings.Contains(got, want) {
			t.Errorf("data %s, want %s", got, want)
		}
		<-first // ends with its timeout
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Limits: Limits{MaxConcurrent: 2, MaxQueue: 1}}})
		r.watch.wait(t, isReady)
		ctx, cancel := context.WithCancel(t.Context())
		var calls []<-chan string
		for range 3 {
			calls = append(calls, r.doing(ctx, upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{})))
			synctest.Wait()
		}
		_, err := r.Do(ctx, upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
		if got, want := upstreamtest.DataOf(t, err), `"reason":"overloaded: 2 calls run (max_concurrent 2) and 1 waits (max_queue 1)"`; !strings.Contains(got, want) || !strings.Contains(got, `"retryable":true,"retryAfter":5}`) {
			t.Errorf("data %s, want %s", got, want)
		}
		count := func() (n int) {
			for _, m := range s.Instance(1).Methods() {
				if m == wire.MethodToolsCall {
					n++
				}
			}
			return n
		}
		if got := count(); got != 2 {
			t.Errorf("%d calls were sent, want 2", got)
		}
		s.Instance(1).Result(s.Instance(1).Wait(t, upstreamtest.Method(wire.MethodToolsCall)), `{}`)
		synctest.Wait()
		if got := count(); got != 3 {
			t.Errorf("%d calls were sent after one had ended, want 3", got)
		}
		cancel()
		for _, c := range calls {
			<-c
		}
	})
}

func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name     string
		progress time.Duration // interval of notifications; 0: none
		want     string
		took     time.Duration
	}{
		{"silence", 0, "the server did not answer within 1m0s", time.Minute},
		{"too little progress", 61 * time.Second, "the server did not answer within 1m0s", time.Minute},
		{"progress for ever", 50 * time.Second, "the call took longer than 1h0m0s", time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
				r := start(t, setup{Pipe: s.Pipe})
				r.watch.wait(t, isReady)
				stop := make(chan struct{})
				began := time.Now()
				done := make(chan error, 1)
				go func() {
					_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}).With(wire.Raw(`{"name":"echo","_meta":{"progressToken":1}}`)))
					done <- err
				}()
				m := s.Instance(1).Wait(t, upstreamtest.Method(wire.MethodToolsCall))
				if tt.progress > 0 {
					go func() {
						for {
							select {
							case <-stop:
								return
							case <-time.After(tt.progress):
								s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, m.ID)
							}
						}
					}()
				}
				err := <-done
				close(stop)
				if got := upstreamtest.DataOf(t, err); !strings.Contains(got, `"reason":"`+tt.want+`"`) || !strings.Contains(got, `"retryable":false`) {
					t.Errorf("data %s, want %s", got, tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %s, want %s", took, tt.took)
				}
				s.Instance(1).Wait(t, upstreamtest.Method(wire.NoteCancelled))
			})
		})
	}
}

func TestLogLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(upstreamtest.Echo)}
		r := start(t, setup{Pipe: s.Pipe})
		r.watch.wait(t, isReady)
		r.SetLogLevel(wire.LevelWarning)
		m := s.Instance(1).Wait(t, upstreamtest.Method(wire.MethodSetLevel))
		if string(m.Params) != `{"level":"warning"}` {
			t.Errorf("params %s", m.Params)
		}
		s.Instance(1).Quit()
		s.WaitEnd(t, 1)
		time.Sleep(time.Second) // synthetic time
		got := s.Instance(2).Methods()
		if want := []string{"initialize", "notifications/initialized", "logging/setLevel", "tools/list"}; !slices.Equal(got[len(got)-4:], want) {
			t.Errorf("after the restart the server got %q, want %q at the end", got, want)
		}
	})
}

func TestAfterTheEnd(t *testing.T) {
	s := &upstreamtest.Server{Handle: upstreamtest.Legacy(upstreamtest.Echo)}
	c := setup{Pipe: s.Pipe}.connector()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Run(ctx); err != nil {
		t.Fatalf("Run: %v", err)
	}
	_, err := c.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
	if got := upstreamtest.DataOf(t, err); !strings.Contains(got, ReasonEnded) {
		t.Errorf("data %s", got)
	}
	if s := c.Snapshot(); s.State != Down || !s.Settled {
		t.Errorf("snapshot %+v", s)
	}
}

// A connector at rest notices that the cause of an error has passed, or that there are new credentials, and does not wait for the
// end of the pause.
func TestRestEndsWithItsCause(t *testing.T) {
	type check = func() bool
	never := func() bool { return false }
	for name, of := range map[string]func(passed check) (renewed check, err error){
		"what was missing": func(passed check) (check, error) { return nil, &protocol.CallError{Reason: "no grant", Passed: passed} },
		"either": func(passed check) (check, error) {
			return never, &protocol.CallError{Reason: "no grant", Passed: passed}
		},
		"new credentials": func(passed check) (check, error) { return passed, errors.New("HTTP 500") },
		"new credentials, though the cause has not passed": func(passed check) (check, error) {
			return passed, &protocol.CallError{Reason: "no token", Passed: never}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := time.Now().Add(time.Minute)
				renewed, err := of(func() bool { return !time.Now().Before(at) })
				c := setup{Options: Options{Start: Start{NewCredentials: renewed}}}.connector()
				if !c.rest(t.Context(), time.Hour, err) {
					t.Error("it does not try again")
				}
				if waited := time.Since(at); waited < 0 || waited > passingCheck+protocol.AttemptGap {
					t.Errorf("the rest ended %s after the cause", waited)
				}
			})
		})
	}
}
