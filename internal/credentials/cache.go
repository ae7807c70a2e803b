package credentials

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"mcpgateway/internal/ttlcache"
)

const (
	// maxCached bounds the tokens in memory for one upstream.
	maxCached = 10_000
	// failureLife is how long a failure is returned to all callers.
	failureLife = 2 * time.Second
)

// tokenCache keeps tokens by key until they have to be replaced, and failures for a moment. It
// is safe for concurrent use.
type tokenCache struct {
	now      func() time.Time
	obtained func(token string) // see Options.Obtained
	maxLife  time.Duration      // of an entry; 0: until the token has to be replaced
	flight   singleflight.Group

	mu    sync.Mutex
	all   *ttlcache.Cache[string, cachedToken]
	drops int // a fetch that began before the last drop is not cached
}

type cachedToken struct {
	token *token
	err   error
}

func newTokenCache(now func() time.Time, obtained func(token string)) *tokenCache {
	return &tokenCache{now: now, obtained: obtained, all: ttlcache.New[string, cachedToken](maxCached)}
}

// get returns the cached token of a key, or the result of fetch. Concurrent callers share
// one fetch. It goes on for up to attemptTime when its callers have gone. The error is
// that of fetch or ctx. It is kept for failureLife, which spares a server, unless none could be asked: then the first call after
// the end of the fault works.
func (c *tokenCache) get(ctx context.Context, key string, fetch func(ctx context.Context) (*token, error)) (*token, error) {
	if k, ok := c.lookup(key); ok {
		return k.token, k.err
	}
	done := c.flight.DoChan(key, func() (any, error) {
		if k, ok := c.lookup(key); ok {
			return k.token, k.err
		}
		drops := c.dropped()
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTime)
		defer cancel()
		t, err := fetch(own)
		if own.Err() != nil && errors.Is(err, own.Err()) {
			late := failf("there was no token within %s", attemptTime)
			late.temporary, err = true, late
		}
		if e, ok := errors.AsType[*Error](err); ok && (e.unasked || e.away) {
			return t, err
		}
		if err != nil {
			c.put(key, cachedToken{err: err}, c.now().Add(failureLife), drops)
		} else {
			for _, text := range []string{t.access, t.refresh, t.id} {
				c.obtained(text)
			}
			until := t.goodUntil()
			if most := c.now().Add(c.maxLife); c.maxLife > 0 && most.Before(until) {
				until = most
			}
			c.put(key, cachedToken{token: t}, until, drops)
		}
		return t, err
	})
	select {
	case r := <-done:
		t, _ := r.Val.(*token)
		return t, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *tokenCache) lookup(key string) (cachedToken, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.Get(key, c.now())
}

func (c *tokenCache) dropped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drops
}

func (c *tokenCache) put(key string, k cachedToken, until time.Time, drops int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if drops == c.drops {
		c.all.Put(key, k, until, c.now())
	}
}

// drop removes the token of a key, and ignores the results of fetches that are running.
func (c *tokenCache) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flight.Forget(key)
	c.all.Delete(key)
	c.drops++
}

// refuse removes a token that a server has refused. It reports whether to fetch another
// token, which is no use if the refused one was new: then callers get newRefused for a moment.
func (c *tokenCache) refuse(key, access string, newRefused *Error) (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.all.Get(key, c.now())
	if !ok || k.token == nil || k.token.access != access {
		return true // it was replaced already, or will be
	}
	if now := c.now(); now.Sub(k.token.issued) < minTokenAge {
		c.all.Put(key, cachedToken{err: newRefused}, now.Add(failureLife), now)
		return false
	}
	c.all.Delete(key)
	return true
}

const (
	textNewTokenRefused = "the server refuses a token that was issued a moment ago"
	// textItsLog is advice, as a server need not say in its response why it refuses a token.
	textItsLog = "the log of the server may say why"
)

var errNewTokenRefused = failf("%s: %s", textNewTokenRefused, textItsLog)
