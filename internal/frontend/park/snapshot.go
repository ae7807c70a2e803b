package park

import (
	"maps"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Snapshot says how a parked call was at one moment.
type Snapshot struct {
	ID           string // a secret: it identifies the call in states
	Request      string // the id of the request that began the call
	Method, Item string // Item is its public name or URI
	Principal    *call.Principal
	Client       *call.Client
	Since        time.Time // of this round
	Expires      time.Time
	Round        int
	Asks         []string // the methods of those that wait, in the order in which they came
}

// Snapshots returns a snapshot of each parked call, in no order. It locks the table only to copy
// pointers.
func (t *Table) Snapshots() []Snapshot {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	var out []Snapshot
	for _, k := range all {
		if s, ok := k.snapshot(); ok {
			out = append(out, s)
		}
	}
	return out
}

// snapshot reports false if the call is not parked now.
func (k *parkable) snapshot() (Snapshot, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.parked {
		return Snapshot{}, false
	}
	s := *k.state
	s.ID, s.Client, s.Round = k.id, k.client, int(k.round)
	for _, q := range k.open {
		s.Asks = append(s.Asks, q.method)
	}
	return s, true
}

// noteState notes for snapshots how the call is parked. It reads the request that waits: the handler
// may be changing the call. The caller holds mu.
func (k *parkable) noteState(now, expires time.Time) {
	if k.state == nil {
		k.state = &Snapshot{}
	}
	if k.state.Method == "" && len(k.waiters) > 0 { // a retry has the same item
		c := k.waiters[0].Call()
		k.state.Request, k.state.Method, k.state.Principal = strings.Clone(c.ID), strings.Clone(c.Method), c.Principal
		if member := wire.MethodOf(c.Method).Member; member != "" {
			k.state.Item = strings.Clone(wire.ValueOf(c.Params).Get(member).Str())
		}
	}
	k.state.Since, k.state.Expires = now, expires
}
