package router

import (
	"context"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
)

// SharedLimits count the calls of all replicas together. Any number of goroutines may use them.
type SharedLimits interface {
	// Take takes one call out of each limit, or out of none. If a limit is reached, it returns its
	// index and how long to wait; otherwise the index is -1. The call is nil if its end does not
	// matter. With an error it is not known how many calls the replicas have made.
	Take(ctx context.Context, limits []SharedLimit) (c LimitedCall, reached int, wait time.Duration, err error)
	// Replicas returns how many replicas there are, with this one, as far as is known.
	Replicas() int
}

// SharedLimit is a limit for one key, for example one principal.
type SharedLimit struct {
	policy.Limit
	Of string // the key
}

// LimitedCall is a call that counts as running until Release. Between Ask and Answered it does not
// count. Its methods do not block.
type LimitedCall interface {
	Ask()
	Answered()
	Release()
}

// maxFull bounds the limits that are remembered as reached.
const maxFull = 4096

// fullLimits are the limits that were reached when a call was last counted, until they have room again. A limit that
// a reload has changed is another one.
type fullLimits struct {
	mu    sync.Mutex
	until map[SharedLimit]time.Time
}

func (f *fullLimits) add(l SharedLimit, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.until == nil || len(f.until) >= maxFull {
		f.until = make(map[SharedLimit]time.Time)
	}
	f.until[l] = until
}

// wait returns how long a limit has no room, 0 if that is not known.
func (f *fullLimits) wait(l SharedLimit, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	until, ok := f.until[l]
	if ok && !now.Before(until) {
		delete(f.until, l)
	}
	return max(0, until.Sub(now))
}

// takeLimits takes one call out of every limit, or out of none: of all replicas if they share
// something that answers, otherwise of this replica's share. The error is that of ctx.
func (r *Router) takeLimits(ctx context.Context, limits []*policy.Limit, c *call.Call, t catalog.Target) (*reservation, *excess, error) {
	if len(limits) == 0 {
		return nil, nil, nil
	}
	if r.sharedLimits == nil {
		held, refusal := r.limits.take(limits, c, t)
		return held, refusal, nil
	}
	shared := make([]SharedLimit, len(limits))
	for i, l := range limits {
		shared[i] = SharedLimit{*l, limitKey(l.Per, c, t)}
	}
	running, reached, wait, err := r.sharedLimits.Take(ctx, shared)
	switch {
	case err == nil && reached >= 0:
		l := shared[reached]
		r.full.add(l, r.limits.now().Add(wait))
		return nil, &excess{limit: l.Limit, wait: wait}, nil
	case err == nil && running != nil:
		return &reservation{shared: running}, nil, nil
	case err == nil:
		return nil, nil, nil
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	}
	replicas := r.sharedLimits.Replicas()
	held, refusal := r.limits.take(shareOf(limits, replicas), c, t)
	if refusal != nil {
		refusal.share = replicas > 1
	}
	return held, refusal, nil
}

// peekLimits returns why takeLimits would refuse, and takes nothing. Limits of all replicas are not
// looked up: a limit counts as reached while the last refusal said so.
func (r *Router) peekLimits(limits []*policy.Limit, c *call.Call, t catalog.Target) *excess {
	if r.sharedLimits == nil {
		return r.limits.peek(limits, c, t)
	}
	now := r.limits.now()
	for _, l := range limits {
		if wait := r.full.wait(SharedLimit{*l, limitKey(l.Per, c, t)}, now); wait > 0 {
			return &excess{limit: *l, wait: wait}
		}
	}
	return nil
}

// shareOf returns one replica's share of limits, which is at least one call.
func shareOf(limits []*policy.Limit, replicas int) []*policy.Limit {
	if replicas <= 1 {
		return limits
	}
	shares := make([]*policy.Limit, len(limits))
	for i, l := range limits {
		share := *l
		share.Rate /= float64(replicas)
		if share.Rate > 0 {
			share.Burst = max(1, share.Burst/replicas)
		}
		if share.Concurrent > 0 {
			share.Concurrent = max(1, share.Concurrent/replicas)
		}
		shares[i] = &share
	}
	return shares
}
