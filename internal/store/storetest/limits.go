package storetest

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/store"
)

// lease is longer than any test.
const lease = 10 * time.Minute

// acquire fails the test unless the limit with this index is reached, -1 for none. It returns how long
// to wait.
func acquire(t *testing.T, s store.Store, holder string, want int, limits ...store.Limit) time.Duration {
	t.Helper()
	reached, wait, err := s.Acquire(t.Context(), holder, lease, limits...)
	ok(t, err)
	if reached != want {
		t.Fatalf("limit %d is reached, want %d", reached, want)
	}
	if (wait > 0) != (want >= 0) {
		t.Fatalf("limit %d: the wait is %v", reached, wait)
	}
	return wait
}

func rates(t *testing.T, s store.Store) {
	slow := store.Limit{Key: unique("limit"), Rate: 0.001, Burst: 3}
	for range 3 {
		acquire(t, s, rand.Text(), -1, slow)
	}
	if wait := acquire(t, s, rand.Text(), 0, slow); wait < 900*time.Second || wait > 1000*time.Second {
		t.Errorf("the wait is %v, want 1000 s less what has passed", wait)
	}
	other := slow
	other.Key = unique("limit")
	acquire(t, s, rand.Text(), -1, other)

	fast := store.Limit{Key: unique("limit"), Rate: 100, Burst: 1}
	acquire(t, s, rand.Text(), -1, fast)
	polltest.Until(t, "a call fits again", func() bool {
		reached, wait, err := s.Acquire(t.Context(), rand.Text(), lease, fast)
		ok(t, err)
		if wait > 10*time.Millisecond {
			t.Errorf("the wait is %v, at a hundred calls each second", wait)
		}
		return reached < 0
	})
	acquire(t, s, rand.Text(), -1)
	for range 5 {
		acquire(t, s, rand.Text(), -1, store.Limit{Key: unique("limit")}) // without bounds
	}
	// A limit that is used again only after a long time is remembered that long.
	daily := store.Limit{Key: unique("limit"), Rate: 1. / (24 * 3600), Burst: 1}
	acquire(t, s, rand.Text(), -1, daily)
	if wait := acquire(t, s, rand.Text(), 0, daily); wait < 23*time.Hour || wait > 24*time.Hour {
		t.Errorf("the wait is %v, want a day", wait)
	}
}

func concurrency(t *testing.T, s store.Store) {
	l := store.Limit{Key: unique("limit"), Concurrent: 2}
	acquire(t, s, "a", -1, l)
	acquire(t, s, "b", -1, l)
	acquire(t, s, "c", 0, l)
	ok(t, s.Release(t.Context(), "a", l))
	ok(t, s.Release(t.Context(), "a", l))
	ok(t, s.Release(t.Context(), "never", l))
	acquire(t, s, "c", -1, l)
	acquire(t, s, "d", 0, l)
	ok(t, s.Release(t.Context(), "b", l, store.Limit{Key: unique("limit"), Rate: 1, Burst: 1}))
	acquire(t, s, "e", -1, l)
}

// A call that is refused takes nothing out of any limit.
func together(t *testing.T, s store.Store) {
	free := store.Limit{Key: unique("limit"), Rate: 0.001, Burst: 2, Concurrent: 2}
	full := store.Limit{Key: unique("limit"), Concurrent: 1}
	last := store.Limit{Key: unique("limit"), Rate: 0.001, Burst: 1}
	acquire(t, s, "full", -1, full)
	for i := range 5 {
		acquire(t, s, fmt.Sprint(i), 2, last, free, full)
	}
	ok(t, s.Release(t.Context(), "full", full))
	acquire(t, s, "a", -1, last, free, full)
	acquire(t, s, "b", 0, last, free, full)
	ok(t, s.Release(t.Context(), "a", last, free, full))
	acquire(t, s, "b", -1, free, full)
	ok(t, s.Release(t.Context(), "b", free, full))
	acquire(t, s, "c", 1, full, free) // the rate stays taken
	acquire(t, s, "c", -1, full)
}

func leases(t *testing.T, s store.Store) {
	ctx := t.Context()
	l := store.Limit{Key: unique("limit"), Concurrent: 1}
	if reached, _, err := s.Acquire(ctx, "a", 20*time.Millisecond, l); err != nil || reached != -1 {
		t.Fatalf("limit %d is reached, %v", reached, err)
	}
	ok(t, s.Renew(ctx, lease, map[string][]store.Limit{"a": {l}}))
	acquire(t, s, "b", 0, l)
	ok(t, s.Renew(ctx, 20*time.Millisecond, map[string][]store.Limit{"a": {l}}))
	polltest.Until(t, "the lease has passed", func() bool {
		reached, _, err := s.Acquire(ctx, "b", lease, l)
		ok(t, err)
		return reached < 0
	})
	// A holder that was away too long counts again, though the limit is reached.
	ok(t, s.Renew(ctx, lease, map[string][]store.Limit{"a": {l, {Key: unique("limit"), Rate: 1, Burst: 1}}, "c": nil}))
	ok(t, s.Release(ctx, "b", l))
	acquire(t, s, "b", 0, l)
	ok(t, s.Release(ctx, "a", l))
	acquire(t, s, "b", -1, l)
}

func oneAcquires(t *testing.T, s store.Store) {
	l := store.Limit{Key: unique("limit"), Rate: 0.001, Burst: 7, Concurrent: 5}
	if n := many(func(i int) bool {
		reached, _, err := s.Acquire(t.Context(), fmt.Sprint(i), lease, l)
		if err != nil {
			t.Error(err)
		}
		return reached < 0
	}); n != 5 {
		t.Errorf("%d calls run at once, want 5", n)
	}
}

// A reload changes a limit: what was taken stays taken, and a raised limit adds the difference at once.
func changedLimits(t *testing.T, s store.Store) {
	l := store.Limit{Key: unique("limit"), Rate: 0.001, Burst: 5, Concurrent: 2}
	acquire(t, s, "a", -1, l)
	acquire(t, s, "b", -1, l)
	acquire(t, s, "c", 0, l)
	l.Concurrent, l.Burst = 9, 2
	acquire(t, s, "c", 0, l) // two calls of two
	l.Burst = 4
	acquire(t, s, "c", -1, l)
	acquire(t, s, "d", -1, l)
	acquire(t, s, "e", 0, l)
	l.Concurrent, l.Burst = 4, 9
	acquire(t, s, "e", 0, l)
	ok(t, s.Release(t.Context(), "a", l))
	acquire(t, s, "e", -1, l)
	l.Concurrent, l.Burst = 0, 3
	if wait := acquire(t, s, "f", 0, l); wait < 2900*time.Second || wait > 3000*time.Second {
		t.Errorf("the wait is %v, want that for three calls", wait)
	}

	// Calls taken at a high rate are forgotten at that rate, and not at the low one of a lowered limit.
	l = store.Limit{Key: unique("limit"), Rate: 100, Burst: 100}
	for range 10 {
		acquire(t, s, "a", -1, l)
	}
	l.Rate, l.Burst = 0.001, 2
	polltest.Until(t, "a call fits again", func() bool {
		reached, wait, err := s.Acquire(t.Context(), "b", lease, l)
		ok(t, err)
		if wait > time.Second {
			t.Fatalf("the wait is %v", wait)
		}
		return reached < 0
	})
	for range 2 {
		if reached, _, err := s.Acquire(t.Context(), "b", lease, l); err != nil || reached == 0 {
			return
		}
	}
	t.Error("the lowered limit is not applied")
}
