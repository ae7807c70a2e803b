package gateway

import (
	"math"
	"sync"
	"sync/atomic"
)

// shifts count the calls that run, so that what they may use ends after them: a
// call keeps the routes that it began with. The zero value is not ready, see
// newShifts.
type shifts struct{ now atomic.Pointer[shift] }

// shift is the calls that began in the same time. It is over when it was closed
// and the last of them has ended.
type shift struct {
	calls atomic.Int64 // and closed, once nobody may begin any more
	over  chan struct{}
	end   sync.Once
}

// shiftClosed is far more than there can be calls.
const shiftClosed = math.MaxInt64 / 2

func newShift() *shift { return &shift{over: make(chan struct{})} }

func newShifts() *shifts {
	s := new(shifts)
	s.now.Store(newShift())
	return s
}

// enter counts a call, which calls leave at its end. The call loads its routes
// after that.
func (s *shifts) enter() *shift {
	for {
		now := s.now.Load()
		if now.calls.Add(1) < shiftClosed {
			return now
		}
		now.leave() // another one is in its place
	}
}

func (s *shift) leave() {
	if s.calls.Add(-1) == shiftClosed {
		s.end.Do(func() { close(s.over) })
	}
}

// turn closes the shift and begins another. What the routes do not lead to any
// more, only calls of shifts up to the one that is returned can use.
func (s *shifts) turn() *shift {
	old := s.now.Swap(newShift())
	if old.calls.Add(shiftClosed) == shiftClosed {
		old.end.Do(func() { close(old.over) })
	}
	return old
}
