package router

import (
	"context"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
)

const (
	// firstListWait is how long lists wait for the first upstream. Hosts give up after 60 s, and
	// may never list again after an error.
	firstListWait = 50 * time.Second
	// descriptionWait is how long initialize and server/discover wait for instructions and
	// capabilities of which nothing is remembered. Some hosts show nothing before the answer.
	descriptionWait = 3 * time.Second
)

// awaitView returns what the caller sees, once every upstream of which they may see
// something has ended its first attempt to connect. The caller does not wait for the others,
// because the wait would tell that they exist. If the time for all upstreams is over before
// one of them is there, the caller waits for the first one, see firstWait.
func (r *Router) awaitView(ctx context.Context, c *call.Call) (*catalog.View, error) {
	if r.hasStarted() {
		if view := r.Routes().view(c.Principal, c.Client); !view.AwaitsFirst() {
			return view, nil
		}
	}
	over := time.NewTimer(time.Until(r.firstWait.end(r.Routes().view(c.Principal, c.Client))))
	defer over.Stop()
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
	return r.awaitRoutes(ctx, c, over.C, (*catalog.View).AwaitsFirst)
}

// firstWait is the time that all lists together wait for the first upstream. It begins with the
// first list that waits, and again when another upstream starts. A host lists tools, prompts,
// resources and templates one after the other, and a modern one has no session to count its waits
// for. The methods may be called concurrently.
type firstWait struct {
	mu    sync.Mutex
	began time.Time
	since time.Time // when the latest upstream began to start that was known then
}

// end returns when a list with this view has to be answered.
func (w *firstWait) end(view *catalog.View) time.Time {
	since := view.StartingSince()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() || since.After(w.since) {
		w.began, w.since = time.Now(), since
	}
	return w.began.Add(firstListWait)
}

// awaitDescriptions returns what the caller sees, once the upstreams of which nothing is
// remembered have ended their first attempts to connect. After the time for all upstreams
// it waits only while there is no other upstream.
func (r *Router) awaitDescriptions(ctx context.Context, c *call.Call) (*catalog.View, error) {
	waits := func(v *catalog.View) bool {
		return v.Undescribed() && (v.AwaitsFirst() || !r.hasStarted())
	}
	if view := r.Routes().view(c.Principal, c.Client); !waits(view) {
		return view, nil
	}
	over := time.NewTimer(descriptionWait)
	defer over.Stop()
	return r.awaitRoutes(ctx, c, over.C, waits)
}

// awaitRoutes returns what the caller sees, once that need not be waited for, or over
// delivers a time.
func (r *Router) awaitRoutes(ctx context.Context, c *call.Call, over <-chan time.Time, waits func(*catalog.View) bool) (*catalog.View, error) {
	started := r.started
	for {
		if r.hasStarted() {
			started = nil
		}
		now := r.now.Load()
		view := now.view(c.Principal, c.Client)
		if !waits(view) {
			return view, nil
		}
		select {
		case <-now.replaced:
		case <-started:
		case <-over:
			return view, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// earlyLists are the principals that saw lists while upstreams were starting, each with the oldest
// routes whose changes were not yet announced to it. Swap holds mu, so that no principal is recorded
// with routes that were replaced.
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
