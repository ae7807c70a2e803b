package gateway

import (
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
)

// kindListsChanged is the kind of the notes of a replica that has new lists.
const kindListsChanged = "lists-changed"

const (
	// relistWithin is how long after a change of lists other replicas may gather the same change, and their
	// clients are notified again.
	relistWithin = 10 * time.Second
	// relistDelay is how long notes of several replicas wait to become one notification.
	relistDelay = 100 * time.Millisecond
)

// listsChanged returns which lists have changed for a client.
type listsChanged func(p *call.Principal, client *call.Client) catalog.Changes

// relister notifies clients once more of changed lists when another replica has gathered the change too:
// a client that was notified here may have listed there before.
type relister struct {
	notify func(listsChanged)

	mu    sync.Mutex
	last  listsChanged // that clients were notified of, nil if that is long ago
	until *time.Timer  // forgets last
	again *time.Timer  // notifies again; nil if no note waits
}

// announced remembers what clients were notified of.
func (r *relister) announced(c listsChanged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until != nil {
		r.until.Stop()
	}
	r.last, r.until = c, time.AfterFunc(relistWithin, r.forget)
}

// heard takes the note of another replica. It does not block.
func (r *relister) heard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && r.again == nil {
		r.again = time.AfterFunc(relistDelay, r.repeat)
	}
}

func (r *relister) repeat() {
	r.mu.Lock()
	last := r.last
	r.again = nil
	r.mu.Unlock()
	if last != nil {
		r.notify(last)
	}
}

// forget drops what was announced: it keeps old tables in memory.
func (r *relister) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = nil
}

// stop ends all timers.
func (r *relister) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = nil
	for _, t := range []*time.Timer{r.until, r.again} {
		if t != nil {
			t.Stop()
		}
	}
}

// relist tells the other replicas that this one has new lists.
func (g *Gateway) relist(c listsChanged) {
	if g.sharing == nil {
		return
	}
	g.sharing.relist.announced(c)
	g.sharing.replicas.Tell(kindListsChanged, nil)
}
