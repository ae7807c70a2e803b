package router

import (
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// maxBuckets bounds what is counted for at one time. Those for which there is no
// room share one bucket for each rule.
const maxBuckets = 1 << 16

// sweepPause is the least time between two looks at everything that is remembered.
const sweepPause = time.Second

// crowded is what the bucket stands for that those without room share.
const crowded = "\x00"

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

// bucket counts for one rule and one of what its limit is per.
type bucket struct {
	limit   policy.Limit
	rate    *rate.Limiter // nil where there is no rate
	running int
	asking  int // calls that would run, were their users not being asked something
}

// over says which limit a call would go over, and how long to wait.
type over struct {
	rule string
	wait time.Duration
}

// held is what one call has taken out of limits. A nil one has taken nothing. Its
// methods may be called by any number of goroutines.
type held struct {
	of      *limiter
	buckets []*bucket
	asking  int  // questions that are open
	ended   bool // it has been given back
}

// release gives everything back, since the call has ended. It may be called twice.
func (h *held) release() {
	h.change(func() { h.ended = true })
}

// ask lets others run while the user of the call is asked something: whoever waits for
// a person does not count as running. answered ends that. The call goes on then
// whatever runs meanwhile, since its server has waited for it long enough; others wait
// until there is room again.
func (h *held) ask() { h.change(func() { h.asking++ }) }

func (h *held) answered() { h.change(func() { h.asking-- }) }

// change changes what the call counts for.
func (h *held) change(f func()) {
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
func (h *held) count(n int) {
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

// take takes one call out of every limit, or out of none. The caller calls release
// when the call has ended.
func (l *limiter) take(limits []*policy.Limit, c *call.Call, t catalog.Target) (*held, *over) {
	if len(limits) == 0 {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	taken := make([]*bucket, 0, len(limits))
	reserved := make([]*rate.Reservation, 0, len(limits))
	for _, limit := range limits {
		b := l.bucket(limit, countedFor(limit.Per, c, t), now)
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
			return nil, &over{limit.Rule, wait}
		}
		b.running++
		taken = append(taken, b)
	}
	return &held{of: l, buckets: taken}, nil
}

// peek returns why take would refuse, and takes nothing.
func (l *limiter) peek(limits []*policy.Limit, c *call.Call, t catalog.Target) *over {
	if len(limits) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, limit := range limits {
		r, wait := l.bucket(limit, countedFor(limit.Per, c, t), now).reserve(now)
		if r != nil {
			r.CancelAt(now)
		}
		if wait > 0 {
			return &over{limit.Rule, wait}
		}
	}
	return nil
}

// reserve takes one call out of the rate, or says how long to wait for it. The
// reservation is nil where there is nothing to take back. The caller holds mu.
func (b *bucket) reserve(now time.Time) (*rate.Reservation, time.Duration) {
	if b.limit.Concurrent > 0 && b.running >= b.limit.Concurrent {
		return nil, time.Second // nobody knows when a call ends
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

// countedFor returns what a limit counts a call for. None of it is a client's
// invention: a resource that no list has counts for its upstream.
func countedFor(per policy.Per, c *call.Call, t catalog.Target) string {
	switch per {
	case policy.PerRule:
		return ""
	case policy.PerUpstream:
		return t.Part.Upstream()
	case policy.PerTool:
		if t.Entry == nil {
			return t.Part.Upstream() + crowded
		}
		return t.Kind.String() + crowded + t.Public
	default:
		return c.Principal.Key()
	}
}

// bucket returns the bucket, as the limit is now: another configuration may have
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
			key.of = crowded
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

// sweep forgets the buckets that are as good as new. The caller holds mu.
func (l *limiter) sweep(now time.Time) {
	for key, b := range l.buckets {
		if b.running == 0 && b.asking == 0 && (b.rate == nil || b.rate.TokensAt(now) >= float64(b.limit.Burst)) {
			delete(l.buckets, key)
		}
	}
	l.swept = now
	l.sweepAt = min(maxBuckets, max(1024, 2*len(l.buckets)))
}

// limit takes the limits of a decision. The error says that one is reached.
func (r *Router) limit(c *call.Call, t catalog.Target, d *policy.Decision) (*held, error) {
	taken, refusal := r.limits.take(d.Limits, c, t)
	if refusal == nil {
		return taken, nil
	}
	r.metrics.limited.WithLabelValues(refusal.rule).Inc()
	return nil, tooMany(t.Part.Upstream(), r.limits.now(), refusal.wait)
}

// room reports whether the limits of a decision would let a call through now, by
// the error that it would get otherwise. It takes nothing.
func (r *Router) room(c *call.Call, t catalog.Target, d *policy.Decision) error {
	refusal := r.limits.peek(d.Limits, c, t)
	if refusal == nil {
		return nil
	}
	r.metrics.limited.WithLabelValues(refusal.rule).Inc()
	return tooMany(t.Part.Upstream(), r.limits.now(), refusal.wait)
}

// tooMany is the error of a call that goes over a limit.
func tooMany(upstream string, since time.Time, wait time.Duration) error {
	data := catalog.Unavailable{Upstream: upstream, Since: since, Reason: "too many calls"}.Data()
	after := int(math.Ceil(wait.Seconds()))
	data = wire.SetMember(data, "retryAfter", wire.Raw(strconv.Itoa(after)))
	fault := wire.Errorf(wire.CodeInternal, "too many calls: a limit of the gateway is reached; try again in %d s", after).WithData(data)
	return &call.Refused{Fault: fault, RetryAfter: time.Duration(after) * time.Second}
}
