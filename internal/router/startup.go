package router

import (
	"context"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
)

// awaitView returns what the caller sees, once every upstream of which they may see
// something has ended its first attempt to connect. The caller does not wait for the others,
// because the wait would tell that they exist.
func (r *Router) awaitView(ctx context.Context, c *call.Call) (*catalog.View, error) {
	for !r.hasStarted() {
		now := r.now.Load()
		view := now.view(c.Principal, c.Client)
		if !view.Starting() {
			if r.recordEarly(c.Principal, now) {
				return view, nil
			}
			continue
		}
		select {
		case <-now.replaced:
		case <-r.started:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return r.Routes().view(c.Principal, c.Client), nil
}

// earlyLists are the principals that saw lists while upstreams were starting, each with the
// oldest routes whose changes they were not told of. Swap holds mu, so that no principal is
// recorded with routes that were replaced.
type earlyLists struct {
	mu    sync.Mutex
	shown map[string]*Routes
}

// recordEarly records that a principal is about to see these routes. It reports false if
// they were replaced, or no upstream is still starting.
func (r *Router) recordEarly(who *call.Principal, now *current) bool {
	e := &r.early
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.now.Load() != now || r.hasStarted() {
		return false
	}
	if e.shown == nil {
		e.shown = make(map[string]*Routes)
	}
	if key := who.Key(); e.shown[key] == nil {
		e.shown[key] = now.Routes
	}
	return true
}

// ShownEarly returns the principals, by key, that saw lists while upstreams were starting, each
// with the oldest routes about whose changes they were not notified. The caller notifies them of what
// has changed since. No other principal has seen a list before all upstreams had started.
func (r *Router) ShownEarly() map[string]*Routes {
	e := &r.early
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.shown
	e.shown = nil
	if now := r.Routes(); !r.hasStarted() && len(before) > 0 {
		e.shown = make(map[string]*Routes, len(before))
		for key := range before {
			e.shown[key] = now
		}
	}
	return before
}
