package storetest

import (
	"context"
	"time"

	"mcpgateway/internal/store"
)

// counter counts the calls of one limit. It does not depend on the numbers of the limit, which may change.
type counter struct {
	used    float64              // calls that counted for the rate at the time at
	at      time.Time            // of the last call that was counted
	rate    float64              // of the limit at that time
	running map[string]time.Time // the ends of the leases, by holder
}

// wait returns how long a call has to wait for the rate of a limit.
func (c *counter) wait(l store.Limit, now time.Time) time.Duration {
	used, rate := c.usedAt(l, now)
	return time.Duration((used + 1 - float64(l.Burst)) / rate * float64(time.Second))
}

// usedAt returns how many calls count, and how many are forgotten in a second.
func (c *counter) usedAt(l store.Limit, now time.Time) (used, rate float64) {
	rate = max(c.rate, l.Rate)
	return max(0, c.used-now.Sub(c.at).Seconds()*rate), rate
}

// idle returns how long a limit must be remembered that nobody uses: until all of its rate can be
// used again, or at least an hour, which is longer than a lease.
func idle(l store.Limit) time.Duration {
	full := time.Hour
	if l.Rate > 0 {
		full = max(full, time.Duration(min(float64(l.Burst)/l.Rate, maxIdle.Seconds())*float64(time.Second)))
	}
	return full
}

// maxIdle bounds how long a limit is remembered.
const maxIdle = 365 * 24 * time.Hour

// counter returns the counter of a limit. The caller holds mu.
func (m *Memory) counter(l store.Limit, now time.Time) *counter {
	it := m.at(l.Key, idle(l))
	if it.limit == nil {
		it.limit = &counter{running: make(map[string]time.Time)}
	}
	c := it.limit
	for holder, ends := range c.running {
		if !now.Before(ends) {
			delete(c.running, holder)
		}
	}
	return c
}

// Acquire implements Limits.
func (m *Memory) Acquire(ctx context.Context, holder string, lease time.Duration, limits ...store.Limit) (int, time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for i, l := range limits {
		c := m.counter(l, now)
		if l.Concurrent > 0 && len(c.running) >= l.Concurrent {
			return i, time.Second, ctx.Err() // it is not known when a call ends
		}
		if l.Rate == 0 {
			continue
		}
		if wait := c.wait(l, now); wait > 0 {
			return i, wait, ctx.Err()
		}
	}
	for _, l := range limits {
		c := m.counter(l, now)
		if l.Rate > 0 {
			used, _ := c.usedAt(l, now)
			c.used, c.at, c.rate = used+1, now, l.Rate
		}
		if l.Concurrent > 0 {
			c.running[holder] = now.Add(lease)
		}
	}
	return -1, 0, ctx.Err()
}

// Renew implements Limits.
func (m *Memory) Renew(ctx context.Context, lease time.Duration, holders map[string][]store.Limit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for holder, limits := range holders {
		for _, l := range limits {
			if l.Concurrent > 0 {
				m.counter(l, now).running[holder] = now.Add(lease)
			}
		}
	}
	return ctx.Err()
}

// Release implements Limits.
func (m *Memory) Release(ctx context.Context, holder string, limits ...store.Limit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range limits {
		if it := m.get(l.Key); it != nil && it.limit != nil {
			delete(it.limit.running, holder)
		}
	}
	return ctx.Err()
}
