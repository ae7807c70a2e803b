package call

import (
	"context"
	"sync"
	"time"
)

// Scope is the context of one call. It is what context.WithCancelCause returns,
// for less: no channel is made before somebody asks for one, and what has to
// happen at its end costs no goroutine and, with a [Hook], no memory. Every call
// has several of them, one within the other.
//
// The zero Scope is made ready by [Scope.Begin]. Whoever has begun it calls
// [Scope.Cancel], once the call is over at the latest. It must not be copied. Its
// other methods may be called by many goroutines at once, after Begin.
//
// context.Cause tells what it ended for, as for any other context.
type Scope struct {
	parent context.Context
	up     Hook        // in the parent, when that is a Scope
	watch  func() bool // ends the watch over a parent of another kind; guarded by mu

	mu    sync.Mutex
	done  chan struct{} // nil until somebody asks
	err   error
	cause error
	hooks *Hook // the last one added
	// ended is a context with the cause of this one, made when somebody asks:
	// context.Cause believes only contexts of its own package.
	ended context.Context
}

// Begin makes s a context that ends with parent.
func (s *Scope) Begin(parent context.Context) {
	s.parent = parent
	if p, ok := parent.(*Scope); ok {
		p.Add(&s.up, s.inherit)
		return
	}
	if parent.Done() == nil {
		return
	}
	s.mu.Lock() // inherit may come before there is something to keep
	defer s.mu.Unlock()
	s.watch = context.AfterFunc(parent, s.inherit)
}

// inherit ends s in the way of its parent.
func (s *Scope) inherit() { s.finish(s.parent.Err(), context.Cause(s.parent)) }

// Cancel ends s, unless it has ended. The cause is context.Canceled when it is
// nil. Hooks have run when Cancel returns, unless another goroutine runs them.
func (s *Scope) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	if s.Err() == nil { // otherwise its parent has ended before
		s.finish(context.Canceled, cause)
	}
}

func (s *Scope) finish(err, cause error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err, s.cause = err, cause
	if s.done != nil {
		close(s.done)
	}
	watch := s.watch
	var first *Hook // those that are called, in the order in which they were added
	for h := s.hooks; h != nil; h = h.before {
		h.in, h.after = false, first
		first = h
	}
	s.hooks = nil
	s.mu.Unlock()

	for h := first; h != nil; {
		next := h.after
		h.call()
		h = next
	}
	if p, ok := s.parent.(*Scope); ok {
		p.Remove(&s.up)
	}
	if watch != nil {
		watch()
	}
}

// Deadline implements context.Context.
func (s *Scope) Deadline() (time.Time, bool) { return s.parent.Deadline() }

// Value implements context.Context.
func (s *Scope) Value(key any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		return s.parent.Value(key)
	}
	if s.ended == nil {
		ended, end := context.WithCancelCause(context.WithoutCancel(s.parent))
		end(s.cause)
		s.ended = ended
	}
	return s.ended.Value(key)
}

// Done implements context.Context.
func (s *Scope) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.err != nil {
			close(s.done)
		}
	}
	return s.done
}

// Err implements context.Context. A parent of another kind is asked, too: what
// watches over it may come late.
func (s *Scope) Err() error {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err == nil && s.parent.Err() != nil {
		s.inherit()
		return s.Err()
	}
	return err
}

// AfterFunc is what context.AfterFunc calls.
func (s *Scope) AfterFunc(f func()) func() bool {
	h := &Hook{}
	s.Add(h, func() { go f() })
	return func() bool { return s.Remove(h) }
}

// Hook is something that is called when a [Scope] ends. The zero Hook is in
// none. A Hook is used once, and must not be copied after that.
type Hook struct {
	// All are guarded by the mutex of the Scope.
	call          func()
	in            bool
	before, after *Hook
}

// Add has f called when s ends, at once if it has ended. f must not block: it is
// called by whoever ends s, who may hold locks.
func (s *Scope) Add(h *Hook, f func()) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		f()
		return
	}
	h.call, h.in, h.before = f, true, s.hooks
	if h.before != nil {
		h.before.after = h
	}
	s.hooks = h
	s.mu.Unlock()
}

// Remove takes a hook out. It reports whether that was in time: otherwise its
// function was called, or is about to be, or the hook was not in.
func (s *Scope) Remove(h *Hook) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.in {
		return false
	}
	h.in = false
	if h.after != nil {
		h.after.before = h.before
	} else {
		s.hooks = h.before
	}
	if h.before != nil {
		h.before.after = h.after
	}
	return true
}
