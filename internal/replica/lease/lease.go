package lease

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"mcpgateway/internal/store"
)

// TTL is how long a lease lasts without its holder.
const TTL = 30 * time.Second

const (
	maxKnown    = 100_000 // leases of others that are remembered
	takeovers   = 20      // looks at a lease that somebody else takes over
	takeoverGap = 50 * time.Millisecond
)

var errTakenOver = errors.New("another replica takes the lease over")

// Leases are the leases of one replica for one kind of thing. All methods may be called concurrently.
type Leases struct {
	store      store.Store
	kind, self string
	lost       func(name, holder string) // another replica has the lease of this one

	// changing has a lock for each name, by its hash: of acquisition, release and renewal.
	changing [64]sync.Mutex

	mu    sync.Mutex
	held  map[string]held
	known map[string]string // holders of leases of others, by name
}

// held is a lease of this replica.
type held struct {
	since time.Time
	inUse func() bool
}

// New returns the leases of the replica with a name. lost is called when another replica has taken a lease
// over while this one could not renew it.
func New(s store.Store, kind, self string, lost func(name, holder string)) *Leases {
	return &Leases{store: s, kind: kind, self: self, lost: lost, held: map[string]held{}, known: map[string]string{}}
}

func (l *Leases) key(name string) store.Key { return store.Key{Kind: l.kind, Name: name} }

func (l *Leases) lock(name string) *sync.Mutex {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return &l.changing[h.Sum32()%uint32(len(l.changing))]
}

// Holds reports whether this replica holds a lease.
func (l *Leases) Holds(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.held[name]
	return ok
}

// Holder returns the replica that holds a lease. If none does, this one acquires it, and holds it for as
// long as inUse returns true, at least for TTL. The holder may have released it since it was last seen: see
// Forget. The error is that of the store.
func (l *Leases) Holder(ctx context.Context, name string, inUse func() bool) (string, error) {
	l.mu.Lock()
	_, mine := l.held[name]
	holder := l.known[name]
	l.mu.Unlock()
	switch {
	case mine:
		return l.self, nil
	case holder != "":
		return holder, nil
	}
	lock := l.lock(name)
	lock.Lock()
	defer lock.Unlock()
	if l.Holds(name) {
		return l.self, nil
	}
	for range takeovers {
		isNew, err := l.store.PutNew(ctx, l.key(name), []byte(l.self), TTL)
		if err != nil {
			return "", err
		}
		if isNew {
			l.hold(name, inUse)
			return l.self, nil
		}
		values, err := l.store.Get(ctx, l.key(name))
		if err != nil {
			return "", err
		}
		if holder := string(values[0]); holder != "" { // otherwise it was released just now
			return l.note(name, holder, inUse), nil
		}
	}
	return "", errTakenOver
}

// note remembers the holder of a lease that the store has.
func (l *Leases) note(name, holder string, inUse func() bool) string {
	if holder == l.self {
		l.hold(name, inUse)
		return holder
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= maxKnown {
		clear(l.known)
	}
	l.known[name] = holder
	return holder
}

func (l *Leases) hold(name string, inUse func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, name)
	l.held[name] = held{time.Now(), inUse}
}

// Forget has the next Holder ask the store, because a replica does not hold the lease any more.
func (l *Leases) Forget(name, holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[name] == holder {
		delete(l.known, name)
	}
}

// TakeOver takes a lease of a replica that has died. It returns the new holder: of several replicas that
// take it over one gets it.
func (l *Leases) TakeOver(ctx context.Context, name, dead string, inUse func() bool) (string, error) {
	l.Forget(name, dead)
	lock := l.lock(name)
	lock.Lock()
	defer lock.Unlock()
	first, err := l.store.PutNew(ctx, store.Key{Kind: l.kind + "-takeover", Name: name + "\x00" + dead}, []byte(l.self), TTL)
	if err != nil {
		return "", err
	}
	if first {
		if err := l.store.Put(ctx, l.key(name), []byte(l.self), TTL); err != nil {
			return "", err
		}
		l.hold(name, inUse)
		return l.self, nil
	}
	for range takeovers {
		values, err := l.store.Get(ctx, l.key(name))
		if err != nil {
			return "", err
		}
		if holder := string(values[0]); holder != "" && holder != dead {
			return l.note(name, holder, inUse), nil
		}
		select {
		case <-time.After(takeoverGap):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", errTakenOver
}

// Run renews the leases that are used, and releases the others, until ctx ends. Then it releases all.
func (l *Leases) Run(ctx context.Context) {
	ticker := time.NewTicker(TTL / 3)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			l.each(func(name string, h held) {
				if now.Sub(h.since) > TTL && !h.inUse() {
					l.release(ctx, name)
				} else {
					l.renew(ctx, name)
				}
			})
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			l.each(func(name string, _ held) { l.release(last, name) })
			return
		}
	}
}

func (l *Leases) each(f func(name string, h held)) {
	l.mu.Lock()
	all := make(map[string]held, len(l.held))
	for name, h := range l.held {
		all[name] = h
	}
	l.mu.Unlock()
	for name, h := range all {
		f(name, h)
	}
}

// Release releases the leases of this replica whose names idle accepts.
func (l *Leases) Release(ctx context.Context, idle func(name string) bool) {
	l.each(func(name string, _ held) {
		if idle(name) {
			l.release(ctx, name)
		}
	})
}

// release gives a lease back. If the store does not answer, it ends by itself.
func (l *Leases) release(ctx context.Context, name string) {
	lock := l.lock(name)
	lock.Lock()
	defer lock.Unlock()
	l.drop(name)
	if values, err := l.store.Get(ctx, l.key(name)); err == nil && string(values[0]) == l.self {
		_ = l.store.Delete(ctx, l.key(name))
	}
}

func (l *Leases) drop(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, name)
}

// renew renews a lease. One that another replica has meanwhile is lost.
func (l *Leases) renew(ctx context.Context, name string) {
	lock := l.lock(name)
	lock.Lock()
	defer lock.Unlock()
	values, err := l.store.Get(ctx, l.key(name))
	if err != nil {
		return // the lease ends unless the store comes back in time
	}
	switch holder := string(values[0]); holder {
	case l.self:
		_ = l.store.Put(ctx, l.key(name), []byte(l.self), TTL)
	case "": // the store has lost it
		if isNew, err := l.store.PutNew(ctx, l.key(name), []byte(l.self), TTL); err == nil && !isNew {
			l.drop(name)
		}
	default:
		l.drop(name)
		l.lost(name, holder)
	}
}
