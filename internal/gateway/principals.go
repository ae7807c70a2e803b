package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
)

// Some upstreams list different items to different principals. Such a principal has a
// table of its own:
//
//	request ─▶ principalTables.Gather ─▶ Sessions.Gather of each such upstream
//	                │                       │ Options.Gathered
//	                ▼ waits                 ▼
//	     principals.requestRefresh ─▶ control loop: builds the principal's table,
//	                                  swaps it in, notifies only its clients
//
// The table is the same as if the lists of the principal's sessions were those of the
// upstreams, so names follow the same rules. It is built when it is first read.

const (
	// maxPrincipals bounds how many principals are remembered.
	maxPrincipals = 10_000
	// gatherInterval is how often the lists of an active principal are gathered. Each
	// gathering counts as a use of the principal's sessions.
	gatherInterval = time.Minute
)

// principals are the principals whose lists were gathered, over all tables. The methods
// may be called by many goroutines at once.
type principals struct {
	// swapping is held while routes are swapped. A principal that was shown the routes
	// before the swap is notified of their changes.
	swapping sync.RWMutex

	mu       sync.Mutex
	byKey    map[string]*principalState
	requests refreshRequests
}

// refreshRequests are the principals whose tables the control loop must check, by key. It
// closes the channels when it has.
type refreshRequests map[string]chan struct{}

// done says that the control loop has checked the tables.
func (r refreshRequests) done() {
	for _, c := range r {
		close(c)
	}
}

// principalState is what is known of one principal.
type principalState struct {
	lastGathering atomic.Pointer[gathering] // nil if the lists must be gathered again
	shown         atomic.Bool               // whether the principal may have listed the current table

	// The control loop alone uses the fields below, except schemas.

	retained  bool            // must not be forgotten, since it has a table or its clients know one
	current   *principalTable // in the routes, nil for none
	announced *principalTable // that its clients were last notified about, nil for none
	// missed says that a table was dropped, and that its later changes were not noticed.
	missed bool

	building sync.Mutex // guards schemas
	schemas  conform.Cache
}

// gathering is one gathering of a principal's lists.
type gathering struct {
	at     time.Time
	from   *personalUpstreams
	rights string // other credentials may give the same principal other rights
}

// principalDiffs are the changes for principals that have or had a table of their own, by
// key. An entry is nil if nothing has changed.
type principalDiffs map[string]func() *catalog.Diff

// any reports whether there may be a change.
func (d principalDiffs) any() bool {
	for _, diff := range d {
		if diff != nil {
			return true
		}
	}
	return false
}

func newPrincipals() *principals {
	return &principals{byKey: make(map[string]*principalState), requests: make(refreshRequests)}
}

// get returns the state of a principal.
func (p *principals) get(key string) *principalState {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.byKey[key]
	if s == nil {
		if len(p.byKey) >= maxPrincipals {
			for k, old := range p.byKey {
				if !old.retained {
					delete(p.byKey, k)
				}
			}
		}
		s = &principalState{}
		p.byKey[key] = s
	}
	return s
}

// setRetained sets whether a principal must not be forgotten.
func (p *principals) setRetained(s *principalState, retained bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.retained = retained
}

// retained returns the principals that must not be forgotten, by key.
func (p *principals) retained() map[string]*principalState {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]*principalState)
	for key, s := range p.byKey {
		if s.retained {
			out[key] = s
		}
	}
	return out
}

// expireGatherings makes the next request of every principal gather its lists again.
func (p *principals) expireGatherings() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.byKey {
		s.lastGathering.Store(nil)
	}
}

// requestRefresh requests that the control loop check the table of a principal. The
// channel is closed when it has. Call wakeControl afterwards.
func (p *principals) requestRefresh(key string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests[key] == nil {
		p.requests[key] = make(chan struct{})
	}
	return p.requests[key]
}

// takeRequests returns the pending requests and removes them. The caller calls done after
// it has served them.
func (p *principals) takeRequests() refreshRequests {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.requests
	p.requests = make(refreshRequests)
	return r
}

// principalListsChanged is called when the lists of a principal have changed at an
// upstream.
func (g *Gateway) principalListsChanged(principal string) {
	g.principals.requestRefresh(principal)
	g.wakeControl()
}
