package router

import (
	"math"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
)

// maxBuckets bounds the number of buckets. Callers for which there is no room share one
// bucket for each rule.
const maxBuckets = 1 << 16

// sweepPause is the least time between two sweeps of everything that is remembered.
const sweepPause = time.Second

// shared is the key of the bucket that callers without room share. It is not the key of
// a principal, an upstream or a tool.
const shared = "\x00"

// limiter keeps the limits of rules. The zero value is ready for use once now is
// set; any number of goroutines may use it.
type limiter struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[bucketKey]*bucket
	sweepAt int       // how many buckets there have to be before idle ones are looked for
	swept   time.Time // when that was done last
}

type bucketKey struct{ rule, of string }

// bucket counts the calls of one rule for one key, for example one principal. It does not depend on the
// numbers of the limit: when a reload changes them, the calls stay counted.
type bucket struct {
	used    float64   // how many calls counted for the rate at the time at
	at      time.Time // of the last call that was counted
	rate    float64   // of the limit at that time; calls are forgotten at this rate at least
	running int
	asking  int // calls that would run if their users were not being asked something
}

// excess says which limit a call would go over, and how long to wait.
type excess struct {
	limit policy.Limit // without the part that is not reached, if that is known
	wait  time.Duration
	share bool // the limit is this replica's share of it
}

// reservation is the share of limits that one call has taken, nil for none. Its methods may
// be called concurrently.
type reservation struct {
	of      *limiter
	buckets []*bucket
	shared  LimitedCall // what it has taken out of the limits of all replicas, nil for nothing; then the rest is not used
	asking  int         // questions that are open
	ended   bool        // it has been given back
}

// release gives everything back when the call has ended. It may be called twice.
func (h *reservation) release() {
	if h != nil && h.shared != nil {
		h.shared.Release()
		return
	}
	h.change(func() { h.ended = true })
}

// ask lets other calls run while the user of this one is asked something: a call that waits
// for a person does not count as running. answered ends that. The call then continues even
// if the limit is reached, because its server has waited long enough; new calls wait until
// there is room again.
func (h *reservation) ask() {
	if h != nil && h.shared != nil {
		h.shared.Ask()
		return
	}
	h.change(func() { h.asking++ })
}

func (h *reservation) answered() {
	if h != nil && h.shared != nil {
		h.shared.Answered()
		return
	}
	h.change(func() { h.asking-- })
}

// change changes how the call is counted.
func (h *reservation) change(f func()) {
	if h == nil {
		return
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.count(-1)
	f()
	h.count(1)
}

// count adds n times the call to its buckets. The caller holds mu.
func (h *reservation) count(n int) {
	for _, b := range h.buckets {
		switch {
		case h.ended:
		case h.asking > 0:
			b.asking += n
		default:
			b.running += n
		}
	}
}

// take takes one call out of every limit, or out of none. The caller releases the
// reservation when the call has ended.
func (l *limiter) take(limits []*policy.Limit, c *call.Call, t catalog.Target) (*reservation, *excess) {
	if len(limits) == 0 {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	buckets, refusal := l.check(limits, c, t, now)
	if refusal != nil {
		return nil, refusal
	}
	for i, b := range buckets {
		b.count(limits[i], now)
	}
	return &reservation{of: l, buckets: buckets}, nil
}

// peek returns why take would refuse, and takes nothing.
func (l *limiter) peek(limits []*policy.Limit, c *call.Call, t catalog.Target) *excess {
	if len(limits) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, refusal := l.check(limits, c, t, l.now())
	return refusal
}

// check returns the buckets of the limits, or the first limit that has no room. The caller holds mu.
func (l *limiter) check(limits []*policy.Limit, c *call.Call, t catalog.Target, now time.Time) ([]*bucket, *excess) {
	if len(l.buckets) >= l.sweepAt && now.Sub(l.swept) >= sweepPause {
		l.sweep(now) // before the buckets are looked up: new ones are as full as those that it removes
	}
	buckets := make([]*bucket, len(limits))
	for i, limit := range limits {
		b := l.bucket(bucketKey{limit.Rule, limitKey(limit.Per, c, t)})
		if wait := b.wait(limit, now); wait > 0 {
			e := &excess{limit: *limit, wait: wait}
			if b.full(limit) {
				e.limit.Rate = 0
			} else {
				e.limit.Concurrent = 0
			}
			return nil, e
		}
		buckets[i] = b
	}
	return buckets, nil
}

// full reports whether as many calls run as may. The caller holds mu.
func (b *bucket) full(limit *policy.Limit) bool {
	return limit.Concurrent > 0 && b.running >= limit.Concurrent
}

// usedAt returns how many calls count for the rate of a limit, and how many are forgotten in a second: as
// many as the limit allows, or as it allowed when they were made. A limit that is lowered from 1000/h to 10/h
// is thus free again in an hour, and not in a hundred. The caller holds mu.
func (b *bucket) usedAt(limit *policy.Limit, now time.Time) (used, rate float64) {
	rate = max(b.rate, limit.Rate)
	return max(0, b.used-max(0, now.Sub(b.at).Seconds())*rate), rate
}

const (
	roundingError = 1e-9 // of used
	longestWait   = 1e9  // seconds, which fit into a time.Duration
)

// wait returns how long a call has to wait, 0 if the limit has room for it. The caller holds mu.
func (b *bucket) wait(limit *policy.Limit, now time.Time) time.Duration {
	switch {
	case b.full(limit):
		return time.Second // it is not known when a call ends
	case limit.Rate == 0:
		return 0
	}
	used, rate := b.usedAt(limit, now)
	over := used + 1 - float64(limit.Burst)
	if over < roundingError {
		return 0
	}
	return time.Duration(math.Ceil(min(over/rate, longestWait) * float64(time.Second)))
}

// count counts a call that begins. The caller holds mu.
func (b *bucket) count(limit *policy.Limit, now time.Time) {
	b.running++
	if limit.Rate > 0 {
		used, _ := b.usedAt(limit, now)
		b.used, b.at, b.rate = used+1, now, limit.Rate
	}
}

// limitKey returns the key under which a limit counts a call. A client cannot invent
// keys: a resource that no list has counts for its upstream.
func limitKey(per policy.Per, c *call.Call, t catalog.Target) string {
	switch per {
	case policy.PerRule:
		return ""
	case policy.PerUpstream:
		return t.Part.Upstream()
	case policy.PerTool:
		if t.Entry == nil {
			return t.Part.Upstream() + shared
		}
		return t.Kind.String() + shared + t.OrdinaryName()
	default:
		return c.Principal.Identity() // a caller must not multiply limits by profiles
	}
}

// bucket returns the bucket of a key. The caller holds mu.
func (l *limiter) bucket(key bucketKey) *bucket {
	if l.buckets == nil {
		l.buckets = make(map[bucketKey]*bucket)
	}
	b := l.buckets[key]
	if b == nil && len(l.buckets) >= maxBuckets {
		key.of = shared
		b = l.buckets[key]
	}
	if b == nil {
		b = &bucket{}
		l.buckets[key] = b
	}
	return b
}

// sweep removes the buckets that are as full as new ones. The caller holds mu.
func (l *limiter) sweep(now time.Time) {
	for key, b := range l.buckets {
		if used, _ := b.usedAt(&policy.Limit{}, now); used == 0 && b.running == 0 && b.asking == 0 {
			delete(l.buckets, key)
		}
	}
	l.swept = now
	l.sweepAt = min(maxBuckets, max(1024, 2*len(l.buckets)))
}
