package gateway

import (
	"math"
	"sync"
	"sync/atomic"
)

// shifts count the calls that run, so that what they may use ends after them: a
// call keeps the routes that it began with. The zero value is not ready, see
// newShifts.
type epochs struct{ now atomic.Pointer[epoch] }

// shift is the calls that began in the same time. It is over when it was closed
// and the last of them has ended.
type epoch struct {
	calls atomic.Int64 // and closed, once nobody may begin any more
	over  chan struct{}
	end   sync.Once
}

// shiftClosed is far more than there can be calls.
const epochClosed = math.MaxInt64 / 2

func newEpoch() *epoch { return &epoch{over: make(chan struct{})} }

func newEpochs() *epochs {
	s := new(epochs)
	s.now.Store(newEpoch())
	return s
}

// enter counts a call, which calls leave at its end. The call loads its routes
// after that.
func (s *epochs) enter() *epoch {
	for {
		now := s.now.Load()
		if now.calls.Add(1) < epochClosed {
			return now
		}
		now.leave() // another one is in its place
	}
}

func (s *epoch) leave() {
	if s.calls.Add(-1) == epochClosed {
		s.end.Do(func() { close(s.over) })
	}
}

// turn closes the shift and begins another. What the routes do not lead to any
// more, only calls of shifts up to the one that is returned can use.
func (s *epochs) turn() *epoch {
	old := s.now.Swap(newEpoch())
	if old.calls.Add(epochClosed) == epochClosed {
		old.end.Do(func() { close(old.over) })
	}
	return old
}
