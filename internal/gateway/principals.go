package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
)

// Principals to whom upstreams list something of their own.
//
//	request ─▶ owned.Gather ─▶ Sessions.Gather of each such upstream: a session that gathers
//	                │                     │ Options.Gathered
//	                ▼ waits               ▼
//	            owners.look ────▶ control loop: the table of that principal, swapped in, and
//	                              their clients told, nobody else
//
// The table of a principal is the one that there would be if what their sessions list
// were what the upstreams list, so names are what they always are. It is built when
// it is first read.

const (
	// maxOwners bounds the principals of whom it is known when they were looked at.
	maxPrincipals = 10_000
	// visitEvery is how often it is looked whether a principal who is active has all
	// that there is for them. Each look counts as a use of their sessions.
	gatherInterval = time.Minute
)

// owners is what is known of principals over all tables. Its methods may be called by
// many goroutines at once.
type principals struct {
	// swapping is held while other routes are put in place. Whoever is shown what was
	// there before is told, and nobody else.
	swapping sync.RWMutex

	mu       sync.Mutex
	byKey    map[string]*principalState
	requests refreshRequests
}

// ownDiffs are what has changed for principals who have a table of their own, or had
// one; nil for nothing.
type principalDiffs map[string]func() *catalog.Diff

// wanted are the principals whose lists the control loop is to look at, each with
// what is closed once it has.
type refreshRequests map[string]chan struct{}

// done says that the control loop has looked.
func (w refreshRequests) done() {
	for _, c := range w {
		close(c)
	}
}

// owner is one principal.
type principalState struct {
	lastGathering atomic.Pointer[gathering] // nil: there is to be one
	shown         atomic.Bool               // they may have listed what there is

	// The rest is the control loop's own, but for schemas, which are used under
	// building.

	retained  bool            // there is a table of theirs
	current   *principalTable // that is served; nil for none
	announced *principalTable // of which their clients were told; nil for none
	// missed says that there was a table, and that changes of it went unheard since.
	missed bool

	building sync.Mutex
	schemas  conform.Cache
}

// look is one look at what there is for a principal.
type gathering struct {
	at     time.Time
	from   *personalUpstreams // that were looked at
	rights string             // of the principal: they may see more with another proof
}

func newPrincipals() *principals {
	return &principals{byKey: make(map[string]*principalState), requests: make(refreshRequests)}
}

// of returns what is known of a principal.
func (o *principals) get(key string) *principalState {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.byKey[key]
	if w == nil {
		if len(o.byKey) >= maxPrincipals {
			for k, old := range o.byKey {
				if !old.retained {
					delete(o.byKey, k)
				}
			}
		}
		w = &principalState{}
		o.byKey[key] = w
	}
	return w
}

// hold notes whether a principal has a table, and must not be forgotten.
func (o *principals) setRetained(w *principalState, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.retained = held
}

// holders returns the principals that have a table.
func (o *principals) retained() map[string]*principalState {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[string]*principalState)
	for key, w := range o.byKey {
		if w.retained {
			out[key] = w
		}
	}
	return out
}

// doubt has everybody looked at again.
func (o *principals) expireGatherings() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.byKey {
		w.lastGathering.Store(nil)
	}
}

// want has the control loop look at a principal. The channel is closed when it has.
func (o *principals) requestRefresh(key string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.requests[key] == nil {
		o.requests[key] = make(chan struct{})
	}
	return o.requests[key]
}

// take returns whom the control loop is to look at. The caller calls done when it
// has.
func (o *principals) takeRequests() refreshRequests {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.requests
	o.requests = make(refreshRequests)
	return w
}

// ownChanged says that the lists of a principal have changed at an upstream.
func (g *Gateway) principalListsChanged(principal string) {
	g.principals.requestRefresh(principal)
	g.wakeControl()
}
