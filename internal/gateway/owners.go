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
	maxOwners = 10_000
	// visitEvery is how often it is looked whether a principal who is active has all
	// that there is for them. Each look counts as a use of their sessions.
	visitEvery = time.Minute
)

// owners is what is known of principals over all tables. Its methods may be called by
// many goroutines at once.
type owners struct {
	// swapping is held while other routes are put in place. Whoever is shown what was
	// there before is told, and nobody else.
	swapping sync.RWMutex

	mu     sync.Mutex
	all    map[string]*owner
	wanted wanted
}

// ownDiffs are what has changed for principals who have a table of their own, or had
// one; nil for nothing.
type ownDiffs map[string]func() *catalog.Diff

// wanted are the principals whose lists the control loop is to look at, each with
// what is closed once it has.
type wanted map[string]chan struct{}

// done says that the control loop has looked.
func (w wanted) done() {
	for _, c := range w {
		close(c)
	}
}

// owner is one principal.
type owner struct {
	last  atomic.Pointer[look] // nil: there is to be one
	shown atomic.Bool          // they may have listed what there is

	// The rest is the control loop's own, but for schemas, which are used under
	// building.

	held bool      // there is a table of theirs
	own  *ownTable // that is served; nil for none
	told *ownTable // of which their clients were told; nil for none
	// missed says that there was a table, and that changes of it went unheard since.
	missed bool

	building sync.Mutex
	schemas  conform.Schemas
}

// look is one look at what there is for a principal.
type look struct {
	at     time.Time
	from   *personal // that were looked at
	rights string    // of the principal: they may see more with another proof
}

func newOwners() *owners { return &owners{all: make(map[string]*owner), wanted: make(wanted)} }

// of returns what is known of a principal.
func (o *owners) of(key string) *owner {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.all[key]
	if w == nil {
		if len(o.all) >= maxOwners {
			for k, old := range o.all {
				if !old.held {
					delete(o.all, k)
				}
			}
		}
		w = &owner{}
		o.all[key] = w
	}
	return w
}

// hold notes whether a principal has a table, and must not be forgotten.
func (o *owners) hold(w *owner, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w.held = held
}

// holders returns the principals that have a table.
func (o *owners) holders() map[string]*owner {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[string]*owner)
	for key, w := range o.all {
		if w.held {
			out[key] = w
		}
	}
	return out
}

// doubt has everybody looked at again.
func (o *owners) doubt() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.all {
		w.last.Store(nil)
	}
}

// want has the control loop look at a principal. The channel is closed when it has.
func (o *owners) want(key string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wanted[key] == nil {
		o.wanted[key] = make(chan struct{})
	}
	return o.wanted[key]
}

// take returns whom the control loop is to look at. The caller calls done when it
// has.
func (o *owners) take() wanted {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.wanted
	o.wanted = make(wanted)
	return w
}

// ownChanged says that the lists of a principal have changed at an upstream.
func (g *Gateway) ownChanged(principal string) {
	g.owners.want(principal)
	g.poke()
}
