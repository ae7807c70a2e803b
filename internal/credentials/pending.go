package credentials

import (
	"crypto/rand"
	"sync"
	"time"
)

// maxPending bounds the entries of each [pending].
const maxPending = 10_000

// pending keeps entries for flowTime under unguessable ids. It drops the oldest entries
// when there are too many. It is safe for concurrent use.
type pending[T any] struct {
	now func() time.Time

	mu    sync.Mutex
	all   map[string]pendingEntry[T]
	order []string // ids in order of arrival, also of entries that were taken
}

type pendingEntry[T any] struct {
	what  T
	until time.Time
}

func newPending[T any](now func() time.Time) *pending[T] {
	return &pending[T]{now: now, all: make(map[string]pendingEntry[T])}
}

// add adds an entry under a new id.
func (p *pending[T]) add(what T) string {
	id := rand.Text()
	p.put(id, what)
	return id
}

// put adds an entry under a new id of the caller.
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

// get returns an entry.
func (p *pending[T]) get(id string) (T, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.all[id]
	return b.what, ok && p.now().Before(b.until)
}

// take returns an entry and removes it, so that one caller gets it.
func (p *pending[T]) take(id string) (T, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.all[id]
	delete(p.all, id)
	return b.what, ok && p.now().Before(b.until)
}
