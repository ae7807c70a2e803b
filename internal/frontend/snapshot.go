package frontend

import (
	"maps"
	"slices"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/park"
	"mcpgateway/internal/frontend/session"
)

// Snapshot has the sessions, streams and parked calls of clients at one moment.
type Snapshot struct {
	Sessions []session.Snapshot // of legacy clients
	Listens  []Listen           // of modern clients
	Parked   []park.Snapshot
}

// Listen is an open subscriptions/listen request.
type Listen struct {
	Principal *call.Principal
	Client    *call.Client
	Opened    time.Time
	Lists     []string // the members of its filter that ask for list changes
	Resources int
	Tasks     int
}

// Snapshot returns the sessions, streams and parked calls of clients. It holds no lock for
// longer than it takes to copy pointers, so that calls do not wait for it.
func (s *Server) Snapshot() Snapshot {
	return Snapshot{Sessions: s.sessions.Snapshots(), Listens: s.listens.snapshots(), Parked: s.parked.Snapshots()}
}

func (s *subscriptionSet) snapshots() []Listen {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.set))
	s.mu.Unlock()
	out := make([]Listen, 0, len(all))
	for _, sub := range all { // what is read does not change once the subscription is in the set
		l := Listen{Principal: sub.principal, Client: sub.client, Opened: sub.opened, Resources: len(sub.resources), Tasks: len(sub.tasks)}
		for i, name := range listChangeNames {
			if sub.lists&(1<<i) != 0 {
				l.Lists = append(l.Lists, name)
			}
		}
		out = append(out, l)
	}
	return out
}
