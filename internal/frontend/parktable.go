package frontend

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"mcpgateway/internal/fairshare"
)

// errLapsed is why a parked call ended that nobody came back for.
var errLapsed = errors.New("the client did not come back in time")

// parkTable holds the calls that have been parked and have not ended, and
// counts the goroutines of all calls that can be. Set budget
// first.
type parkTable struct {
	budget *fairshare.Budget // parked calls

	mu      sync.Mutex
	byID    map[string]*parkable // by the id of the call
	closed  bool                 // no further call is parked
	stopped bool                 // no further call begins
	wg      sync.WaitGroup
}

// run runs f on a goroutine that stop waits for. It reports false when the
// server has stopped.
func (t *parkTable) run(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.wg.Go(f)
	return true
}

// add takes a call in that is about to be parked. It reports false when the owner
// of the call has its share of parked calls, or no call may be parked any more.
func (t *parkTable) add(k *parkable) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.budget.Acquire(k.share(), 1) != nil {
		return false
	}
	if t.byID == nil {
		t.byID = make(map[string]*parkable)
	}
	t.byID[k.x.call.ID] = k
	return true
}

// owner returns the owner of the call's share: the principal, or for anonymous
// callers the address, or on this machine the client.
func (k *parkable) share() fairshare.Share { return fairshare.ShareOf(k.x.call.Owner) }

func (t *parkTable) remove(k *parkable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, k.x.call.ID)
	t.budget.Release(k.share(), 1)
}

func (t *parkTable) get(id string) *parkable {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// drain ends the parked calls and lets no more be parked. Those that somebody
// waits for go on.
func (t *parkTable) drain() {
	t.mu.Lock()
	t.closed = true
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, k := range all {
		k.endParked(errStopped)
	}
}

// stop lets no call begin and waits for those that run. Their contexts must
// have ended.
func (t *parkTable) stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.wg.Wait()
}
