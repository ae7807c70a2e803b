package credentials

import (
	"fmt"
	"testing"
	"time"
)

// TestEvictionIsAmortized fills the cache with tokens that have not expired and adds as
// many again. An eviction looks at all entries, so it must make room for many.
func TestEvictionIsAmortized(t *testing.T) {
	now := time.Now()
	for name, life := range map[string]func(i int) time.Duration{
		"none expires":       func(int) time.Duration { return 24 * time.Hour },
		"one by one expires": func(i int) time.Duration { return time.Duration(i+1) * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			now := now
			c := newTokenCache(func() time.Time { return now }, func(string) {})
			evictions, before := 0, 0
			for i := range 2 * maxCached {
				now = now.Add(time.Second / 2)
				c.put(fmt.Sprint(i), cachedToken{token: &token{access: "t"}}, now.Add(life(i)), 0)
				if c.size() <= before {
					evictions++
				}
				before = c.size()
			}
			if limit := maxCached/(maxCached/8) + 1; evictions > limit {
				t.Errorf("%d evictions for %d tokens, want at most %d", evictions, 2*maxCached, limit)
			}
			if before > maxCached {
				t.Errorf("%d tokens are kept", before)
			}
		})
	}
}

func (c *tokenCache) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.Len()
}
