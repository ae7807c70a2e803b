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
	wg       sync.WaitGroup
}

// MaxBackgroundTasks bounds the tasks that run at the same time. Without it, clients
// could make ever more of them for a server that reads nothing.
const MaxBackgroundTasks = 256

// Start runs f in a separate goroutine, with a context that ends after
// BackgroundTimeout. It does nothing after Finish, or if too many tasks run.
func (e *BackgroundTasks) Start(f func(ctx context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.finished || e.running >= MaxBackgroundTasks {
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

// FinishWithin prevents new tasks, and waits until those that run or ctx have ended.
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

// Finish prevents new tasks and waits for those that run. Close the connections before:
// that ends the tasks immediately.
func (e *BackgroundTasks) Finish() {
	e.mu.Lock()
	e.finished = true
	e.mu.Unlock()
	e.wg.Wait()
}
