package credentials

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"mcpgateway/internal/store"
)

// pending keeps entries for flowTime under unguessable ids. It is safe for concurrent use.
type pending[T any] struct {
	now    func() time.Time
	values pendingValues
}

// pendingValues keeps the values of a [pending]. Their errors are [*Error], or those of the context.
type pendingValues interface {
	put(ctx context.Context, id string, value []byte) error
	// get returns a value, nil if there is none.
	get(ctx context.Context, id string) ([]byte, error)
	// take returns a value and removes it, so that one caller gets it.
	take(ctx context.Context, id string) ([]byte, error)
}

type pendingEntry[T any] struct {
	What  T         `json:"what"`
	Until time.Time `json:"until"`
}

// newPending returns a pending in a store that replicas share, or in memory if s is nil.
func newPending[T any](s store.Values, kind string, now func() time.Time) *pending[T] {
	if s == nil {
		return &pending[T]{now, &pendingMemory{now: now, all: make(map[string]pendingValue)}}
	}
	return &pending[T]{now, pendingShared{s, kind}}
}

// put keeps an entry under an id, in the place of any other.
func (p *pending[T]) put(ctx context.Context, id string, what T) error {
	value, err := json.Marshal(pendingEntry[T]{what, p.now().Add(flowTime)})
	if err != nil {
		return storeError(err)
	}
	return p.values.put(ctx, id, value)
}

// get returns an entry.
func (p *pending[T]) get(ctx context.Context, id string) (T, bool, error) {
	return p.read(p.values.get(ctx, id))
}

// take returns an entry and removes it, so that one caller gets it.
func (p *pending[T]) take(ctx context.Context, id string) (T, bool, error) {
	return p.read(p.values.take(ctx, id))
}

func (p *pending[T]) read(value []byte, err error) (what T, ok bool, _ error) {
	if err != nil || value == nil {
		return what, false, err
	}
	var e pendingEntry[T]
	if err := decode(value, &e); err != nil {
		return what, false, err
	}
	return e.What, p.now().Before(e.Until), nil
}

// maxPending bounds the entries of each [pendingMemory].
const maxPending = 10_000

// pendingMemory keeps values in memory. It drops the oldest ones when there are too many.
type pendingMemory struct {
	now func() time.Time

	mu    sync.Mutex
	all   map[string]pendingValue
	order []string // ids in order of arrival, also of values that were taken
}

type pendingValue struct {
	value []byte
	until time.Time
}

// put implements pendingValues.
func (p *pendingMemory) put(_ context.Context, id string, value []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[id] = pendingValue{value, p.now().Add(flowTime)}
	p.order = append(p.order, id)
	for len(p.order) > 0 {
		oldest, there := p.all[p.order[0]]
		if there && len(p.order) <= maxPending && p.now().Before(oldest.until) {
			break
		}
		delete(p.all, p.order[0])
		p.order = p.order[1:]
	}
	return nil
}

// get implements pendingValues.
func (p *pendingMemory) get(_ context.Context, id string) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[id].value, nil
}

// take implements pendingValues.
func (p *pendingMemory) take(_ context.Context, id string) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer delete(p.all, id)
	return p.all[id].value, nil
}

// pendingShared keeps values in a store that replicas share, and that seals them.
type pendingShared struct {
	store store.Values
	kind  string
}

// put implements pendingValues.
func (p pendingShared) put(ctx context.Context, id string, value []byte) error {
	return awayError(p.store.Put(ctx, store.Key{Kind: p.kind, Name: id}, value, flowTime))
}

// get implements pendingValues.
func (p pendingShared) get(ctx context.Context, id string) ([]byte, error) {
	all, err := p.store.Get(ctx, store.Key{Kind: p.kind, Name: id})
	if err != nil {
		return nil, awayError(err)
	}
	return all[0], nil
}

// take implements pendingValues.
func (p pendingShared) take(ctx context.Context, id string) ([]byte, error) {
	value, err := p.store.Take(ctx, store.Key{Kind: p.kind, Name: id})
	return value, awayError(err)
}
