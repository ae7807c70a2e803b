package router

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

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

// bucket counts the calls of one rule for one key, for example one principal.
type bucket struct {
	limit   policy.Limit
	rate    *rate.Limiter // nil if there is no rate
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
	taken := make([]*bucket, 0, len(limits))
	reserved := make([]*rate.Reservation, 0, len(limits))
	for _, limit := range limits {
		b := l.bucket(limit, limitKey(limit.Per, c, t), now)
		r, wait := b.reserve(now)
		if r != nil {
			reserved = append(reserved, r)
		}
		if wait > 0 {
			for _, r := range reserved {
				r.CancelAt(now)
			}
			for _, b := range taken {
				b.running--
			}
			return nil, b.excess(wait)
		}
		b.running++
		taken = append(taken, b)
	}
	return &reservation{of: l, buckets: taken}, nil
}

// peek returns why take would refuse, and takes nothing.
func (l *limiter) peek(limits []*policy.Limit, c *call.Call, t catalog.Target) *excess {
	if len(limits) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, limit := range limits {
		b := l.bucket(limit, limitKey(limit.Per, c, t), now)
		r, wait := b.reserve(now)
		if r != nil {
			r.CancelAt(now)
		}
		if wait > 0 {
			return b.excess(wait)
		}
	}
	return nil
}

// full reports whether as many calls run as may. The caller holds mu.
func (b *bucket) full() bool { return b.limit.Concurrent > 0 && b.running >= b.limit.Concurrent }

// excess says that reserve has refused a call. The caller holds mu.
func (b *bucket) excess(wait time.Duration) *excess {
	e := &excess{limit: b.limit, wait: wait}
	if b.full() {
		e.limit.Rate = 0
	} else {
		e.limit.Concurrent = 0
	}
	return e
}

// reserve takes one call out of the rate, or says how long to wait for it. The
// reservation is nil if there is nothing to release. The caller holds mu.
func (b *bucket) reserve(now time.Time) (*rate.Reservation, time.Duration) {
	if b.full() {
		return nil, time.Second // it is not known when a call ends
	}
	if b.rate == nil {
		return nil, 0
	}
	r := b.rate.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return nil, wait
	}
	return r, 0
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

// bucket returns the bucket with the limit as it is now: another configuration may have
// changed it. The caller holds mu.
func (l *limiter) bucket(limit *policy.Limit, of string, now time.Time) *bucket {
	key := bucketKey{limit.Rule, of}
	b := l.buckets[key]
	if b == nil {
		if l.buckets == nil {
			l.buckets, l.sweepAt = make(map[bucketKey]*bucket), 1024
		}
		if len(l.buckets) >= l.sweepAt && now.Sub(l.swept) >= sweepPause {
			l.sweep(now)
		}
		if len(l.buckets) >= maxBuckets {
			key.of = shared
			b = l.buckets[key]
		}
	}
	if b == nil {
		b = &bucket{}
		l.buckets[key] = b
	}
	if b.limit != *limit {
		switch {
		case limit.Rate == 0:
			b.rate = nil
		case b.rate == nil:
			b.rate = rate.NewLimiter(rate.Limit(limit.Rate), limit.Burst)
		default:
			b.rate.SetLimitAt(now, rate.Limit(limit.Rate))
			b.rate.SetBurstAt(now, limit.Burst)
		}
		b.limit = *limit
	}
	return b
}

// sweep removes the buckets that are as full as new ones. The caller holds mu.
func (l *limiter) sweep(now time.Time) {
	for key, b := range l.buckets {
		if b.running == 0 && b.asking == 0 && (b.rate == nil || b.rate.TokensAt(now) >= float64(b.limit.Burst)) {
			delete(l.buckets, key)
		}
	}
	l.swept = now
	l.sweepAt = min(maxBuckets, max(1024, 2*len(l.buckets)))
}
