package personal

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream/connector"
)

const (
	// maxPrincipals bounds how many principals are remembered.
	maxPrincipals = 10_000
	// gatherInterval is how often the lists of an active principal are gathered. Each
	// gathering counts as a use of the principal's sessions.
	gatherInterval = time.Minute
)

// Upstream is an upstream whose lists may depend on the principal. Equal values are the same
// connection. The methods may be called concurrently.
type Upstream interface {
	Name() string
	// Gather has the lists of c's principal gathered, for which it waits, unless the principal
	// gets those of the gateway.
	Gather(ctx context.Context, c *call.Call)
	// Own returns what is listed to the principal with this key, and the principal. It returns
	// false if no session gathers that. It does not block.
	Own(key string) (connector.Snapshot, *call.Principal, bool)
	// NeedsGrant reports whether the principal has to give a grant before it can use the upstream.
	NeedsGrant(p *call.Principal) bool
}

// Snapshots are the lists that are a principal's own.
type Snapshots map[Upstream]connector.Snapshot

// Inputs are the data from which the tables are built.
type Inputs struct {
	Upstreams  []Upstream
	Policy     *policy.Policy // decides who may see something of the upstreams
	HasProfile func(profile string) bool
	// Build returns a function that builds the table of a profile, with the lists of a principal
	// in place of those of the gateway. The control loop calls Build, any goroutine that function.
	Build func(profile string, own Snapshots) func(*conform.Cache) *catalog.Table
}

// Options are the functions of the gateway that Principals need.
type Options struct {
	Routes      func() *router.Routes // those in force
	Swap        func(*router.Routes)  // puts routes in force
	Wake        func()                // has the control loop make an Update
	Ended       <-chan struct{}       // closed when the control loop has ended
	SessionIdle time.Duration         // after which sessions with upstreams end
}

// Principals are the principals whose lists were gathered, over all versions of the routes.
type Principals struct {
	gateway Options
	// swapping is held while routes are swapped. A principal that was shown the routes
	// before the swap is notified of their changes.
	swapping sync.RWMutex

	mu       sync.Mutex
	byKey    map[string]*principal
	requests map[string]chan struct{} // for the control loop to check tables, by key; it closes the channels when it has

	// The control loop alone uses the fields below.

	inputs Inputs  // of the last Rebuild
	from   *source // of the last Rebuild
}

// source is the part of the inputs by which lists are gathered. It is the same pointer as long as
// nothing in it changes.
type source struct {
	upstreams []Upstream
	policy    *policy.Policy
}

// principal is the state of one principal.
type principal struct {
	lastGathering atomic.Pointer[gathering] // nil if the lists must be gathered again
	shown         atomic.Bool               // whether the principal may have listed the current table

	// The control loop alone uses the fields below, except schemas.

	retained  bool   // must not be forgotten, since it has a table or its clients know one
	current   *table // in the routes, nil for none
	announced *table // that its clients were last notified about, nil for none
	// missed says that a table was dropped, and that its later changes were not noticed.
	missed bool

	building sync.Mutex // guards schemas
	schemas  conform.Cache
}

// gathering is one gathering of a principal's lists.
type gathering struct {
	at     time.Time
	from   *source
	rights string // other credentials may give the same principal other rights
}

// New returns Principals that know no principal.
func New(o Options) *Principals {
	return &Principals{gateway: o, byKey: make(map[string]*principal), requests: make(map[string]chan struct{})}
}

// get returns what is known of a principal.
func (p *Principals) get(key string) *principal {
	p.mu.Lock()
	defer p.mu.Unlock()
	who := p.byKey[key]
	if who == nil {
		if len(p.byKey) >= maxPrincipals {
			for k, old := range p.byKey {
				if !old.retained {
					delete(p.byKey, k)
				}
			}
		}
		who = &principal{}
		p.byKey[key] = who
	}
	return who
}

// setRetained sets whether a principal must not be forgotten.
func (p *Principals) setRetained(who *principal, retained bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	who.retained = retained
}

// retained returns the principals that must not be forgotten, by key.
func (p *Principals) retained() map[string]*principal {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]*principal)
	for key, who := range p.byKey {
		if who.retained {
			out[key] = who
		}
	}
	return out
}

// ExpireGatherings makes the next request of every principal gather its lists again.
func (p *Principals) ExpireGatherings() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, who := range p.byKey {
		who.lastGathering.Store(nil)
	}
}

// ListsChanged has the control loop check the table of a principal, whose lists have changed at an
// upstream.
func (p *Principals) ListsChanged(key string) { p.requestCheck(key) }

// requestCheck has the control loop check the table of a principal. The channel is closed when it has.
func (p *Principals) requestCheck(key string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests[key] == nil {
		p.requests[key] = make(chan struct{})
	}
	p.gateway.Wake()
	return p.requests[key]
}
