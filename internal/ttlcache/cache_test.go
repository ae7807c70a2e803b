package ttlcache

import (
	"testing"
	"time"
)

func TestCacheIsBounded(t *testing.T) {
	c := New[int, string](16)
	now := time.Now()
	for i := range 1000 {
		c.Put(i, "v", now.Add(time.Hour), now)
		if c.Len() > 16 {
			t.Fatalf("%d entries after %d puts", c.Len(), i+1)
		}
	}
	if v, ok := c.Get(999, now); !ok || v != "v" {
		t.Error("the newest entry is missing")
	}
	if v, ok := c.Get(999, now.Add(time.Hour)); ok || v != "" {
		t.Error("an expired entry is returned")
	}
	c.Delete(999)
	if _, ok := c.Get(999, now); ok {
		t.Error("a deleted entry is returned")
	}
}

func TestExpiredEntriesAreEvictedFirst(t *testing.T) {
	c := New[int, string](16)
	now := time.Now()
	for i := range 16 {
		c.Put(i, "v", now.Add(time.Duration(i%2)*time.Hour), now) // every second entry has expired
	}
	c.Put(16, "v", now.Add(time.Hour), now)
	for i := 1; i <= 16; i += 2 {
		if _, ok := c.Get(i, now); !ok {
			t.Errorf("entry %d was evicted before expired entries", i)
		}
	}
	if c.Len() != 9 {
		t.Errorf("%d entries, want 9", c.Len())
	}
}

func TestReplacingEvictsNothing(t *testing.T) {
	c := New[int, int](8)
	now := time.Now()
	for i := range 8 {
		c.Put(i, 0, now.Add(time.Hour), now)
	}
	c.Put(0, 1, now.Add(time.Hour), now)
	if v, _ := c.Get(0, now); v != 1 || c.Len() != 8 {
		t.Errorf("value %d, %d entries", v, c.Len())
	}
}

// TestEvictionIsAmortized adds entries to a full cache. An eviction looks at all entries,
// so it must make room for an eighth, whether or not entries have expired.
func TestEvictionIsAmortized(t *testing.T) {
	const size = 800
	for name, life := range map[string]func(i int) time.Duration{
		"none expires":       func(int) time.Duration { return 24 * time.Hour },
		"one by one expires": func(i int) time.Duration { return time.Duration(i+1) * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			c := New[int, int](size)
			now := time.Now()
			evictions := 0
			for i := range 2 * size {
				now = now.Add(time.Second / 2)
				before := c.Len()
				c.Put(i, 0, now.Add(life(i)), now)
				if c.Len() <= before {
					evictions++
				}
			}
			if evictions > 9 {
				t.Errorf("%d evictions for %d entries", evictions, 2*size)
			}
		})
	}
}
