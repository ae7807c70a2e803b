package router

import (
	"context"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
)

// settle returns what the caller sees once no upstream is waited for of which they may
// see something. For others nobody waits: how long those take is not for the eyes of
// whoever must not know of them.
func (r *Router) settle(ctx context.Context, c *call.Call) (*catalog.View, error) {
	for !r.isSettled() {
		now := r.now.Load()
		view := now.view(c.Principal, c.Client)
		if !view.Starting() {
			if r.showEarly(c.Principal, now) {
				return view, nil
			}
			continue
		}
		select {
		case <-now.replaced:
		case <-r.settled:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return r.Routes().view(c.Principal, c.Client), nil
}

// earlyLists are the principals that were shown lists while upstreams were starting,
// each with the routes that those were of: the oldest of which they were not told since
// what has changed. Swap holds mu, so that nobody is noted with routes that are not in
// place any more.
type earlyLists struct {
	mu    sync.Mutex
	shown map[string]*Routes
}

// showEarly notes that a principal is about to be shown these routes. It is false where
// others are in place, or no upstream is starting any more.
func (r *Router) showEarly(who *call.Principal, now *current) bool {
	e := &r.early
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.now.Load() != now || r.isSettled() {
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

// ShownEarly returns, by the keys of principals, which routes those have seen that were
// shown lists while upstreams were starting: the oldest of which they were not told what
// has changed. The caller tells them what is different now. Nobody else has seen a list
// before all upstreams had started.
func (r *Router) ShownEarly() map[string]*Routes {
	e := &r.early
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.shown
	e.shown = nil
	if now := r.Routes(); !r.isSettled() && len(before) > 0 {
		e.shown = make(map[string]*Routes, len(before))
		for key := range before {
			e.shown[key] = now
		}
	}
	return before
}
