package router

import (
	"context"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
)

// settle returns what the caller sees once no upstream is waited for of which they may
// see something. For others nobody waits: how long they take is nobody's business who
// must not know of them.
func (r *Router) settle(ctx context.Context, c *call.Call) (*catalog.View, error) {
	for !r.isSettled() {
		now := r.now.Load()
		if view := now.view(c.Principal, c.Client); !view.Starting() {
			// Noted before it is certain that these are still the routes: whoever swaps
			// others in, and asks then, knows of all that were shown what was there.
			r.early.note(c.Principal.Key())
			if r.now.Load() == now {
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

// ListedEarly reports whether a principal may have got a list before all upstreams had
// ended their first attempts. Who asks after a Swap knows of all that were shown what
// was there before.
func (r *Router) ListedEarly(who *call.Principal) bool { return r.early.has(who.Key()) }

// earlyLists are the principals that got a list while upstreams were starting. There are
// no more after that. Its methods may be called by many goroutines at once.
type earlyLists struct {
	mu  sync.Mutex
	got map[string]struct{}
}

func (e *earlyLists) note(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.got == nil {
		e.got = make(map[string]struct{})
	}
	e.got[key] = struct{}{}
}

func (e *earlyLists) has(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.got[key]
	return ok
}
