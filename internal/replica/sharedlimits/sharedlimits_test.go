package sharedlimits

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// failing are limits of a store that is away for a while.
type failing struct {
	store.Limits
	away atomic.Bool
}

func (f *failing) Acquire(ctx context.Context, holder string, lease time.Duration, limits ...store.Limit) (int, time.Duration, error) {
	reached, wait, err := f.Limits.Acquire(ctx, holder, lease, limits...)
	if f.away.Load() { // the answer is lost
		return -1, 0, store.ErrUnavailable
	}
	return reached, wait, err
}

var one = []store.Limit{{Key: store.Key{Kind: "limit", Name: "a"}, Concurrent: 1}}

// start runs limits until the function is called that it returns.
func start(t *testing.T, s store.Limits) (*Limits, func()) {
	l := New(s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		l.Run(ctx, time.Second)
		close(done)
	}()
	end := func() {
		cancel()
		<-done
	}
	t.Cleanup(end)
	return l, end
}

func take(t *testing.T, l *Limits) *Call {
	t.Helper()
	c, _, _, err := l.Take(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := new(storetest.Memory)
		a, endA := start(t, shared)
		b, _ := start(t, shared)
		c := take(t, a)
		time.Sleep(3 * leaseTime)
		synctest.Wait()
		if take(t, b) != nil {
			t.Fatal("a call that runs for long does not count")
		}
		c.Release()
		c.Release()
		synctest.Wait()
		if c = take(t, b); c == nil {
			t.Fatal("a call that has ended counts")
		}
		c.Release()
		synctest.Wait()
		if take(t, a) == nil {
			t.Fatal("a call that has ended counts")
		}
		endA() // its call runs, as if the replica had died
		time.Sleep(leaseTime - renewEvery)
		if take(t, b) != nil {
			t.Error("the call of a dead replica ends before its lease")
		}
		time.Sleep(2 * renewEvery)
		if take(t, b) == nil {
			t.Error("the call of a dead replica counts after its lease")
		}
	})
}

func TestAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := new(storetest.Memory)
		a, _ := start(t, shared)
		b, _ := start(t, shared)
		c := take(t, a)
		c.Ask()
		c.Ask()
		c.Answered()
		time.Sleep(renewEvery)
		synctest.Wait()
		other := take(t, b)
		if other == nil {
			t.Fatal("a call whose user is asked counts")
		}
		c.Answered()
		synctest.Wait()
		other.Release()
		synctest.Wait()
		if take(t, b) != nil {
			t.Error("a call goes on after a question and does not count")
		}
		c.Release()
		synctest.Wait()
		if take(t, b) == nil {
			t.Error("a call that has ended counts")
		}
	})
}

// A call that the store may have counted does not count until its lease ends.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &failing{Limits: new(storetest.Memory)}
		l, _ := start(t, s)
		s.away.Store(true)
		if c, _, _, err := l.Take(t.Context(), one); c != nil || err == nil {
			t.Fatalf("got %v, %v", c, err)
		}
		s.away.Store(false)
		synctest.Wait()
		if take(t, l) == nil {
			t.Error("the call counts")
		}
	})
}

// The calls that have ended are written before Run returns.
func TestEndWritesReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := new(storetest.Memory)
		l := New(shared)
		take(t, l).Release()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.Run(ctx, time.Second)
		if take(t, l) == nil {
			t.Error("the call counts")
		}
	})
}

// Every running call is renewed, in chunks. Calls that have ended are forgotten.
func TestManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, new(storetest.Memory))
		const n = 3*maxChunk + 1
		many := []store.Limit{{Key: one[0].Key, Concurrent: n}}
		calls := make([]*Call, n)
		for i := range calls {
			if calls[i], _, _, _ = l.Take(t.Context(), many); calls[i] == nil {
				t.Fatalf("call %d is refused", i)
			}
		}
		time.Sleep(3 * leaseTime)
		synctest.Wait()
		if c, _, _, _ := l.Take(t.Context(), many); c != nil {
			t.Error("a running call was not renewed")
		}
		for _, c := range calls {
			c.Release()
		}
		synctest.Wait()
		if take(t, l) == nil || len(l.running) != 1 {
			t.Errorf("%d calls run, want 1", len(l.running))
		}
	})
}
