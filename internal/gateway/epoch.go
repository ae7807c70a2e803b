package gateway

import (
	"math"
	"sync"
	"sync/atomic"
)

// epochs count the calls in progress, so that a connection can be closed after the last
// call that may use it: a call keeps the routes that it loaded at its start. Use newEpochs
// to make one.
type epochs struct{ current atomic.Pointer[epoch] }

// epoch counts the calls that began between two advances. It is over when it is closed
// and its last call has ended.
type epoch struct {
	calls atomic.Int64 // plus epochClosed once no call may begin
	over  chan struct{}
	end   sync.Once
}

// epochClosed is far above any possible number of calls.
const epochClosed = math.MaxInt64 / 2

func newEpoch() *epoch { return &epoch{over: make(chan struct{})} }

func newEpochs() *epochs {
	e := new(epochs)
	e.current.Store(newEpoch())
	return e
}

// enter counts a call in the current epoch. The call loads its routes afterwards, and
// calls leave at its end.
func (e *epochs) enter() *epoch {
	for {
		current := e.current.Load()
		if current.calls.Add(1) < epochClosed {
			return current
		}
		current.leave() // it was closed meanwhile
	}
}

func (e *epoch) leave() {
	if e.calls.Add(-1) == epochClosed {
		e.end.Do(func() { close(e.over) })
	}
}

// advance closes the current epoch, returns it and begins another. Only calls of the
// returned epoch and earlier ones can use what the routes no longer contain.
func (e *epochs) advance() *epoch {
	old := e.current.Swap(newEpoch())
	if old.calls.Add(epochClosed) == epochClosed {
		old.end.Do(func() { close(old.over) })
	}
	return old
}
