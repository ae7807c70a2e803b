package credentials

import (
	"sync"
	"time"

	"mcpgateway/internal/call"
)

// latestTokens knows the token of each principal that expires last, since a session
// outlives the token that it was opened with. It is safe for concurrent use, and its zero
// value is ready.
type latestTokens struct {
	mu  sync.Mutex
	all map[string]*call.Principal
}

// withLatest returns the principal with the token to use: their own until it expires,
// then the latest known one.
func (f *latestTokens) withLatest(who *call.Principal, now time.Time) *call.Principal {
	if who.Expires.IsZero() {
		return who
	}
	key := who.Key()
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.all[key]
	switch {
	case known == nil && len(f.all) >= maxCached:
		clear(f.all)
		fallthrough
	case known == nil:
		if f.all == nil {
			f.all = make(map[string]*call.Principal)
		}
		f.all[key] = who
	case who.Expires.After(known.Expires):
		f.all[key] = who
	case !now.Before(who.Expires):
		return known
	}
	return who
}
