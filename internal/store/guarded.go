package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The numbers of a Guarded.
const (
	// opTime bounds an operation. It is longer than a store takes that is slow and works.
	opTime = 250 * time.Millisecond
	// opRate is for large values: an operation may take longer by the time that its bytes take.
	opRate = 8 << 20 // bytes in a second
	// tripAfter is how many operations fail one after the other until the store counts as away.
	tripAfter = 3
	// probeOpen and probeClosed are the pauses between probes while the store is away, and while it
	// works: nobody else may use it for a long time.
	probeOpen, probeClosed = 500 * time.Millisecond, 5 * time.Second
)

// Guarded is a Store that answers soon, whatever the Store does that it guards. It bounds each
// operation. After some failures it has a circuit breaker: operations fail immediately, until a probe
// succeeds. Run makes the probes.
type Guarded struct {
	s       Store
	metrics *Metrics
	changed func(up bool, why error)

	mu      sync.Mutex
	row     int // failures since the last success
	open    bool
	since   time.Time // of the last change of open
	why     error     // the last failure
	failed  time.Time // when that was
	tripped chan struct{}
}

// NewGuarded guards a Store. changed is called when the store goes away and when it works again, one call
// at a time. It must not use the Guarded.
func NewGuarded(s Store, m *Metrics, changed func(up bool, why error)) *Guarded {
	m.up.Set(1)
	return &Guarded{s: s, metrics: m, changed: changed, tripped: make(chan struct{}, 1)}
}

// Run probes the store until ctx ends, the first time immediately.
func (g *Guarded) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := probeClosed
		if !g.probe(ctx) {
			pause = probeOpen
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		case <-g.tripped:
			select { // it has failed just now
			case <-time.After(probeOpen):
			case <-ctx.Done():
			}
		}
	}
}

// probe checks the store. One probe that the store refuses is enough to count it as away. One that is late counts like
// another operation: a store that is busy for a moment still works. It reports whether the store works.
func (g *Guarded) probe(ctx context.Context) bool {
	late, err := check(ctx, g.s, opTime)
	if ctx.Err() == nil {
		g.note(err, err == nil || !late)
	}
	return err == nil
}

// Health reports whether the store works, since when, and why it does not.
func (g *Guarded) Health() (up bool, since time.Time, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return true, g.since, nil
	}
	return false, g.since, g.why
}

// Troubled reports whether the store is away, or has failed within this time.
func (g *Guarded) Troubled(within time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open || time.Since(g.failed) < within
}

// failure returns an error that says that the store does not work, nil for others.
func failure(err error) error {
	if errors.Is(err, ErrWrongType) {
		return nil
	}
	return err
}

// note counts the outcome of an operation. A decisive outcome opens or closes the circuit immediately.
func (g *Guarded) note(err error, decides bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil && !g.open:
		g.row = 0
	case err == nil && decides:
		g.set(false, nil)
	case err != nil:
		g.row, g.why, g.failed = g.row+1, err, time.Now()
		if !g.open && (decides || g.row >= tripAfter) {
			g.set(true, err)
			if !decides {
				select {
				case g.tripped <- struct{}{}:
				default:
				}
			}
		}
	}
}

// set opens or closes the circuit. The caller holds mu.
func (g *Guarded) set(open bool, why error) {
	g.open, g.row, g.since = open, 0, time.Now()
	up := 1.
	if open {
		up = 0
	}
	g.metrics.up.Set(up)
	g.changed(!open, why)
}

// guard runs an operation within its bounds. wait is how long it is to wait by itself, size how many bytes
// it sends.
func guard[T any](g *Guarded, ctx context.Context, op operation, wait time.Duration, size int, f func(context.Context) (T, error)) (T, error) {
	var none T
	g.mu.Lock()
	open, why := g.open, g.why
	g.mu.Unlock()
	m := &g.metrics.operations[op]
	if open {
		m.skipped.Inc()
		return none, fmt.Errorf("%w (it was not asked again)", why)
	}
	limit := opTime + time.Duration(float64(size)/opRate*float64(time.Second))
	bounded, cancel := context.WithTimeout(ctx, max(0, wait)+limit)
	defer cancel()
	start := time.Now()
	out, err := f(bounded)
	if wait <= 0 {
		m.duration.Observe(time.Since(start).Seconds())
	}
	if err == nil {
		m.ok.Inc()
		g.note(nil, false)
		return out, nil
	}
	if ctx.Err() != nil { // the caller gave up: that says nothing of the store
		m.canceled.Inc()
		return none, ctx.Err()
	}
	err = unavailable(err, limit)
	m.failed.Inc()
	if failure(err) != nil {
		g.note(err, false)
	}
	return none, err
}

var _ Store = (*Guarded)(nil)

// Get implements Values.
func (g *Guarded) Get(ctx context.Context, keys ...Key) ([][]byte, error) {
	return guard(g, ctx, opGet, 0, 0, func(ctx context.Context) ([][]byte, error) { return g.s.Get(ctx, keys...) })
}

// Put implements Values.
func (g *Guarded) Put(ctx context.Context, key Key, value []byte, ttl time.Duration) error {
	_, err := guard(g, ctx, opPut, 0, len(value), func(ctx context.Context) (none, error) { return none{}, g.s.Put(ctx, key, value, ttl) })
	return err
}

// PutNew implements Values.
func (g *Guarded) PutNew(ctx context.Context, key Key, value []byte, ttl time.Duration) (bool, error) {
	return guard(g, ctx, opPutNew, 0, len(value), func(ctx context.Context) (bool, error) { return g.s.PutNew(ctx, key, value, ttl) })
}

// Take implements Values.
func (g *Guarded) Take(ctx context.Context, key Key) ([]byte, error) {
	return guard(g, ctx, opTake, 0, 0, func(ctx context.Context) ([]byte, error) { return g.s.Take(ctx, key) })
}

// Delete implements Values.
func (g *Guarded) Delete(ctx context.Context, keys ...Key) error {
	_, err := guard(g, ctx, opDelete, 0, 0, func(ctx context.Context) (none, error) { return none{}, g.s.Delete(ctx, keys...) })
	return err
}

// Fields implements Fields.
func (g *Guarded) Fields(ctx context.Context, key Key) (map[string][]byte, error) {
	return guard(g, ctx, opFields, 0, 0, func(ctx context.Context) (map[string][]byte, error) { return g.s.Fields(ctx, key) })
}

// PutField implements Fields.
func (g *Guarded) PutField(ctx context.Context, key Key, field string, value []byte, max int, ttl time.Duration) (bool, error) {
	return guard(g, ctx, opPutField, 0, len(value), func(ctx context.Context) (bool, error) { return g.s.PutField(ctx, key, field, value, max, ttl) })
}

// DeleteField implements Fields.
func (g *Guarded) DeleteField(ctx context.Context, key Key, field string) error {
	_, err := guard(g, ctx, opDeleteField, 0, 0, func(ctx context.Context) (none, error) { return none{}, g.s.DeleteField(ctx, key, field) })
	return err
}

// Append implements Logs.
func (g *Guarded) Append(ctx context.Context, key Key, keep int, ttl time.Duration, entries ...[]byte) error {
	size := 0
	for _, data := range entries {
		size += len(data)
	}
	_, err := guard(g, ctx, opAppend, 0, size, func(ctx context.Context) (none, error) { return none{}, g.s.Append(ctx, key, keep, ttl, entries...) })
	return err
}

// Last implements Logs.
func (g *Guarded) Last(ctx context.Context, key Key) (string, error) {
	return guard(g, ctx, opLast, 0, 0, func(ctx context.Context) (string, error) { return g.s.Last(ctx, key) })
}

// Read implements Logs.
func (g *Guarded) Read(ctx context.Context, key Key, after string, max int, wait time.Duration) ([]Entry, error) {
	return guard(g, ctx, opRead, wait, 0, func(ctx context.Context) ([]Entry, error) { return g.s.Read(ctx, key, after, max, wait) })
}

// acquired is the result of Acquire.
type acquired struct {
	reached int
	wait    time.Duration
}

// Acquire implements Limits.
func (g *Guarded) Acquire(ctx context.Context, holder string, lease time.Duration, limits ...Limit) (int, time.Duration, error) {
	a, err := guard(g, ctx, opAcquire, 0, 0, func(ctx context.Context) (a acquired, err error) {
		a.reached, a.wait, err = g.s.Acquire(ctx, holder, lease, limits...)
		return a, err
	})
	return a.reached, a.wait, err
}

// Renew implements Limits.
func (g *Guarded) Renew(ctx context.Context, lease time.Duration, holders map[string][]Limit) error {
	_, err := guard(g, ctx, opRenew, 0, 0, func(ctx context.Context) (none, error) { return none{}, g.s.Renew(ctx, lease, holders) })
	return err
}

// Release implements Limits.
func (g *Guarded) Release(ctx context.Context, holder string, limits ...Limit) error {
	_, err := guard(g, ctx, opRelease, 0, 0, func(ctx context.Context) (none, error) { return none{}, g.s.Release(ctx, holder, limits...) })
	return err
}

// none is the result of operations without one.
type none struct{}
