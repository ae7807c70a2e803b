package opensessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// away is a store that does not answer for a while.
type away struct {
	storetest.Memory
	is atomic.Bool
}

func (a *away) PutField(ctx context.Context, key store.Key, field string, value []byte, max int, ttl time.Duration) (bool, error) {
	if a.is.Load() {
		return false, store.ErrUnavailable
	}
	return a.Memory.PutField(ctx, key, field, value, max, ttl)
}

// ended returns the sessions that a replica ends for a dead one.
func ended(t *testing.T, s store.Store, dead string) map[string]bool {
	t.Helper()
	var mu sync.Mutex
	out := map[string]bool{}
	_, err := New(s, "other").EndAll(t.Context(), dead, func(_ context.Context, s Session) {
		mu.Lock()
		defer mu.Unlock()
		out[s.Upstream+" "+s.ID] = true
	})
	if err != nil {
		t.Error(err)
	}
	return out
}

// The sessions that a dead replica had open are ended, by one of the others, and those that it had closed are not.
func TestSessionsOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(away)
		b := New(s, "dead")
		ctx, die := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { b.Run(ctx) })
		closed := Session{Upstream: "u", ID: "closed"}
		b.Opened(closed)
		b.Opened(Session{Upstream: "u", ID: "open"})
		synctest.Wait()
		b.Closed(closed)
		s.is.Store(true)
		b.Opened(Session{Upstream: "v", ID: "open"})
		synctest.Wait()
		s.is.Store(false)
		time.Sleep(2 * TTL) // it renews what it has
		die()
		run.Wait()

		var count atomic.Int32
		var group sync.WaitGroup
		for i := range 3 {
			group.Go(func() {
				_, err := New(s, fmt.Sprint(i)).EndAll(t.Context(), "dead", func(context.Context, Session) { count.Add(1) })
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := count.Load(); n != 2 {
			t.Errorf("%d sessions were ended, want 2", n)
		}
		if got := ended(t, s, "dead"); len(got) != 0 {
			t.Errorf("afterwards these sessions were ended: %v", got)
		}
	})
}

// A replica that was taken for dead and lives writes its sessions again, and they are ended when it dies later. When it has ended in order, none are
// left.
func TestSessionsOfOneThatLivesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(storetest.Memory)
		b := New(s, "paused")
		ctx, die := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { b.Run(ctx) })
		b.Opened(Session{Upstream: "u", ID: "first"})
		synctest.Wait()
		if got := ended(t, s, "paused"); !got["u first"] {
			t.Errorf("these sessions were ended: %v", got)
		}
		b.Opened(Session{Upstream: "u", ID: "second"})
		b.Rewrite()
		synctest.Wait()
		if got := ended(t, s, "paused"); len(got) != 2 {
			t.Errorf("these sessions were ended: %v", got)
		}
		b.Rewrite()
		synctest.Wait()
		die()
		run.Wait()
		b.Clear()
		if got := ended(t, s, "paused"); len(got) != 0 {
			t.Errorf("after an orderly end these sessions were ended: %v", got)
		}
	})
}

// Sessions that a replica opens while another one ends its sessions stay in the store.
func TestSessionOpenedMeanwhile(t *testing.T) {
	s := new(storetest.Memory)
	put := func(field string, one Session) {
		value, err := json.Marshal(one)
		if err == nil {
			_, err = s.PutField(t.Context(), sessionsOf("paused"), field, value, 9, TTL)
		}
		if err != nil {
			t.Error(err)
		}
	}
	put("a", Session{Upstream: "u", ID: "first"})
	n, err := New(s, "other").EndAll(t.Context(), "paused", func(context.Context, Session) { put("b", Session{Upstream: "u", ID: "second"}) })
	if n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got := ended(t, s, "paused"); len(got) != 1 || !got["u second"] {
		t.Errorf("these sessions were ended: %v", got)
	}
}

// After a time servers end sessions by themselves, and the store forgets them.
func TestSessionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(storetest.Memory)
		b := New(s, "dead")
		ctx, die := context.WithCancel(t.Context())
		die()
		b.Opened(Session{Upstream: "u", ID: "open"})
		b.Run(ctx)
		time.Sleep(TTL + time.Second)
		if got := ended(t, s, "dead"); len(got) != 0 {
			t.Errorf("these sessions were ended: %v", got)
		}
	})
}

// Entries that no gateway has written are ignored.
func TestMalformedSessions(t *testing.T) {
	s := new(storetest.Memory)
	if _, err := s.PutField(t.Context(), sessionsOf("dead"), "f", []byte("x"), 1, TTL); err != nil {
		t.Fatal(err)
	}
	if got := ended(t, s, "dead"); len(got) != 0 {
		t.Errorf("these sessions were ended: %v", got)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := New(new(storetest.Memory), "x").EndAll(gone, "dead", nil); n != 0 || err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", n, err)
	}
}
