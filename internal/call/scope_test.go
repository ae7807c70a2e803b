package call

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errWhy = errors.New("why")

// TestScopeEndsAsContexts compares a Scope with a context of context.WithCancelCause,
// below several parents, and contexts that are derived from both.
func TestScopeEndsAsContexts(t *testing.T) {
	type key struct{}
	for name, end := range map[string]func(own func(error), parent context.CancelCauseFunc){
		"by itself":           func(own func(error), _ context.CancelCauseFunc) { own(errWhy) },
		"by itself, no cause": func(own func(error), _ context.CancelCauseFunc) { own(nil) },
		"by its parent":       func(_ func(error), parent context.CancelCauseFunc) { parent(errWhy) },
		"twice":               func(own func(error), parent context.CancelCauseFunc) { own(nil); parent(errWhy); own(errWhy) },
		"by its deadline":     func(func(error), context.CancelCauseFunc) { time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base, stop := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Minute)
				defer stop()
				wantParent, cancelWantParent := context.WithCancelCause(base)
				want, cancelWant := context.WithCancelCause(wantParent)
				defer cancelWant(nil)

				parent, cancelParent := context.WithCancelCause(base)
				var outer, inner Scope
				outer.Begin(parent)
				defer outer.Cancel(nil)
				inner.Begin(&outer)
				defer inner.Cancel(nil)
				derived, stopDerived := context.WithCancel(&inner)
				defer stopDerived()
				var waiting sync.WaitGroup
				for _, ctx := range []context.Context{&outer, &inner, derived} {
					if ctx.Err() != nil || context.Cause(ctx) != nil || ctx.Value(key{}) != "v" {
						t.Errorf("%T before its end: %v, %v", ctx, ctx.Err(), context.Cause(ctx))
					}
					waiting.Go(func() { <-ctx.Done() })
				}
				called := 0
				var kept, removed hook
				inner.addHook(&kept, func() { called++ })
				inner.addHook(&removed, func() { t.Error("a removed hook was called") })
				if !inner.removeHook(&removed) || inner.removeHook(&removed) {
					t.Error("a hook was not removed, or twice")
				}

				end(cancelWant, cancelWantParent)
				end(outer.Cancel, cancelParent)
				if outer.Err() != want.Err() { // at once, even when it is the parent that has ended
					t.Errorf("error %v, want %v", outer.Err(), want.Err())
				}
				synctest.Wait()
				for _, ctx := range []*Scope{&outer, &inner} {
					if ctx.Err() != want.Err() || context.Cause(ctx) != context.Cause(want) || ctx.Value(key{}) != "v" {
						t.Errorf("ended with %v, %v, want %v, %v", ctx.Err(), context.Cause(ctx), want.Err(), context.Cause(want))
					}
				}
				if derived.Err() != want.Err() || context.Cause(derived) != context.Cause(want) || derived.Value(key{}) != "v" {
					t.Errorf("the context made from it: %v, %v", derived.Err(), context.Cause(derived))
				}
				waiting.Wait()
				if called != 1 || inner.removeHook(&kept) {
					t.Errorf("the hook was called %d times", called)
				}
				var late hook
				inner.addHook(&late, func() { called++ })
				if called != 2 || inner.removeHook(&late) {
					t.Error("a hook that was added after the end was not called at once")
				}
				deadline, ok := inner.Deadline()
				if wanted, _ := want.Deadline(); !ok || deadline != wanted {
					t.Errorf("deadline %v, %t", deadline, ok)
				}
			})
		})
	}
}

// TestScopeEndsAlone ends inner Scopes before the outer one, which must keep no hook of
// them.
func TestScopeEndsAlone(t *testing.T) {
	var outer struct{ Scope } // a Scope that another type embeds
	outer.Begin(t.Context())
	defer outer.Cancel(nil)
	var scopes [3]Scope
	for i := range scopes {
		scopes[i].Begin(&outer)
	}
	for _, i := range []int{1, 2, 0} { // from the middle, the end, the beginning
		scopes[i].Cancel(errWhy)
		if context.Cause(&scopes[i]) != errWhy || outer.Err() != nil {
			t.Errorf("%v, outer %v", context.Cause(&scopes[i]), outer.Err())
		}
	}
	if outer.hooks != nil {
		t.Error("hooks stay")
	}
}

func TestHooksInOrder(t *testing.T) {
	var s Scope
	s.Begin(context.Background())
	var hooks [5]hook
	var got []int
	for i := range hooks {
		s.addHook(&hooks[i], func() { got = append(got, i) })
	}
	s.removeHook(&hooks[0])
	s.removeHook(&hooks[2])
	s.Cancel(nil)
	if len(got) != 3 || got[0] != 1 || got[1] != 3 || got[2] != 4 {
		t.Errorf("called %v", got)
	}
}

// TestScopeRaces checks that a hook is either called or removed, never both.
func TestScopeRaces(t *testing.T) {
	for range 500 {
		parent, cancel := context.WithCancel(context.Background())
		var outer, inner Scope
		var wg sync.WaitGroup
		start := make(chan struct{})
		outer.Begin(parent)
		inner.Begin(&outer)
		var h hook
		called, removed := make(chan struct{}), false
		inner.addHook(&h, func() { close(called) })
		for _, f := range []func(){cancel, func() { outer.Cancel(errWhy) }, func() { inner.Cancel(nil) }, func() { removed = inner.removeHook(&h) }, func() { <-inner.Done() }} {
			wg.Go(func() {
				<-start
				f()
			})
		}
		close(start)
		wg.Wait()
		if removed {
			select {
			case <-called:
				t.Fatal("removed and called")
			default:
			}
		} else {
			<-called
		}
	}
}

func TestScopeAllocations(t *testing.T) {
	var outer struct{ Scope } // a Scope that another type embeds
	outer.Begin(context.Background())
	defer outer.Cancel(nil)
	f := func() {}
	allocs := testing.AllocsPerRun(100, func() {
		var inner Scope
		inner.Begin(&outer)
		var h hook
		inner.addHook(&h, f)
		inner.removeHook(&h)
		inner.Cancel(nil)
	})
	if allocs > 2 { // the Scope and the hook
		t.Errorf("%v allocations", allocs)
	}
}
