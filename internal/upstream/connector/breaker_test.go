package connector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// openFor is how long the breakers of these tests refuse calls.
const openFor = 30 * time.Second

// threeFailures are breakers that open after three failed calls.
func threeFailures() *Health { return NewHealth(HealthSettings{Failures: 3, Open: openFor}) }

// switchable is a server whose answers to tools/call and ping a test changes.
type switchable struct {
	upstreamtest.Server
	mu         sync.Mutex
	call, ping handler
	refuses    bool // every instance ends at its first message
}

// handler answers a request; nil: it is not answered.
type handler func(l *upstreamtest.Instance, m wire.Message)

func newSwitchable() *switchable {
	s := &switchable{call: answersOK, ping: answersOK}
	normal := upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
		s.mu.Lock()
		answer := map[string]handler{wire.MethodToolsCall: s.call, wire.MethodPing: s.ping}[m.Method]
		s.mu.Unlock()
		if answer != nil {
			answer(l, m)
		}
	})
	s.Handle = func(l *upstreamtest.Instance, m wire.Message) {
		s.mu.Lock()
		refuses := s.refuses
		s.mu.Unlock()
		if refuses {
			l.Quit()
			return
		}
		normal(l, m)
	}
	return s
}

// set changes the answers.
func (s *switchable) set(call, ping handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call, s.ping = call, ping
}

// refuse says whether instances end at their first message.
func (s *switchable) refuse(refuses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = refuses
}

func answersOK(l *upstreamtest.Instance, m wire.Message) { l.Result(m, `{"ok":1}`) }

func answersGarbage(l *upstreamtest.Instance, m wire.Message) {
	l.Line(`{"jsonrpc":"2.0","id":%s,"result":5}`, m.ID)
}

func exits(l *upstreamtest.Instance, _ wire.Message) { l.Quit() }

// doTool calls a tool and returns the outcome.
func (r *rig) doTool(ctx context.Context, tool string) string { return r.doToolAs(ctx, "", tool) }

// doToolAs calls a tool as a principal, and returns the outcome.
func (r *rig) doToolAs(ctx context.Context, subject, tool string) string {
	c := upstreamtest.ToolCall(tool, "ann", &upstreamtest.Peer{})
	c.Principal = &call.Principal{Subject: subject}
	return upstreamtest.Outcome(r.Do(ctx, c))
}

// isOpen reports whether an outcome is that of an open breaker.
func isOpen(outcome string) bool { return strings.Contains(outcome, "the circuit breaker is open") }

// The breaker opens after failures in a row of any sort, refuses calls at once, and lets one
// call through when its time has passed.
func TestBreakerOpensAndCloses(t *testing.T) {
	for name, fails := range map[string]handler{
		"garbage": answersGarbage, "exits": exits, "hangs": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.InfoLevel)
				metrics, breakers := NewMetrics(), threeFailures()
				s := newSwitchable()
				r := start(t, setup{Pipe: s.Pipe, Options: Options{Logger: zap.New(core), Metrics: metrics, Health: breakers}})
				r.watch.wait(t, isReady)
				state := func(of string) float64 { return testutil.ToFloat64(metrics.breakers.WithLabelValues("files", of)) }

				s.set(fails, fails)
				for i := range 3 {
					if got := r.doTool(t.Context(), "echo"); !strings.HasPrefix(got, "error") || isOpen(got) {
						t.Fatalf("call %d: %s", i, got)
					}
				}
				time.Sleep(protocol.ProbeTime) // the ping
				synctest.Wait()
				began := time.Now()
				_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))
				if took := time.Since(began); took > 0 || !isOpen(fmt.Sprint(err)) {
					t.Fatalf("after %s: %v", took, err)
				}
				data := wire.ValueOf(wire.Raw(upstreamtest.DataOf(t, err)))
				retry, _ := data.Get("retryAfter").Int()
				if retry < 1 || retry > int64(openFor/time.Second) || !data.Get("retryable").Bool() || data.Get("upstream").Str() != "files" {
					t.Errorf("data %s", data.Raw())
				}
				if open, halfOpen := breakers.Breakers(); open.Sessions != 1 || halfOpen.Sessions != 0 || state("open") != 1 || testutil.ToFloat64(metrics.trips.WithLabelValues("files")) != 1 {
					t.Errorf("%d sessions are open, %v in the metric", open.Sessions, state("open"))
				}

				time.Sleep(openFor)
				synctest.Wait()
				if open, halfOpen := breakers.Breakers(); open.Sessions != 0 || halfOpen.Sessions != 1 || state("open") != 0 || state("half-open") != 1 {
					t.Errorf("after %s without a call %d sessions are open and %d half-open, %v and %v in the metric", openFor, open.Sessions, halfOpen.Sessions, state("open"), state("half-open"))
				}
				if got := r.doTool(t.Context(), "echo"); !strings.HasPrefix(got, "error") || isOpen(got) {
					t.Errorf("the trial: %s", got)
				}
				if got := r.doTool(t.Context(), "echo"); !isOpen(got) {
					t.Errorf("after the trial has failed: %s", got)
				}

				s.set(answersOK, answersOK)
				time.Sleep(openFor + time.Minute)
				for range 2 {
					if got := r.doTool(t.Context(), "echo"); got != `{"ok":1}` {
						t.Errorf("after recovery: %s", got)
					}
				}
				if open, halfOpen := breakers.Breakers(); open.Sessions+halfOpen.Sessions != 0 || state("open")+state("half-open") != 0 {
					t.Errorf("%d sessions are open, %v in the metric", open.Sessions, state("open"))
				}
				for message, want := range map[string]int{"the circuit breaker is open: calls fail at once": 1, "the circuit breaker is closed: calls are sent again": 1} {
					if got := logs.FilterMessage(message).Len(); got != want {
						t.Errorf("%d lines %q, want %d", got, message, want)
					}
				}
			})
		})
	}
}

// The calls in flight when a server ends count as one failure: its next process is used at once.
func TestBreakerStaysClosedAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwitchable()
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Health: threeFailures()}})
		r.watch.wait(t, isReady)
		s.set(nil, answersOK)
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				if got := r.doTool(t.Context(), "echo"); !strings.HasPrefix(got, "error") {
					t.Errorf("a call of a server that ended got %s", got)
				}
			})
		}
		time.Sleep(time.Second)
		s.set(exits, answersOK)
		r.doTool(t.Context(), "echo")
		calls.Wait()
		s.set(answersOK, answersOK)
		if got := r.doTool(t.Context(), "echo"); got != `{"ok":1}` {
			t.Errorf("after the restart: %s", got)
		}
	})
}

// One slow tool is no reason to refuse the other tools.
func TestBreakerStaysClosedForASlowTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwitchable()
		s.set(func(l *upstreamtest.Instance, m wire.Message) {
			if !strings.HasPrefix(wire.ValueOf(m.Params).Get("name").Str(), "slow") {
				answersOK(l, m)
			}
		}, answersOK)
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Health: threeFailures()}})
		r.watch.wait(t, isReady)
		for i := range 10 {
			if got := r.doToolAs(t.Context(), fmt.Sprint("p", i%2), "slow"); !strings.Contains(got, "did not answer within") {
				t.Fatalf("the slow tool: %s", got)
			}
			synctest.Wait()
		}
		if got := r.doTool(t.Context(), "echo"); got != `{"ok":1}` {
			t.Errorf("another tool: %s", got)
		}
		// Two slow tools, with answers of others meanwhile.
		var calls []<-chan string
		for i := range 10 {
			c := upstreamtest.ToolCall(fmt.Sprint("slow", i%3), fmt.Sprint("a", i), &upstreamtest.Peer{})
			c.Principal = &call.Principal{Subject: fmt.Sprint("p", i%2)}
			calls = append(calls, r.doing(t.Context(), c))
		}
		time.Sleep(time.Second)
		if got := r.doTool(t.Context(), "echo"); got != `{"ok":1}` {
			t.Errorf("another tool: %s", got)
		}
		for _, c := range calls {
			<-c
		}
		if got := r.doTool(t.Context(), "echo"); got != `{"ok":1}` {
			t.Errorf("after ten timeouts at once: %s", got)
		}
	})
}

// failsAs has a principal call until the breaker has opened, or calls have failed more often
// than it allows. It reports whether the breaker has opened.
func (r *rig) failsAs(t *testing.T, subject string) (open bool) {
	t.Helper()
	for i := range 10 {
		got := r.doToolAs(t.Context(), subject, fmt.Sprint("tool", i)) // not one slow tool alone
		if isOpen(got) {
			return true
		}
		if !strings.HasPrefix(got, "error") {
			t.Fatalf("a call of %s: %s", subject, got)
		}
		time.Sleep(protocol.ProbeTime) // the ping
	}
	return false
}

// The calls of one principal do not keep those of others out, whatever the server answers,
// as long as it answers pings. Failures of two principals do, and so does a server that ends
// in its calls.
func TestBreakerDistrustsOnePrincipal(t *testing.T) {
	for name, tc := range map[string]struct {
		calls, pings handler
		others       bool // a second principal calls too
		opens        bool
	}{
		"wrong answers":                   {calls: answersGarbage, pings: answersOK},
		"wrong answers, ping refused":     {calls: answersGarbage, pings: refuses},
		"wrong answers, wrong ping":       {calls: answersGarbage, pings: answersGarbage, opens: true},
		"wrong answers, no ping":          {calls: answersGarbage, opens: true},
		"wrong answers to two principals": {calls: answersGarbage, pings: answersOK, others: true, opens: true},
		"no answers":                      {pings: answersOK},
		"no answers to two principals":    {pings: answersOK, others: true, opens: true},
		"it ends":                         {calls: exits, pings: answersOK, opens: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwitchable()
				r := start(t, setup{Pipe: s.Pipe, Options: Options{Health: threeFailures()}})
				r.watch.wait(t, isReady)
				s.set(tc.calls, tc.pings)
				if tc.others {
					r.doToolAs(t.Context(), "bob", "echo")
				}
				if got := r.failsAs(t, "ann"); got != tc.opens {
					t.Errorf("open: %v, want %v", got, tc.opens)
				}
				s.set(answersOK, answersOK)
				if got := r.doToolAs(t.Context(), "bob", "echo"); isOpen(got) != tc.opens {
					t.Errorf("another principal: %s", got)
				}
			})
		})
	}
}

func refuses(l *upstreamtest.Instance, m wire.Message) {
	l.Refuse(m, wire.CodeMethodNotFound, "no ping here")
}

// A principal whose calls fail cannot keep an open breaker open once the server works again,
// even if all trials are its own. Failed trials of two principals keep it open.
func TestBreakerDistrustsTrialsOfOnePrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwitchable()
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Health: threeFailures()}})
		r.watch.wait(t, isReady)
		s.set(answersGarbage, answersOK)
		r.doToolAs(t.Context(), "bob", "echo")
		if !r.failsAs(t, "ann") {
			t.Fatal("the breaker is closed after failures of two principals")
		}
		trial := func(subject string) (open bool) {
			time.Sleep(openFor)
			if got := r.doToolAs(t.Context(), subject, "echo"); isOpen(got) {
				t.Fatalf("the trial of %s: %s", subject, got)
			}
			got := r.doToolAs(t.Context(), subject, "echo")
			return isOpen(got)
		}
		for i, subject := range []string{"bob", "ann", "bob", "ann"} {
			if !trial(subject) {
				t.Errorf("closed after trial %d, which has failed as one of another principal before", i)
			}
		}
		if trial("ann") {
			t.Error("open after two failed trials of one principal")
		}
		s.set(answersOK, answersOK)
		if got := r.doToolAs(t.Context(), "bob", "echo"); got != `{"ok":1}` {
			t.Errorf("another principal: %s", got)
		}
	})
}

// The failures of a row decide what happens at the third one.
func TestBreakerVerdicts(t *testing.T) {
	fail := func(how failure, principal, item string) *failedCall {
		return &failedCall{how, item, principal, "no", ""}
	}
	for name, tc := range map[string]struct {
		row  [3]*failedCall
		want verdict
	}{
		"no connection":              {[3]*failedCall{fail(unreached, "ann", "x"), fail(unreached, "ann", "x"), fail(unreached, "ann", "x")}, opened},
		"ends":                       {[3]*failedCall{fail(lost, "ann", "x"), fail(lost, "ann", "x"), fail(lost, "ann", "x")}, opened},
		"wrong answers":              {[3]*failedCall{fail(broken, "ann", "x"), fail(broken, "ann", "y"), fail(broken, "ann", "z")}, needsPing},
		"wrong answers, then an end": {[3]*failedCall{fail(broken, "ann", "x"), fail(broken, "ann", "x"), fail(lost, "ann", "x")}, opened},
		"of two principals":          {[3]*failedCall{fail(broken, "ann", "x"), fail(broken, "bob", "x"), fail(broken, "ann", "x")}, opened},
		"one slow item of two":       {[3]*failedCall{fail(timedOut, "ann", "x"), fail(timedOut, "bob", "x"), fail(timedOut, "ann", "x")}, needsPing},
		"slow items of two":          {[3]*failedCall{fail(timedOut, "ann", "x"), fail(timedOut, "bob", "y"), fail(timedOut, "ann", "x")}, opened},
		"slow items of one":          {[3]*failedCall{fail(timedOut, "ann", "x"), fail(timedOut, "ann", "y"), fail(timedOut, "ann", "x")}, needsPing},
	} {
		b := breaker{health: threeFailures(), metrics: NewMetrics()}
		now := time.Now()
		next := func(f *failedCall) verdict {
			now = now.Add(time.Second)
			a, _ := b.admit(now)
			return b.failed(a, f, now)
		}
		for _, f := range tc.row[:2] {
			if got := next(f); got != noVerdict {
				t.Errorf("%s: verdict %d too early", name, got)
			}
		}
		if got := next(tc.row[2]); got != tc.want {
			t.Errorf("%s: verdict %d, want %d", name, got, tc.want)
		}
		if tc.want == needsPing {
			if got := next(tc.row[0]); got != noVerdict {
				t.Errorf("%s: verdict %d while the ping runs", name, got)
			}
		}
	}
}

// A failed trial that closes the breaker is the first failure of the next row, which an
// answer ends.
func TestBreakerCountsAfterAFailedTrial(t *testing.T) {
	for _, answered := range []bool{false, true} {
		b := breaker{health: threeFailures(), metrics: NewMetrics()}
		now := time.Now()
		fail := func(principal string) verdict {
			now = now.Add(openFor)
			a, _ := b.admit(now)
			a.works = true
			return b.failed(a, &failedCall{broken, "x", principal, "no", ""}, now)
		}
		var got []verdict
		for _, principal := range []string{"ann", "bob", "bob", "ann", "ann"} {
			got = append(got, fail(principal))
		}
		if answered {
			b.answered()
		}
		got = append(got, fail("bob"), fail("bob"))
		want := []verdict{noVerdict, noVerdict, opened, reopened, closed, noVerdict, opened}
		if answered {
			want[6] = noVerdict
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answered: %v (-want +got):\n%s", answered, diff)
		}
	}
}

// While the trial runs, other calls fail at once. A trial that its client cancels leaves the
// decision to the next call; progress decides it early.
func TestBreakerTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwitchable()
		s.set(answersGarbage, answersGarbage)
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Health: threeFailures()}})
		r.watch.wait(t, isReady)
		for range 3 {
			r.doTool(t.Context(), "echo")
		}
		time.Sleep(openFor)
		s.set(nil, answersOK)
		ctx, cancel := context.WithCancel(t.Context())
		trial := r.doing(ctx, upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))
		synctest.Wait()
		if got := r.doTool(t.Context(), "echo"); !isOpen(got) {
			t.Errorf("beside the trial: %s", got)
		}
		cancel()
		if got := <-trial; !strings.Contains(got, context.Canceled.Error()) {
			t.Errorf("the trial: %s", got)
		}
		synctest.Wait()
		again := upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{})
		again.Params = wire.Raw(`{"name":"echo","_meta":{"progressToken":"p"}}`)
		trial = r.doing(t.Context(), again)
		synctest.Wait()
		if got := r.doTool(t.Context(), "echo"); !isOpen(got) {
			t.Errorf("beside the second trial: %s", got)
		}
		got := s.Instance(1).Received()
		s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, got[len(got)-1].ID)
		synctest.Wait()
		s.set(answersOK, answersOK)
		if got := r.doTool(t.Context(), "echo"); got != `{"ok":1}` {
			t.Errorf("after progress of the trial: %s", got)
		}
		s.Instance(1).Result(got[len(got)-1], `{"ok":2}`)
		if got := <-trial; got != `{"ok":2}` {
			t.Errorf("the trial: %s", got)
		}
	})
}

// If no call was sent, a new conversation closes the breaker at once.
func TestBreakerClosesOnReconnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwitchable()
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Health: NewHealth(HealthSettings{Failures: 3, Open: time.Hour})}})
		r.watch.wait(t, isReady)
		s.refuse(true)
		s.Instance(1).Quit()
		r.watch.wait(t, isDown)
		for range 3 {
			r.doTool(t.Context(), "echo")
		}
		if got := r.doTool(t.Context(), "echo"); !isOpen(got) {
			t.Fatalf("without a server: %s", got)
		}
		s.refuse(false)
		time.Sleep(time.Minute)
		if got := r.doTool(t.Context(), "echo"); got != `{"ok":1}` {
			t.Errorf("after the reconnection: %s", got)
		}
	})
}

// Answers and errors that say nothing about the server do not open the breaker.
func TestBreakerCountsFailuresOfTheServerOnly(t *testing.T) {
	g := newCallGuard(t.Context(), &call.Call{}, time.Minute, time.Hour)
	defer g.close()
	silent := newCallGuard(t.Context(), &call.Call{}, time.Minute, time.Hour)
	defer silent.close()
	silent.Cancel(errSilent)
	for name, tc := range map[string]struct {
		guard *callGuard
		err   error
		want  failure
	}{
		"no answer in time": {silent, context.Canceled, timedOut},
		"too long in all":   {g, errMaxDuration, notFailed},
		"overloaded":        {g, &protocol.CallError{NotSent: true, RetryAfter: protocol.RetryOverloaded}, notFailed},
		"HTTP 429":          {g, &protocol.CallError{NotSent: true, RetryAfter: time.Second, Cause: statusError(http.StatusTooManyRequests)}, notFailed},
		"HTTP 413":          {g, &protocol.CallError{Cause: statusError(http.StatusRequestEntityTooLarge)}, notFailed},
		"credentials":       {g, &protocol.CallError{NotSent: true, Unauthenticated: true}, notFailed},
		"too large":         {g, &protocol.CallError{TooLarge: true}, notFailed},
		"ended":             {g, &protocol.CallError{NotSent: true, Reason: ReasonEnded}, notFailed},
		"HTTP 503":          {g, &protocol.CallError{RetryAfter: time.Second, Cause: statusError(http.StatusServiceUnavailable)}, broken},
		"HTML":              {g, &protocol.CallError{Cause: &diagnose.UnexpectedContentType{Status: 200, MediaType: "text/html"}}, broken},
		"exit":              {g, &protocol.CallError{ConnectionLost: true, ConversationClosed: true, MayHaveExecuted: true, Cause: errors.New("exit")}, lost},
		"reset":             {g, &protocol.CallError{ConnectionLost: true}, broken},
		"no connection":     {g, &protocol.CallError{NotSent: true, ConnectionLost: true}, unreached},
	} {
		if got := failureOf(tc.guard, tc.err); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// An error that the server answers with closes the breaker as a result does, and a changed
// limit takes effect at once.
func TestHealthSettingsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breakers := NewHealth(HealthSettings{})
		s := newSwitchable()
		s.set(answersGarbage, answersGarbage)
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Health: breakers}})
		r.watch.wait(t, isReady)
		fails := func(n int) (open bool) {
			for range n {
				open = isOpen(r.doTool(t.Context(), "echo"))
				synctest.Wait() // for the ping
			}
			return open
		}
		if fails(20) {
			t.Error("a breaker that is off has opened")
		}
		breakers.Set(HealthSettings{Failures: 2, Open: time.Hour})
		if fails(1) || !fails(2) {
			t.Error("the new limit is not in force")
		}
		breakers.Set(HealthSettings{})
		if fails(1) {
			t.Error("a breaker that was turned off refuses calls")
		}
		breakers.Set(HealthSettings{Failures: 2, Open: time.Hour})
		s.set(func(l *upstreamtest.Instance, m wire.Message) { l.Refuse(m, -32602, "bad arguments") }, answersOK)
		if fails(20) {
			t.Error("errors of the server open the breaker")
		}
	})
}
