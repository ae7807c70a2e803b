package connector

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// queue makes calls wait for a single slot that is in use and records the order in
// which they acquire it. It needs a synctest bubble.
type queue struct {
	p    *fairLimiter
	wg   sync.WaitGroup
	mu   sync.Mutex
	got  []string
	lost []string
}

func newQueue(t *testing.T, max int) *queue {
	q := &queue{p: newFairLimiter(1, newLimiterQueue(max))}
	if err := q.p.acquire(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return q
}

// wait makes n calls of an owner wait, one after another.
func (q *queue) wait(ctx context.Context, owner byte, n int) {
	for range n {
		q.wg.Go(func() {
			err := q.p.acquire(ctx, uint64(owner))
			q.mu.Lock()
			defer q.mu.Unlock()
			if err != nil {
				q.lost = append(q.lost, string(owner))
				return
			}
			q.got = append(q.got, string(owner))
		})
		synctest.Wait()
	}
}

// run releases the slot until no call waits.
func (q *queue) run() (got, lost string) {
	for range 100 {
		q.p.release()
		synctest.Wait()
	}
	q.wg.Wait()
	return strings.Join(q.got, ""), strings.Join(q.lost, "")
}

// An owner with many waiting calls does not delay owners with few.
func TestLimiterIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 100)
		q.wait(t.Context(), 'a', 4)
		q.wait(t.Context(), 'b', 2)
		q.wait(t.Context(), 'c', 1)
		if got, lost := q.run(); got != "abcabaa" || lost != "" {
			t.Errorf("slots went to %s, refused were %q", got, lost)
		}
	})
}

// One owner may fill half of the free queue. If the queue is full, a new call
// replaces a call of the owner with most calls.
func TestQueueShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 8)
		q.wait(t.Context(), 'a', 10) // 4 of 8
		if got := len(q.p.queue.all); got != 4 {
			t.Fatalf("%d calls of one owner wait in a queue of 8, want half", got)
		}
		q.wait(t.Context(), 'b', 10)    // 2 of the other 4
		q.wait(t.Context(), 'c', 10)    // 1 of 2
		q.wait(t.Context(), 'd', 1)     // the last free one
		q.wait(t.Context(), 'e', 1)     // replaces a call of a, the owner with most calls
		q.lost = q.lost[len(q.lost)-1:] // the last refused owner
		if got, lost := q.run(); got != "abcdeaba" || lost != "a" {
			t.Errorf("slots went to %s, the last refused was %q", got, lost)
		}
		if l := q.p.queue; len(l.all)+len(l.share)+len(q.p.waiting)+len(q.p.turns) != 0 {
			t.Errorf("the queue still has entries: %+v", l)
		}
	})
}

// The error of a call says whether the queue is full, or the client has its share of it.
func TestReasonOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newFairLimiter(1, newLimiterQueue(6))
		p.tryAcquire()
		wait := func(owner uint64, calls int) {
			for range calls {
				go p.acquire(ctx, owner)
				synctest.Wait()
			}
		}
		wait(1, 3)
		want := "overloaded: 1 call runs (max_concurrent 1) and 3 wait (max_queue 6); of those that wait, 3 are of this client, and one client may fill no more of the queue than is left for the others"
		if got := p.acquire(ctx, 1).Error(); got != want {
			t.Errorf("the share is reached: %s\nwant %s", got, want)
		}
		wait(2, 1)
		wait(3, 1)
		wait(4, 1)
		if got := p.acquire(ctx, 1).Error(); got != "overloaded: 1 call runs (max_concurrent 1) and 6 wait (max_queue 6)" {
			t.Errorf("the queue is full: %s", got)
		}
		p = newFairLimiter(2, newLimiterQueue(2))
		p.tryAcquire()
		p.tryAcquire()
		wait(1, 1)
		want = "overloaded: 2 calls run (max_concurrent 2) and 1 waits (max_queue 2); of those that wait, 1 is of this client, and one client may fill no more of the queue than is left for the others"
		if got := p.acquire(ctx, 1).Error(); got != want {
			t.Errorf("the share is one call: %s\nwant %s", got, want)
		}
		p = newFairLimiter(1, newLimiterQueue(0))
		p.tryAcquire()
		if got := p.acquire(ctx, 1).Error(); got != "overloaded: 1 call runs (max_concurrent 1) and 0 wait (max_queue 0)" {
			t.Errorf("no call may wait: %s", got)
		}
		cancel()
		synctest.Wait()
	})
}

// A cancelled call leaves the queue. A slot that it acquires too late goes to the
// next call.
func TestCancelledCallLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 8)
		ctx, cancel := context.WithCancel(t.Context())
		q.wait(ctx, 'a', 2)
		q.wait(t.Context(), 'b', 1)
		cancel()
		synctest.Wait()
		if got, lost := q.run(); got != "b" || lost != "aa" {
			t.Errorf("slots went to %s, refused were %q", got, lost)
		}
	})
}

// A call whose client has answered acquires a slot again, before calls that wait for
// their first slot. It waits for a bounded time, because the server may need the
// answer to make progress.
func TestReacquireAfterAnAsk(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after time.Duration // time until the slot is free
		want  time.Duration // time until the answer arrives
	}{
		{"one becomes free", time.Second, time.Second},
		{"none does", time.Minute, reacquireTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFairLimiter(1, newLimiterQueue(10))
				answer := make(chan struct{})
				back := &upstreamtest.Peer{OnAsk: func(context.Context, string, wire.Raw) (wire.Raw, error) {
					<-answer
					return nil, nil
				}}
				g := newCallGuard(t.Context(), &call.Call{Back: back}, time.Hour, time.Hour)
				if err := p.acquire(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				g.holdSlot(p)
				began := time.Now()
				var answered time.Duration
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := g.Ask(t.Context(), wire.MethodElicit, nil); err != nil {
						t.Error(err)
					}
					answered = time.Since(began)
				})
				synctest.Wait()
				if err := p.acquire(t.Context(), 2); err != nil { // another call acquires the slot meanwhile
					t.Fatal(err)
				}
				third := make(chan time.Duration, 1)
				wg.Go(func() {
					if err := p.acquire(t.Context(), 3); err != nil {
						t.Error(err)
					}
					third <- time.Since(began)
				})
				synctest.Wait()
				close(answer)
				time.Sleep(tc.after)
				p.release() // the slot of the other call
				synctest.Wait()
				if answered != tc.want {
					t.Errorf("the answer came after %s, want %s", answered, tc.want)
				}
				if len(third) != 0 {
					t.Error("two calls run at the same time")
				}
				g.close()
				synctest.Wait()
				if got := <-third; got != tc.after {
					t.Errorf("the next call ran after %s, want %s", got, tc.after)
				}
				wg.Wait()
			})
		})
	}
}

// The gauge counts the calls that wait, also after it was replaced.
func TestQueueIsMeasured(t *testing.T) {
	p := newFairLimiter(1, newLimiterQueue(10))
	first, second := prometheus.NewGauge(prometheus.GaugeOpts{}), prometheus.NewGauge(prometheus.GaugeOpts{})
	p.queue.measure(first)
	p.queue.mu.Lock()
	waiters := []*waiter{{owner: 1, limiter: p, turn: make(chan error, 1)}, {owner: 2, limiter: p, turn: make(chan error, 1)}}
	for _, w := range waiters {
		if err := p.enqueue(w); err != nil {
			t.Fatal(err)
		}
	}
	p.queue.mu.Unlock()
	if testutil.ToFloat64(first) != 2 {
		t.Errorf("%v calls wait, want 2", testutil.ToFloat64(first))
	}
	p.queue.measure(second)
	p.release()
	if testutil.ToFloat64(first) != 0 || testutil.ToFloat64(second) != 1 {
		t.Errorf("%v and %v calls wait, want 0 and 1", testutil.ToFloat64(first), testutil.ToFloat64(second))
	}
}

// A call that timed out says how much of its time it waited for a slot: the server did not have it then.
func TestTimeoutSaysHowLongTheCallWaited(t *testing.T) {
	for name, tt := range map[string]struct {
		serialize bool
		free      time.Duration // when a slot becomes free; 0: never
		progress  bool          // once the server has the call
		want      string
	}{
		"most of its time":       {false, 4600 * time.Millisecond, false, "the call waited 4.6s in the queue (max_concurrent 2), and the server did not answer within the 400ms that were left of the timeout of 5s"},
		"for its turn":           {true, 4 * time.Second, false, "the call waited 4s in the queue (the server gets one call at a time), and the server did not answer within the 1s that were left of the timeout of 5s"},
		"before a progress":      {false, 4600 * time.Millisecond, true, "the server did not answer within 5s"},
		"all of its time":        {false, 0, false, "overloaded: no slot was free within 5s"},
		"all of it for its turn": {true, 0, false, "overloaded: the server gets one call at a time, and those before this one took longer than 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
				r := start(t, setup{Pipe: s.Pipe, Options: Options{Serialize: tt.serialize, Limits: Limits{MaxConcurrent: 2, Timeout: 5 * time.Second}}})
				r.watch.wait(t, isReady)
				p := r.slots
				if tt.serialize {
					p = r.single
				}
				for p.tryAcquire() { // as calls that run do
				}
				c := upstreamtest.ToolCall("echo", "b", &upstreamtest.Peer{}).With(wire.Raw(`{"name":"echo","_meta":{"progressToken":1}}`))
				done := r.doing(t.Context(), c)
				if tt.free > 0 {
					time.Sleep(tt.free)
					p.release()
				}
				if tt.progress {
					m := s.Instance(1).Wait(t, upstreamtest.Method(wire.MethodToolsCall))
					s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, m.ID)
				}
				if got := <-done; !strings.Contains(got, tt.want) {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		})
	}
}
