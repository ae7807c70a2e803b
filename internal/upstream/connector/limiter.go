package connector

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/upstream/protocol"
)

// limiterQueue holds the calls of one upstream that wait for a slot, of all its
// sessions. No owner holds more of it than is left for the others. When it is full
// all the same, the owner with most calls makes room for an owner with fewer.
type limiterQueue struct {
	mu    sync.Mutex
	max   int
	all   []*waiter // the youngest last
	share map[uint64]int
	gauge prometheus.Gauge // counts them, with the calls of other queues; nil before measure
}

func newLimiterQueue(max int) *limiterQueue {
	return &limiterQueue{max: max, share: make(map[uint64]int)}
}

// measure has the gauge count the calls, in the place of the one before.
func (q *limiterQueue) measure(gauge prometheus.Gauge) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gauge == gauge {
		return
	}
	q.count(-len(q.all))
	q.gauge = gauge
	q.count(len(q.all))
}

// count adds to the gauge. The caller holds the mutex.
func (q *limiterQueue) count(n int) {
	if q.gauge != nil {
		q.gauge.Add(float64(n))
	}
}

// waiter is one call in a queue.
type waiter struct {
	owner   uint64
	limiter *fairLimiter
	turn    chan error // takes one value: nil with a slot, else why there is none
}

// fairLimiter hands out a limited number of slots to calls. Owners whose calls wait
// take turns. Its methods may be called concurrently.
type fairLimiter struct {
	queue *limiterQueue
	size  int
	bound string // what bounds the calls that run, for errors

	// All are guarded by the queue's mutex.
	free      int       // below 0 when calls have gone on without a slot
	returning []*waiter // calls that had a slot before, which come first
	turns     []uint64  // owners that wait, the next one first
	waiting   map[uint64][]*waiter
}

func newFairLimiter(size int, q *limiterQueue) *fairLimiter {
	return &fairLimiter{queue: q, size: size, bound: fmt.Sprintf("max_concurrent %d", size), free: size, waiting: make(map[uint64][]*waiter)}
}

// tryAcquire takes a slot if one is free.
func (p *fairLimiter) tryAcquire() bool {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	if p.free <= 0 {
		return false
	}
	p.free--
	return true
}

// acquire takes a slot for a call of this owner, and waits for one until ctx ends.
// The error is a *CallError if no more calls may wait, or that of ctx.
func (p *fairLimiter) acquire(ctx context.Context, owner uint64) error {
	q := p.queue
	q.mu.Lock()
	if p.free > 0 {
		p.free--
		q.mu.Unlock()
		return nil
	}
	w := &waiter{owner: owner, limiter: p, turn: make(chan error, 1)}
	if err := p.enqueue(w); err != nil {
		q.mu.Unlock()
		return err
	}
	q.mu.Unlock()
	select {
	case err := <-w.turn:
		return err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !p.dequeue(w) && <-w.turn == nil {
		p.handOver() // the slot came too late
	}
	return ctx.Err()
}

// enqueue lets a call wait, or returns why it may not. The caller holds the mutex.
func (p *fairLimiter) enqueue(w *waiter) error {
	q := p.queue
	share, all := q.share[w.owner]+1, len(q.all)+1
	if share+all > q.max+1 {
		most := q.largestShare()
		switch {
		case all <= q.max:
			return p.overloaded(fmt.Sprintf("; of those that wait, %s of this client, and one client may fill no more of the queue than is left for the others",
				agree(share-1, "is", "are")))
		case most == nil || q.share[most.owner] <= share:
			return p.overloaded("")
		}
		most.limiter.dequeue(most)
		most.turn <- most.limiter.overloaded("")
	}
	q.all = append(q.all, w)
	q.count(1)
	q.share[w.owner]++
	if len(p.waiting[w.owner]) == 0 {
		p.turns = append(p.turns, w.owner)
	}
	p.waiting[w.owner] = append(p.waiting[w.owner], w)
	return nil
}

// largestShare returns the youngest call of an owner with most calls in the queue,
// nil if the queue is empty. The caller holds the mutex.
func (q *limiterQueue) largestShare() *waiter {
	var most *waiter
	for i := len(q.all) - 1; i >= 0; i-- {
		if w := q.all[i]; most == nil || q.share[w.owner] > q.share[most.owner] {
			most = w
		}
	}
	return most
}

// overloaded returns the error of a call that may not wait. why ends its reason; "" says that the queue is full.
func (p *fairLimiter) overloaded(why string) error {
	return &protocol.CallError{
		Reason: fmt.Sprintf("overloaded: %s (%s) and %s (max_queue %d)%s", agree(p.size-p.free, "call runs", "calls run"), p.bound,
			agree(len(p.queue.all), "waits", "wait"), p.queue.max, why),
		NotSent: true, RetryAfter: protocol.RetryOverloaded,
	}
}

// agree returns a number with the words that go with it.
func agree(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// dequeue takes a call out of the queue. It returns false if the call is not in the
// queue anymore. The caller holds the mutex.
func (p *fairLimiter) dequeue(w *waiter) bool {
	q := p.queue
	i := slices.Index(q.all, w)
	if i < 0 {
		return false
	}
	q.all = slices.Delete(q.all, i, i+1)
	q.count(-1)
	if q.share[w.owner]--; q.share[w.owner] == 0 {
		delete(q.share, w.owner)
	}
	own := p.waiting[w.owner]
	if own = slices.DeleteFunc(own, func(o *waiter) bool { return o == w }); len(own) > 0 {
		p.waiting[w.owner] = own
		return true
	}
	delete(p.waiting, w.owner)
	p.turns = slices.DeleteFunc(p.turns, func(o uint64) bool { return o == w.owner })
	return true
}

// release gives a slot back.
func (p *fairLimiter) release() {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	p.handOver()
}

// handOver gives a slot to the next call. The caller holds the mutex.
func (p *fairLimiter) handOver() {
	switch {
	case p.free < 0:
		p.free++
	case len(p.returning) > 0:
		w := p.returning[0]
		p.returning = slices.Delete(p.returning, 0, 1)
		w.turn <- nil
	case len(p.turns) > 0:
		owner := p.turns[0]
		w := p.waiting[owner][0]
		p.dequeue(w)
		if len(p.waiting[owner]) > 0 { // behind all other owners
			p.turns = append(p.turns[1:], owner)
		}
		w.turn <- nil
	default:
		p.free++
	}
}

// reacquireTimeout bounds how long a call that was asked something waits for a slot.
const reacquireTimeout = 5 * time.Second

// reacquire takes a slot for a call that released its own, before all calls that never
// had one. If no slot becomes free within reacquireTimeout, or ctx ends, the call
// continues without a slot, because the server may do nothing else before this call
// ends.
func (p *fairLimiter) reacquire(ctx context.Context) {
	q := p.queue
	q.mu.Lock()
	if p.free > 0 {
		p.free--
		q.mu.Unlock()
		return
	}
	w := &waiter{limiter: p, turn: make(chan error, 1)}
	p.returning = append(p.returning, w)
	q.mu.Unlock()
	timer := time.NewTimer(reacquireTimeout)
	defer timer.Stop()
	select {
	case <-w.turn:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(p.returning, w); i >= 0 {
		p.returning = slices.Delete(p.returning, i, i+1)
		p.free--
	}
}
