package credentials

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"
)

// TestKeptFailures fetches again at once what failed because nothing could be asked, so that the first call after its return
// works. Servers that have answered are left alone for a moment.
func TestKeptFailures(t *testing.T) {
	at := &url.URL{Scheme: "http", Host: "issuer.test"}
	dial := func(err error) error { return unreachable("it", at, &net.OpError{Op: "dial", Err: err}) }
	for name, test := range map[string]struct {
		err     error
		fetches int
	}{
		"refused":   {dial(syscall.ECONNREFUSED), 2},
		"no route":  {dial(syscall.EHOSTUNREACH), 2},
		"no name":   {dial(&net.DNSError{IsNotFound: true}), 2},
		"slow dial": {dial(context.DeadlineExceeded), 1},
		"broken":    {unreachable("it", at, &net.OpError{Op: "read", Err: syscall.ECONNRESET}), 1},
		"answered":  {answer{}.refusal("it"), 1},
		"other":     {errors.New("other"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			c, fetches := newTokenCache(func() time.Time { return now }, func(string) {}), 0
			for range 2 {
				_, err := c.get(t.Context(), "k", func(context.Context) (*token, error) { fetches++; return nil, test.err })
				if !errors.Is(err, test.err) {
					t.Errorf("got %v", err)
				}
			}
			if fetches != test.fetches {
				t.Errorf("%d fetches, want %d", fetches, test.fetches)
			}
		})
	}
}

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
