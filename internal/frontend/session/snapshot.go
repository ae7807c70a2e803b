package session

import (
	"maps"
	"slices"
	"time"

	"mcpgateway/internal/call"
)

// Snapshot says how a session was at one moment.
type Snapshot struct {
	ID        string // a secret: it is part of what proves who sends a request
	Principal *call.Principal
	Client    *call.Client
	Opened    time.Time // at this replica
	Used      time.Time // when a request last began or ended
	Adopted   bool      // another process may have opened it, see [Table.Adopt]

	Requests      int // in flight
	Asks          int // that wait for an answer
	Subscriptions int // to resources, those at other replicas included
	Streams       int // that belong to no call
}

// Snapshots returns a snapshot of each open session, in no order. It locks the table only to
// copy pointers.
func (t *Table) Snapshots() []Snapshot {
	t.mu.RLock()
	all := slices.Collect(maps.Values(t.byID))
	t.mu.RUnlock()
	out := make([]Snapshot, 0, len(all))
	for _, s := range all {
		out = append(out, s.snapshot())
	}
	return out
}

func (s *Session) snapshot() Snapshot {
	subscriptions := s.resources.count()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{
		ID: s.ID(), Principal: s.Principal, Client: s.Client, Opened: s.opened, Used: s.used, Adopted: s.adopted,
		Requests: len(s.inflight), Asks: len(s.asks), Subscriptions: subscriptions, Streams: len(s.streams),
	}
}

func (r *subscriptions) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byURI) + len(r.wanted)
}
