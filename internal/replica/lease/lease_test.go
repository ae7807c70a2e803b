package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/store/storetest"
)

func always() bool { return true }

func run(t *testing.T, l *Leases) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func holder(t *testing.T, l *Leases, name string, inUse func() bool) string {
	t.Helper()
	got, err := l.Holder(t.Context(), name, inUse)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// One replica holds a lease for as long as it uses the thing; then another can get it.
func TestOneHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(storetest.Memory)
		a, b := New(s, "k", "a", nil), New(s, "k", "b", nil)
		run(t, a)
		stopB := run(t, b)
		var used atomic.Bool
		used.Store(true)
		if got := holder(t, a, "x", used.Load); got != "a" {
			t.Errorf("a sees %s", got)
		}
		time.Sleep(10 * TTL)
		if got := holder(t, b, "x", always); got != "a" || b.Holds("x") || !a.Holds("x") {
			t.Errorf("b sees %s", got)
		}
		used.Store(false)
		time.Sleep(TTL)
		if a.Holds("x") {
			t.Error("a still holds what it does not use")
		}
		if got := holder(t, b, "x", always); got != "a" {
			t.Errorf("b has forgotten the holder by itself and sees %s", got)
		}
		b.Forget("x", "a")
		if got := holder(t, b, "x", always); got != "b" {
			t.Errorf("b sees %s", got)
		}
		stopB()
		if got := holder(t, a, "x", always); got != "a" {
			t.Errorf("after b has ended, a sees %s", got)
		}
	})
}

// Of several replicas at once one gets the lease: a free one, and one of a replica that has died.
func TestRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(storetest.Memory)
		dead := New(s, "k", "dead", nil)
		holder(t, dead, "old", always)
		var all []*Leases
		for _, name := range []string{"a", "b", "c", "d"} {
			all = append(all, New(s, "k", name, nil))
		}
		for name, get := range map[string]func(*Leases) (string, error){
			"new": func(l *Leases) (string, error) { return l.Holder(t.Context(), "new", always) },
			"old": func(l *Leases) (string, error) { return l.TakeOver(t.Context(), "old", "dead", always) },
		} {
			got := make([]string, len(all))
			var wg sync.WaitGroup
			for i, l := range all {
				wg.Go(func() { got[i], _ = get(l) })
			}
			wg.Wait()
			holders := 0
			for i, l := range all {
				if l.Holds(name) {
					holders++
				}
				if got[i] != got[0] || got[i] == "" || got[i] == "dead" {
					t.Errorf("%s: the holders are %q", name, got)
				}
			}
			if holders != 1 {
				t.Errorf("%s has %d holders", name, holders)
			}
		}
	})
}

// A replica that could not renew its lease in time learns that another one has it.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(storetest.Memory)
		lost := make(chan string, 1)
		a := New(s, "k", "a", func(name, holder string) { lost <- name + " " + holder })
		holder(t, a, "x", always) // and does not run
		time.Sleep(TTL + time.Second)
		b := New(s, "k", "b", nil)
		if got := holder(t, b, "x", always); got != "b" {
			t.Errorf("b sees %s", got)
		}
		run(t, a)
		if got := <-lost; got != "x b" || a.Holds("x") {
			t.Errorf("a has lost %s", got)
		}
	})
}
