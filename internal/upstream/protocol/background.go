package protocol

import (
	"context"
	"sync"
	"time"
)

const (
	// errandTime bounds each background task: notifications, probes, a new session.
	BackgroundTimeout = 10 * time.Second
)

// errands are goroutines that a conversation starts beside its calls. The zero
// value is ready for use; the methods may be called by many goroutines at once.
type BackgroundTasks struct {
	mu      sync.Mutex
	over    bool
	running int
	wg      sync.WaitGroup
}

// maxErrands bounds the errands that are under way at once. A server that lets so
// many wait takes nothing in, and clients could make more and more of them.
const MaxBackgroundTasks = 256

// Start runs f in a goroutine of its own, with a context that ends after
// errandTime, or does nothing when the conversation is over or too many are under
// way.
func (e *BackgroundTasks) Start(f func(ctx context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.running >= MaxBackgroundTasks {
		return
	}
	e.running++
	e.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), BackgroundTimeout)
		defer cancel()
		f(ctx)
		e.mu.Lock()
		e.running--
		e.mu.Unlock()
	})
}

// Finish lets no more errands start and waits for those that run. It is called
// after the connections were closed, which ends them at once.
func (e *BackgroundTasks) Finish() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.wg.Wait()
}
