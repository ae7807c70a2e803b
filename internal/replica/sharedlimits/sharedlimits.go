package sharedlimits

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"mcpgateway/internal/store"
)

const (
	// leaseTime is how long a call counts as running after its replica was last heard of.
	leaseTime = 30 * time.Second
	// renewEvery leaves room for two renewals that fail.
	renewEvery = leaseTime / 4
	// maxChunk bounds the calls in one renewal, for which a store may need as many round trips in
	// the time of one operation.
	maxChunk = 32
	// maxQueue bounds the changes that wait for the store. A lost release is made good by the end
	// of the lease, and a lost renewal by the next one.
	maxQueue = 4096
	// workers bounds the changes that are written at the same time.
	workers = 4
)

// Limits count calls in a store. Any number of goroutines may use them.
type Limits struct {
	store   store.Limits
	changed chan *Call

	mu      sync.Mutex
	running map[*Call]struct{} // the calls that have not ended, also those whose users are asked
}

// New returns limits that are counted in a store.
func New(s store.Limits) *Limits {
	return &Limits{store: s, changed: make(chan *Call, maxQueue), running: make(map[*Call]struct{})}
}

// Call is a call that counts as running. Its methods do not wait for the store. Any number of
// goroutines may use them.
type Call struct {
	of     *Limits
	holder string
	limits []store.Limit // those that bound how many calls run

	// The mutex of Limits guards these.
	asking        int
	ended, queued bool

	writing sync.Mutex // orders what is written to the store
	counted bool       // whether the store counts it as running, guarded by writing
}

// Take takes one call out of each limit, or out of none, in one access to the store. If a limit is
// reached, it returns its index and how long to wait; otherwise the index is -1. The caller
// releases the call, which is nil if nothing bounds how many run.
func (l *Limits) Take(ctx context.Context, limits []store.Limit) (c *Call, reached int, wait time.Duration, err error) {
	holder := rand.Text()
	reached, wait, err = l.store.Acquire(ctx, holder, leaseTime, limits...)
	if err == nil && reached >= 0 {
		return nil, reached, wait, nil
	}
	var bounded []store.Limit
	for _, limit := range limits {
		if limit.Concurrent > 0 {
			bounded = append(bounded, limit)
		}
	}
	if bounded == nil {
		return nil, -1, 0, err
	}
	c = &Call{of: l, holder: holder, limits: bounded, counted: true}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil { // the store may have counted it
		c.ended = true
		l.queue(c)
		return nil, -1, 0, err
	}
	l.running[c] = struct{}{}
	return c, -1, 0, nil
}

// Release ends the call. It may be called twice.
func (c *Call) Release() {
	c.change(func() {
		c.ended = true
		delete(c.of.running, c)
	})
}

// Ask makes the call count as not running until Answered is called as often as Ask.
func (c *Call) Ask() { c.change(func() { c.asking++ }) }

// Answered makes the call count as running again, also if the limit is reached.
func (c *Call) Answered() { c.change(func() { c.asking-- }) }

// change changes the call, and has the store learn of it in the background.
func (c *Call) change(f func()) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	before := c.runs()
	if f(); c.runs() != before {
		c.of.queue(c)
	}
}

// runs reports whether the call counts as running. The caller holds the mutex of Limits.
func (c *Call) runs() bool { return !c.ended && c.asking == 0 }

// queue has the store learn of a change. The caller holds mu.
func (l *Limits) queue(c *Call) {
	if c.queued {
		return
	}
	select {
	case l.changed <- c:
		c.queued = true
	default:
	}
}

// Run writes changes to the store and renews leases, until ctx ends. Then it writes what waits,
// for at most last.
func (l *Limits) Run(ctx context.Context, last time.Duration) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	for range workers {
		group.Go(func() { l.writeChanges(ctx, writing) })
	}
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.renew(ctx)
		case <-ctx.Done():
			time.AfterFunc(last, cancel)
			return
		}
	}
}

// writeChanges writes changes until ctx ends, and then those that wait, until writing ends.
func (l *Limits) writeChanges(ctx, writing context.Context) {
	for {
		select {
		case c := <-l.changed:
			l.write(writing, c)
			continue
		case <-ctx.Done():
		}
		break
	}
	for writing.Err() == nil {
		select {
		case c := <-l.changed:
			l.write(writing, c)
		default:
			return
		}
	}
}

// write makes the store count a call as it is now.
func (l *Limits) write(ctx context.Context, c *Call) {
	c.writing.Lock()
	defer c.writing.Unlock()
	l.mu.Lock()
	c.queued = false
	runs := c.runs()
	l.mu.Unlock()
	var err error
	switch {
	case runs == c.counted:
		return
	case runs:
		err = l.store.Renew(ctx, leaseTime, map[string][]store.Limit{c.holder: c.limits})
	default:
		err = l.store.Release(ctx, c.holder, c.limits...)
	}
	// After an error a call may be counted, or not. It is taken for what a later write mends.
	c.counted = runs == (err == nil)
}

// renew renews the leases of all running calls.
func (l *Limits) renew(ctx context.Context) {
	l.mu.Lock()
	all := make([]*Call, 0, len(l.running))
	for c := range l.running {
		if c.runs() {
			all = append(all, c)
		}
	}
	l.mu.Unlock()
	for len(all) > 0 && ctx.Err() == nil {
		n := min(len(all), maxChunk)
		l.renewChunk(ctx, all[:n])
		all = all[n:]
	}
}

// renewChunk renews leases in one access. Releases of these calls wait, so that none is undone.
func (l *Limits) renewChunk(ctx context.Context, chunk []*Call) {
	holders := make(map[string][]store.Limit, len(chunk))
	for _, c := range chunk {
		c.writing.Lock()
		l.mu.Lock()
		if c.runs() {
			holders[c.holder] = c.limits
		}
		l.mu.Unlock()
	}
	err := error(nil)
	if len(holders) > 0 {
		err = l.store.Renew(ctx, leaseTime, holders)
	}
	for _, c := range chunk {
		if _, ok := holders[c.holder]; ok && err == nil {
			c.counted = true
		}
		c.writing.Unlock()
	}
}
