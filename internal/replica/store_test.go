package replica

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// While the store is away for a short time, conversations wait for it. If it is away for long, they end.
func TestStoreAway(t *testing.T) {
	for _, tt := range []struct {
		away time.Duration
		lost bool
	}{{4 * time.Second, false}, {20 * time.Second, true}} {
		t.Run(tt.away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &switchable{Memory: &storetest.Memory{}}
				a := start(t, s, "a", nil)
				goOn := make(chan bool)
				start(t, s, "b", func(r *Replicas) {
					r.Handle("wait", func(ctx context.Context, _ string, _ []byte, _ *Conversation) ([]byte, error) {
						select {
						case <-goOn:
						case <-ctx.Done():
						}
						return []byte("late"), ctx.Err()
					})
				})
				type result struct {
					reply []byte
					err   error
				}
				results := make(chan result, 1)
				go func() {
					reply, err := a.Call(t.Context(), "b", "wait", nil, nil)
					results <- result{reply, err}
				}()
				synctest.Wait()
				s.away.Store(true)
				time.Sleep(2 * time.Second)
				if !tt.lost {
					goOn <- true
				}
				if _, err := a.Call(t.Context(), "b", "wait", nil, nil); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, ErrLost) {
					t.Errorf("a new call ends with %v", err)
				}
				time.Sleep(tt.away - 2*time.Second)
				if tt.lost {
					if got := <-results; !errors.Is(got.err, ErrLost) || !errors.Is(got.err, store.ErrUnavailable) {
						t.Errorf("the call ends with %q, %v", got.reply, got.err)
					}
				}
				s.away.Store(false)
				if !tt.lost {
					if got := <-results; string(got.reply) != "late" || got.err != nil {
						t.Errorf("the call ends with %q, %v", got.reply, got.err)
					}
				}
				time.Sleep(2 * a.ttl())
				go func() { goOn <- true }()
				if reply, err := a.Call(t.Context(), "b", "wait", nil, nil); string(reply) != "late" {
					t.Errorf("a call after the store is back: %q, %v", reply, err)
				}
			})
		})
	}
}

// A replica whose sign of life has ended while the store was away does not count as ended at another replica that finds the store again before it.
func TestStoreBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &switchable{Memory: &storetest.Memory{}}
		var ended atomic.Int64
		b := start(t, s, "b", func(r *Replicas) { r.Handle("echo", echo) })
		time.Sleep(b.o.Beat / 2)
		a := start(t, s, "a", func(r *Replicas) { r.o.Dead = func(context.Context, string) { ended.Add(1) } })
		time.Sleep(2 * a.o.Beat)
		s.away.Store(true)
		for a.up() || b.up() {
			time.Sleep(a.o.Beat / 10)
		}
		_ = s.Delete(t.Context(), aliveKey("b")) // it has ended, or a server that took over never had it
		s.away.Store(false)
		b.store.dead.Store(true) // b reaches the store a little later
		for !a.up() {
			time.Sleep(a.o.Beat / 10)
		}
		synctest.Wait()
		if n := ended.Load(); n != 0 {
			t.Errorf("b counts as ended %d times", n)
		}
		if _, err := a.Call(t.Context(), "made-up", "echo", nil, nil); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, ErrLost) {
			t.Errorf("a request to a replica that was never seen: %v", err)
		}
		go func() {
			time.Sleep(a.o.Beat)
			b.store.dead.Store(false)
		}()
		if reply, err := a.Call(t.Context(), "b", "echo", []byte("hi"), nil); string(reply) != "a: hi" {
			t.Errorf("%q, %v", reply, err)
		}
		b.die()
		time.Sleep(3 * a.ttl())
		if _, err := a.Call(t.Context(), "b", "echo", nil, nil); !errors.Is(err, ErrGone) || ended.Load() != 0 {
			t.Errorf("when b is silent: %v, it counts as dead %d times", err, ended.Load())
		}
		time.Sleep(a.o.DeadAfter)
		if ended.Load() == 0 {
			t.Error("b does not count as dead")
		}
	})
}

// A replica that is silent for a while, because it was paused or lost the store alone, has ended for others, but it is not dead: it may still use what
// it had. It learns that others may have taken it for dead. One that ends in order never counts as dead.
func TestSilentIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &switchable{Memory: &storetest.Memory{}}
		var dead, forgotten atomic.Int64
		a := start(t, s, "a", func(r *Replicas) { r.o.Dead = func(context.Context, string) { dead.Add(1) } })
		b := start(t, s, "b", func(r *Replicas) {
			r.Handle("echo", echo)
			r.o.Forgotten = func() { forgotten.Add(1) }
		})
		c := start(t, s, "c", func(r *Replicas) { r.Handle("echo", echo) })
		for _, name := range []string{"b", "c"} {
			if _, err := a.Call(t.Context(), name, "echo", nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		c.stop()
		for range 3 { // together it is silent for longer than a dead one
			b.die()
			time.Sleep(a.o.DeadAfter / 2)
			if _, err := a.Call(t.Context(), "b", "echo", nil, nil); !errors.Is(err, ErrGone) {
				t.Errorf("a request to a silent replica: %v", err)
			}
			before := forgotten.Load()
			b.store.dead.Store(false)
			time.Sleep(2 * a.ttl())
			if _, err := a.Call(t.Context(), "b", "echo", nil, nil); err != nil {
				t.Errorf("a request to a replica that is back: %v", err)
			}
			if n := forgotten.Load() - before; n != 1 {
				t.Errorf("the replica was told %d times that the store had forgotten it, want 1", n)
			}
		}
		time.Sleep(2 * a.o.DeadAfter)
		if n := dead.Load(); n != 0 {
			t.Errorf("replicas that live or have ended in order count as dead %d times", n)
		}
		b.die()
		time.Sleep(a.o.DeadAfter + 3*a.ttl())
		if n := dead.Load(); n != 1 {
			t.Errorf("a dead replica counts as dead %d times", n)
		}
	})
}

// A store that comes back empty makes no replica that is alive count as ended, and later calls succeed.
func TestStoreEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &switchable{Memory: &storetest.Memory{}}
		a := start(t, s, "a", nil)
		time.Sleep(a.o.Beat / 2)
		b := start(t, s, "b", func(r *Replicas) { r.Handle("echo", echo); r.Handle("hang", hang(make(chan error, 1))) })
		go func() { _, _ = a.Call(t.Context(), "b", "hang", nil, nil) }()
		synctest.Wait()
		_ = s.Delete(t.Context(), aliveKey("a"), aliveKey("b"), membersKey, inboxKey("a"), inboxKey("b"))
		time.Sleep(a.o.Beat) // now a is back, and b is not
		synctest.Wait()
		if reply, err := a.Call(t.Context(), "b", "echo", []byte("hi"), nil); string(reply) != "a: hi" {
			t.Errorf("%q, %v", reply, err)
		}
		if n := testutil.ToFloat64(a.o.Metrics.conversations.WithLabelValues(sideCaller)); n != 1 {
			t.Errorf("%v conversations go on, want 1", n)
		}
		b.die()
		time.Sleep(3 * a.ttl())
		if _, err := a.Call(t.Context(), "b", "echo", nil, nil); !errors.Is(err, ErrGone) {
			t.Errorf("after b has died: %v", err)
		}
	})
}

// If messages are lost, the conversations end on both sides, and later calls succeed.
func TestLostMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &switchable{Memory: &storetest.Memory{}}
		a := start(t, s, "a", nil)
		ended := make(chan error, 1)
		b := start(t, s, "b", func(r *Replicas) {
			r.Handle("echo", echo)
			r.Handle("hang", hang(ended))
		})
		result := make(chan error, 1)
		go func() { _, err := a.Call(t.Context(), "b", "hang", nil, nil); result <- err }()
		synctest.Wait()
		s.forget.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := a.Call(ctx, "b", "echo", nil, nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the lost call ends with %v", err)
		}
		synctest.Wait()
		s.forget.Store(false)
		if err := <-result; !errors.Is(err, ErrLost) {
			t.Errorf("the call ends with %v", err)
		}
		if err := <-ended; !errors.Is(err, ErrLost) {
			t.Errorf("the handler ends with %v", err)
		}
		if n := testutil.ToFloat64(b.o.Metrics.lost.WithLabelValues(lostGap)); n != 1 {
			t.Errorf("b counts %v gaps, want 1", n)
		}
		for range 3 {
			if reply, err := a.Call(t.Context(), "b", "echo", nil, nil); err != nil {
				t.Errorf("%q, %v", reply, err)
			}
		}
	})
}
