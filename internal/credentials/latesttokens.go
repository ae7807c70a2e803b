package credentials

import (
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/ttlcache"
)

// latestTokens knows the token of each principal that expires last, since a session
// outlives the token that it was opened with. It is safe for concurrent use.
type latestTokens struct {
	mu  sync.Mutex
	all *ttlcache.Cache[string, *call.Principal]
}

func newLatestTokens() *latestTokens {
	return &latestTokens{all: ttlcache.New[string, *call.Principal](maxCached)}
}

// withLatest returns the principal with the token to use: their own until it expires,
// then the latest known one.
func (l *latestTokens) withLatest(principal *call.Principal, now time.Time) *call.Principal {
	if principal.Expires.IsZero() {
		return principal
	}
	key := principal.Identity()
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.all.Get(key, now)
	switch {
	case now.Before(principal.Expires):
		if !ok || principal.Expires.After(known.Expires) {
			l.all.Put(key, principal, principal.Expires, now)
		}
	case ok:
		return known
	}
	return principal
}
