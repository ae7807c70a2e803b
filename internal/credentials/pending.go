package credentials

import (
	"crypto/rand"
	"sync"
	"time"
)

// maxPending bounds the links and the flows that are open at one time, each.
const maxPending = 10_000

// pending keeps what users have begun and not ended, for flowTime, under ids that
// nobody can guess. The oldest go where there are too many. Its methods may be called
// by many goroutines at once.
type pending[T any] struct {
	now func() time.Time

	mu    sync.Mutex
	all   map[string]pendingEntry[T]
	order []string // as they came; may name some that are gone
}

type pendingEntry[T any] struct {
	what  T
	until time.Time
}

func newPending[T any](now func() time.Time) *pending[T] {
	return &pending[T]{now: now, all: make(map[string]pendingEntry[T])}
}

// add keeps something under a fresh id.
func (p *pending[T]) add(what T) string {
	id := rand.Text()
	p.put(id, what)
	return id
}

// put keeps something under an id that is fresh.
func (p *pending[T]) put(id string, what T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[id] = pendingEntry[T]{what, p.now().Add(flowTime)}
	p.order = append(p.order, id)
	for len(p.order) > 0 {
		oldest, there := p.all[p.order[0]]
		if there && len(p.order) <= maxPending && p.now().Before(oldest.until) {
			return
		}
		delete(p.all, p.order[0])
		p.order = p.order[1:]
	}
}

// get returns what is kept under an id.
func (p *pending[T]) get(id string) (T, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.all[id]
	return b.what, ok && p.now().Before(b.until)
}

// take returns what is kept under an id, and forgets it: of several who ask one gets
// it.
func (p *pending[T]) take(id string) (T, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.all[id]
	delete(p.all, id)
	return b.what, ok && p.now().Before(b.until)
}
