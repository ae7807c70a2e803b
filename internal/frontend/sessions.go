package frontend

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/call"
)

// sessionTable holds the sessions that are open, at most max of them.
type sessionTable struct {
	max   int
	idle  time.Duration
	gauge prometheus.Gauge
	gone  func(client string) // is told of each session that has ended

	mu   sync.RWMutex
	byID map[string]*session
}

func (t *sessionTable) init(max int, idle time.Duration, gauge prometheus.Gauge, gone func(client string)) {
	t.max, t.idle, t.gauge, t.gone = max, idle, gauge, gone
	t.byID = make(map[string]*session)
}

// add takes a session in. It reports false when there are as many as there may
// be and none has expired: a session in use is never thrown out for a new one.
func (t *sessionTable) add(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= t.max {
		t.expireLocked(time.Now())
	}
	if len(t.byID) >= t.max {
		return false
	}
	t.byID[s.id] = s
	t.gauge.Inc()
	return true
}

// Why the log says that a session id was refused. To clients all is the same.
var (
	errUnknownSession = errors.New("there is no such session: it has ended, or never was")
	errForeignSession = errors.New("the session belongs to another principal")
)

// get returns the principal's session with this id. The error says why there is
// none.
func (t *sessionTable) get(id string, who *call.Principal) (*session, error) {
	t.mu.RLock()
	s := t.byID[id]
	t.mu.RUnlock()
	switch {
	case s == nil:
		return nil, errUnknownSession
	case s.owner != keyOf(who):
		return nil, errForeignSession
	}
	return s, nil
}

// remove ends a session.
func (t *sessionTable) remove(s *session, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.id] == s {
		t.removeLocked(s, cause)
	}
}

func (t *sessionTable) removeLocked(s *session, cause error) {
	delete(t.byID, s.id)
	t.gauge.Dec()
	s.end(cause)
	t.gone(s.id)
}

// expire ends the sessions that have been idle for too long.
func (t *sessionTable) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(now)
}

func (t *sessionTable) expireLocked(now time.Time) {
	for _, s := range t.byID {
		if s.isIdle(now.Add(-t.idle)) {
			t.removeLocked(s, errSessionEnded)
		}
	}
}

func (t *sessionTable) endAll(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		t.removeLocked(s, cause)
	}
}

func (t *sessionTable) endStreams() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.byID {
		s.endStreams()
	}
}

func (t *sessionTable) listChanged(of func(*call.Principal, *call.Client) changes) {
	t.mu.RLock()
	all := slices.Collect(maps.Values(t.byID))
	t.mu.RUnlock()
	for _, s := range all {
		if c := of(s.who, s.client); c != 0 {
			s.listChanged(c)
		}
	}
}

// each calls f, which must not wait for anybody, for the sessions that are meant.
func (t *sessionTable) each(to Audience, f func(*session)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if to.Principal == "" {
		if s := t.byID[to.Client]; s != nil {
			f(s)
		}
		return
	}
	for _, s := range t.byID {
		if s.owner == to.Principal {
			f(s)
		}
	}
}

// keyOf returns the key of a principal, without building it for the one that
// nearly every small deployment has.
func keyOf(who *call.Principal) string {
	if who == call.Anonymous {
		return anonymousKey
	}
	return who.Key()
}

var anonymousKey = call.Anonymous.Key()
