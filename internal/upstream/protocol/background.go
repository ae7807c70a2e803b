package protocol

import (
	"context"
	"sync"
	"time"
)

// BackgroundTimeout bounds each background task: a notification, a probe, a new session.
const BackgroundTimeout = 10 * time.Second

// BackgroundTasks are the goroutines that a conversation runs beside its calls. The zero
// value is ready for use. The methods may be called concurrently.
type BackgroundTasks struct {
	mu       sync.Mutex
	finished bool
	running  int
	waiting  []func(ctx context.Context) // until one of the running tasks has ended
	wg       sync.WaitGroup
}

const (
	// MaxBackgroundTasks bounds the tasks that run at the same time. Without it, clients
	// could make ever more of them for a server that reads nothing.
	MaxBackgroundTasks = 256
	// MaxWaitingTasks bounds the tasks that wait. It is more than the calls of all clients that
	// can run and be parked at the same time, each of which may have to be cancelled: only a
	// server that takes no cancellations fills it.
	MaxWaitingTasks = 8192
)

// Start runs f in a separate goroutine, with a context that ends after BackgroundTimeout.
// While MaxBackgroundTasks run, f waits. Start does nothing after Finish, or if
// MaxWaitingTasks wait.
func (e *BackgroundTasks) Start(f func(ctx context.Context)) {
	e.StartIf(func() bool { return true }, f)
}

// StartIf is Start if admit returns true. It calls admit only if it would start f, and
// Finish waits for f then.
func (e *BackgroundTasks) StartIf(admit func() bool, f func(ctx context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.finished || len(e.waiting) >= MaxWaitingTasks || !admit() {
		return
	}
	if e.running >= MaxBackgroundTasks {
		e.waiting = append(e.waiting, f)
		return
	}
	e.running++
	e.wg.Go(func() {
		for f != nil {
			ctx, cancel := context.WithTimeout(context.Background(), BackgroundTimeout)
			f(ctx)
			cancel()
			f = e.next()
		}
	})
}

// next returns the task that runs after one that has ended, nil for none.
func (e *BackgroundTasks) next() (f func(ctx context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) == 0 {
		e.waiting = nil // the memory of a burst is not kept
		e.running--
		return nil
	}
	f, e.waiting[0] = e.waiting[0], nil
	e.waiting = e.waiting[1:]
	return f
}

// FinishWithin prevents new tasks, and waits until all tasks or ctx have ended.
func (e *BackgroundTasks) FinishWithin(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		e.Finish()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Finish prevents new tasks and waits for those that run or wait. Close the connections before:
// that ends the tasks immediately.
func (e *BackgroundTasks) Finish() {
	e.mu.Lock()
	e.finished = true
	e.mu.Unlock()
	e.wg.Wait()
}
