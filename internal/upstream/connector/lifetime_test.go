package connector

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

func isIdle(s Snapshot) bool { return s.State == Idle }

// echoing returns a legacy server whose tools answer.
func echoing() *upstreamtest.Server {
	return &upstreamtest.Server{Handle: upstreamtest.Legacy(upstreamtest.Echo)}
}

// oneTool is what was remembered of a server: a tool less than echoing lists.
func oneTool() *Snapshot {
	return &Snapshot{
		Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"tools":{"listChanged":true},"logging":{}}`), Instructions: "be kind",
		Catalog: Catalog{Tools: []wire.Raw{wire.Raw(`{"name":"echo","inputSchema":{"type":"object"}}`)}},
	}
}

// expectCall calls a tool and expects its answer.
func (r *rig) expectCall(t *testing.T) {
	t.Helper()
	upstreamtest.Equal(t, "answer", upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))), `{"ok":1}`)
}

// A lazy upstream without a known catalog is started once to gather it. The first call
// starts it again, and clients are not told of changes that there are not.
func TestLazyGathersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metrics := echoing(), NewMetrics()
		core, logs := observer.New(zap.InfoLevel)
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Metrics: metrics, Logger: zap.New(core), Start: Start{Lifetime: Lifetime{Lazy: true}}}})
		r.watch.wait(t, isReady)
		idle := r.watch.wait(t, isIdle)
		upstreamtest.Equal(t, "the server has ended", s.Instance(1).Ended(), true)
		upstreamtest.Equal(t, "tools", len(idle.Catalog.Tools), 2)
		upstreamtest.Equal(t, "available", idle.Available(), true)
		upstreamtest.Equal(t, "upstream_up", testutil.ToFloat64(metrics.up.WithLabelValues("files")), 0)
		upstreamtest.Equal(t, "upstream_idle", testutil.ToFloat64(metrics.idle.WithLabelValues("files")), 1)
		time.Sleep(time.Hour)
		upstreamtest.Equal(t, "starts", s.Starts(), 1)

		r.expectCall(t)
		synctest.Wait()
		now := r.Snapshot()
		upstreamtest.Equal(t, "state", now.State, Ready)
		upstreamtest.Equal(t, "announced changes", now.Changes, idle.Changes)
		upstreamtest.Equal(t, "upstream_idle", testutil.ToFloat64(metrics.idle.WithLabelValues("files")), 0)
		upstreamtest.Equal(t, "restarts", testutil.ToFloat64(metrics.restarts.WithLabelValues("files")), 0)
		time.Sleep(time.Hour)
		upstreamtest.Equal(t, "starts", s.Starts(), 2)
		upstreamtest.Equal(t, "a used server without idle_stop goes on", s.Instance(2).Ended(), false)
		for _, message := range []string{"the upstream is idle: nothing needs it", "the upstream is started: it is needed"} {
			upstreamtest.Equal(t, message, logs.FilterMessage(message).Len(), 1)
		}
	})
}

// A lazy upstream whose catalog is remembered is not started before it is needed. Calls at
// the same moment start one process, and then the catalog is compared.
func TestLazyRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echoing()
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Start: Start{Remembered: oneTool(), Lifetime: Lifetime{Lazy: true, IdleStop: time.Minute}}}})
		before := r.watch.wait(t, isIdle)
		time.Sleep(time.Hour)
		upstreamtest.Equal(t, "starts before the first call", s.Starts(), 0)
		upstreamtest.Equal(t, "remembered tools", len(before.Catalog.Tools), 1)
		upstreamtest.Equal(t, "settled", before.Settled, true)

		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() { r.expectCall(t) })
		}
		calls.Wait()
		synctest.Wait()
		upstreamtest.Equal(t, "starts", s.Starts(), 1)
		upstreamtest.Equal(t, "tools", len(r.Snapshot().Catalog.Tools), 2)
		time.Sleep(59 * time.Second)
		upstreamtest.Equal(t, "ended before idle_stop", s.Instance(1).Ended(), false)
		time.Sleep(2 * time.Second)
		upstreamtest.Equal(t, "state after idle_stop", r.Snapshot().State, Idle)
		upstreamtest.Equal(t, "ended after idle_stop", s.Instance(1).Ended(), true)
		r.expectCall(t)
		upstreamtest.Equal(t, "starts", s.Starts(), 2)
	})
}

// idle_stop waits for calls, and also applies to an upstream that is started at once.
func TestIdleStopWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method == wire.MethodToolsCall {
				go func() {
					time.Sleep(10 * time.Minute)
					l.Finish(m)
				}()
			}
		})}
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Limits: Limits{Timeout: time.Hour}, Start: Start{Lifetime: Lifetime{IdleStop: time.Minute}}}})
		r.watch.wait(t, isReady)
		time.Sleep(30 * time.Second)
		r.expectCall(t)
		upstreamtest.Equal(t, "starts", s.Starts(), 1)
		time.Sleep(59 * time.Second)
		upstreamtest.Equal(t, "state before idle_stop", r.Snapshot().State, Ready)
		time.Sleep(2 * time.Second)
		upstreamtest.Equal(t, "state after idle_stop", r.Snapshot().State, Idle)
		time.Sleep(time.Hour)
		upstreamtest.Equal(t, "starts", s.Starts(), 1)
	})
}

// A subscription starts an idle upstream, and keeps it until its end.
func TestIdleStopWaitsForSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var subs subscriptions
		s := &upstreamtest.Server{Handle: subs.handle}
		known := &Snapshot{Revision: wire.Rev20251125, Capabilities: wire.Raw(subscribable)}
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Start: Start{Remembered: known, Lifetime: Lifetime{Lazy: true, IdleStop: time.Minute}}}})
		r.watch.wait(t, isIdle)
		if err := r.Subscribe(t.Context(), "x:a"); err != nil {
			t.Fatal(err)
		}
		if err := r.Subscribe(t.Context(), "x:bad"); err == nil {
			t.Error("the server's refusal is missing")
		}
		time.Sleep(time.Hour)
		upstreamtest.Equal(t, "ended with a subscription", s.Instance(1).Ended(), false)
		r.Unsubscribe("x:a")
		r.Unsubscribe("x:a") // once too often
		time.Sleep(61 * time.Second)
		upstreamtest.Equal(t, "ended without", s.Instance(1).Ended(), true)
		upstreamtest.Equal(t, "users", r.usage.users.Load(), 0)
	})
}

// A task lives at the server, so it keeps the connection until its result was fetched.
func TestIdleStopWaitsForTasks(t *testing.T) {
	for name, tt := range map[string]struct {
		task string
		then func(r *rig, t *testing.T)
		ends time.Duration // after the last use
	}{
		"fetched":     {`"ttl":null`, func(r *rig, t *testing.T) { r.about(t, wire.MethodTasksResult) }, time.Minute},
		"ttl":         {`"ttl":600000`, nil, 10 * time.Minute},
		"nobody asks": {`"ttl":null`, nil, time.Hour},
		"working":     {`"ttl":600000`, func(r *rig, t *testing.T) { r.about(t, wire.MethodTasksGet) }, 10 * time.Minute},
		"cancelled":   {`"ttl":600000`, func(r *rig, t *testing.T) { r.about(t, wire.MethodTasksCancel) }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
					switch m.Method {
					case wire.MethodToolsCall:
						l.Result(m, `{"task":{"taskId":"t1","status":"working",`+tt.task+`}}`)
					case wire.MethodTasksGet:
						l.Result(m, `{"taskId":"t1","status":"working",`+tt.task+`}`)
					case wire.MethodTasksCancel:
						l.Result(m, `{"taskId":"t1","status":"cancelled"}`)
					case wire.MethodTasksResult:
						l.Result(m, `{"content":[]}`)
					}
				})}
				r := start(t, setup{Pipe: s.Pipe, Options: Options{Start: Start{Remembered: oneTool(), Lifetime: Lifetime{Lazy: true, IdleStop: time.Minute}}}})
				c := upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{})
				c.Params = wire.SetMember(c.Params, "task", wire.Raw(`{}`))
				if _, err := r.Do(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if tt.then != nil {
					time.Sleep(5 * time.Minute)
					upstreamtest.Equal(t, "ended with a task", s.Instance(1).Ended(), false)
					tt.then(r, t)
				}
				time.Sleep(tt.ends - time.Second)
				upstreamtest.Equal(t, "ended too early", s.Instance(1).Ended(), false)
				time.Sleep(2 * time.Second)
				upstreamtest.Equal(t, "ended", s.Instance(1).Ended(), true)
			})
		})
	}
}

// about makes a request about the task t1.
func (r *rig) about(t *testing.T, method string) {
	t.Helper()
	c := upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{})
	c.Method, c.Params = method, wire.Raw(`{"taskId":"t1"}`)
	if _, err := r.Do(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// A lazy upstream that ends by itself is down, and then idle; it is not started again
// before it is needed. One whose catalog is unknown is tried until it is.
func TestLazyServerThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
			if l.N < 3 {
				l.Quit()
				return
			}
			upstreamtest.Legacy(upstreamtest.Echo)(l, m)
		}}
		r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy, Options: Options{Start: Start{Lifetime: Lifetime{Lazy: true}}}})
		r.watch.wait(t, isDown)
		r.watch.wait(t, isIdle)
		upstreamtest.Equal(t, "starts until the catalog was known", s.Starts(), 3)
		r.expectCall(t)
		synctest.Wait()
		s.Instance(4).Quit()
		time.Sleep(time.Hour)
		upstreamtest.Equal(t, "starts after the end", s.Starts(), 4)
		upstreamtest.Equal(t, "state", r.Snapshot().State, Idle)
		r.expectCall(t)
		synctest.Wait()
		var states []string
		for _, s := range r.watch.all() {
			if now := s.State.String(); len(states) == 0 || states[len(states)-1] != now {
				states = append(states, now)
			}
		}
		want := "down ready idle connecting ready down idle connecting ready"
		upstreamtest.Equal(t, "states", strings.Join(states, " "), want)
	})
}

// A start that fails leaves the upstream down, with the reason, until an attempt succeeds.
func TestLazyStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var works atomic.Bool
		s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
			if !works.Load() {
				l.Quit()
				return
			}
			upstreamtest.Legacy(upstreamtest.Echo)(l, m)
		}}
		r := start(t, setup{Pipe: s.Pipe, Era: wire.EraLegacy, Options: Options{Start: Start{Remembered: oneTool(), Lifetime: Lifetime{Lazy: true}}}})
		r.watch.wait(t, isIdle)
		if _, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{})); err == nil || !strings.Contains(err.Error(), "connection to the server was lost") {
			t.Errorf("the call ended with %v, want the reason of the failed start", err)
		}
		down := r.watch.wait(t, isDown)
		upstreamtest.Equal(t, "available", down.Available(), false)
		works.Store(true)
		time.Sleep(time.Minute)
		upstreamtest.Equal(t, "state after a successful attempt", r.Snapshot().State, Idle)
	})
}

// The lifetime may change at any time.
func TestSetLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echoing()
		r := start(t, setup{Pipe: s.Pipe})
		r.watch.wait(t, isReady)
		time.Sleep(time.Hour)
		state := func(what string, want State) {
			t.Helper()
			time.Sleep(5 * time.Second)
			upstreamtest.Equal(t, what, r.Snapshot().State, want)
		}
		r.SetLifetime(Lifetime{Lazy: true})
		state("lazy, and never used", Idle)
		r.SetLifetime(Lifetime{})
		state("eager again", Ready)
		r.expectCall(t)
		r.SetLifetime(Lifetime{Lazy: true})
		state("lazy, and used", Ready)
		r.SetLifetime(Lifetime{Lazy: true, IdleStop: time.Minute})
		time.Sleep(time.Minute)
		state("lazy after idle_stop", Idle)
		r.SetLifetime(Lifetime{IdleStop: time.Minute})
		state("eager, but stopped", Idle)
		r.SetLifetime(Lifetime{})
		state("eager without idle_stop", Ready)
		upstreamtest.Equal(t, "starts", s.Starts(), 3)
	})
}

// Few lazy upstreams gather their catalogs at the same time; a call needs no slot.
func TestGatherSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewGatherSlots(1)
		var hold atomic.Bool
		hold.Store(true)
		first := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
			if !hold.Load() {
				upstreamtest.Legacy(upstreamtest.Echo)(l, m)
			}
		}}
		second := echoing()
		lazy := Options{Start: Start{Lifetime: Lifetime{Lazy: true}, GatherSlots: slots}}
		a := start(t, setup{Pipe: first.Pipe, Options: lazy})
		synctest.Wait()
		b := start(t, setup{Pipe: second.Pipe, Options: lazy})
		time.Sleep(10 * time.Second)
		upstreamtest.Equal(t, "starts of the first", first.Starts(), 1)
		upstreamtest.Equal(t, "starts of the second", second.Starts(), 0)
		b.expectCall(t)
		upstreamtest.Equal(t, "starts of the second", second.Starts(), 1)
		hold.Store(false)
		a.watch.wait(t, isIdle)
		upstreamtest.Equal(t, "slots in use", len(slots), 0)
	})
}

// A known catalog is gathered again if it is old.
func TestRegather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echoing()
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Start: Start{Remembered: oneTool(), Lifetime: Lifetime{Lazy: true}}}})
		r.watch.wait(t, isIdle)
		for n, tt := range []struct {
			wait   time.Duration
			starts int
		}{{0, 1}, {time.Minute, 1}, {time.Hour, 2}} {
			time.Sleep(tt.wait)
			r.Regather(time.Hour)
			time.Sleep(10 * time.Second)
			upstreamtest.Equal(t, fmt.Sprintf("starts %d", n), s.Starts(), tt.starts)
			upstreamtest.Equal(t, fmt.Sprintf("state %d", n), r.Snapshot().State, Idle)
		}
		upstreamtest.Equal(t, "tools", len(r.Snapshot().Catalog.Tools), 2)
	})
}

// Calls that begin in the moment in which the upstream is stopped are answered, once.
func TestCallsWhileStopping(t *testing.T) {
	s := echoing()
	r := start(t, setup{Pipe: s.Pipe, Options: Options{Start: Start{Remembered: oneTool(), Lifetime: Lifetime{Lazy: true, IdleStop: time.Millisecond}}}})
	const callers, each = 4, 100
	var calls sync.WaitGroup
	for n := range callers {
		calls.Go(func() {
			for i := range each {
				if i%5 == 0 {
					time.Sleep(time.Duration(n+1) * 700 * time.Microsecond) // so that it is stopped now and then
				}
				r.expectCall(t)
			}
		})
	}
	calls.Wait()
	upstreamtest.Equal(t, "calls that the server got", s.Calls(), callers*each)
	t.Logf("%d starts", s.Starts())
}

// A call that begins while the connection is about to end keeps it: it may have found it.
func TestUseKeepsAConnectionThatRetires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwitchable()
		r := start(t, setup{Pipe: s.Pipe})
		r.watch.wait(t, isReady)
		conn := r.current()
		end := r.Use()
		if r.retire(conn) || r.current() != conn {
			t.Error("the connection ends in spite of a use")
		}
		end()
		if !r.retire(conn) || r.current() != nil {
			t.Error("the connection stays without a use")
		}
	})
}
