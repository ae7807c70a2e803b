package ttlcache

import "time"

// Cache holds at most a fixed number of entries until they expire. Its methods take the
// time, and are not synchronized: callers of Get may share a read lock, callers of the
// other methods need an exclusive lock.
type Cache[K comparable, V any] struct {
	max     int
	entries map[K]entry[V]
}

type entry[V any] struct {
	value   V
	expires time.Time
}

// New returns an empty cache for at most max entries.
func New[K comparable, V any](max int) *Cache[K, V] {
	return &Cache[K, V]{max: max, entries: make(map[K]entry[V])}
}

// Get returns the entry of a key, and reports whether there is one that has not expired.
func (c *Cache[K, V]) Get(key K, now time.Time) (V, bool) {
	e, ok := c.entries[key]
	if !ok || !now.Before(e.expires) {
		var none V
		return none, false
	}
	return e.value, true
}

// Put adds or replaces an entry. A full cache is evicted first: expired entries are
// removed, and then others until an eighth is free, so that the cost of looking at all
// entries is shared by many calls of Put.
func (c *Cache[K, V]) Put(key K, value V, expires, now time.Time) {
	if _, replaces := c.entries[key]; !replaces && len(c.entries) >= c.max {
		c.evict(now)
	}
	c.entries[key] = entry[V]{value, expires}
}

func (c *Cache[K, V]) evict(now time.Time) {
	for key, e := range c.entries {
		if !now.Before(e.expires) {
			delete(c.entries, key)
		}
	}
	keep := c.max - max(c.max/8, 1)
	for key := range c.entries {
		if len(c.entries) <= keep {
			return
		}
		delete(c.entries, key)
	}
}

// Delete removes the entry of a key, if there is one.
func (c *Cache[K, V]) Delete(key K) { delete(c.entries, key) }

// Len returns the number of entries, including expired ones that were not evicted yet.
func (c *Cache[K, V]) Len() int { return len(c.entries) }
