package credentials

import (
	"sync"
	"time"

	"mcpgateway/internal/call"
)

// freshest knows of each principal the token that is good for the longest time: a
// session outlives the token that it was opened with. Its methods may be called by
// many goroutines at once; the zero value is ready.
type latestTokens struct {
	mu  sync.Mutex
	all map[string]*call.Principal
}

// of returns the principal with the token that is to be used at a time: their own as
// long as that is good.
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
