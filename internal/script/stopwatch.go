package script

import (
	"sync"
	"time"
)

// Clock measures the time of runs.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d. The returned function stops that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// stopwatch calls a function when it has run for some time. It begins paused. It may be
// paused several times at once, and then runs again after as many calls of resume. It is
// safe for concurrent use.
type stopwatch struct {
	clock Clock
	over  func()

	mu      sync.Mutex
	left    time.Duration
	pauses  int
	started time.Time
	stop    func() bool // nil while it is paused
}

func newStopwatch(clock Clock, limit time.Duration, over func()) *stopwatch {
	return &stopwatch{clock: clock, over: over, left: limit, pauses: 1}
}

func (s *stopwatch) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses++
	if s.stop != nil {
		s.stop()
		s.stop = nil
		s.left -= s.clock.Now().Sub(s.started)
	}
}

func (s *stopwatch) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pauses--; s.pauses == 0 {
		s.started = s.clock.Now()
		s.stop = s.clock.AfterFunc(max(s.left, 0), s.over)
	}
}
