package frontend

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// sessionTable holds the sessions that are open, at most max of them, HTTP+SSE
// streams counted from before they have one. Nobody has more of them than is left
// for the others, as in a [budget].
type sessionTable struct {
	max   int
	idle  time.Duration
	gauge prometheus.Gauge
	gone  func(client string) // is told of each session that has ended

	mu     sync.RWMutex
	byID   map[string]*session
	placed int                     // those that count
	shares map[fairshare.Share]int // of them, by whose they are
	looked time.Time               // when it was last seen which have expired
}

func (t *sessionTable) init(max int, idle time.Duration, gauge prometheus.Gauge, gone func(client string)) {
	t.max, t.idle, t.gauge, t.gone = max, idle, gauge, gone
	t.byID, t.shares = make(map[string]*session), make(map[fairshare.Share]int)
}

// add takes a session in. The error is that of place.
func (t *sessionTable) add(s *session) *wire.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.counts {
		if err := t.reserveLocked(s.share); err != nil {
			return err
		}
	}
	t.byID[s.id] = s
	return nil
}

// lookAgain is how often, at most, all sessions are looked at because there is no
// place: whoever is refused must not keep the table from others.
const lookAgain = time.Second

// place takes the place of a session. The error is errTooManySessions or
// errGreedySessions when there is none and no session has expired: one in use is
// never thrown out for a new one.
func (t *sessionTable) reserve(o fairshare.Share) *wire.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reserveLocked(o)
}

func (t *sessionTable) reserveLocked(o fairshare.Share) *wire.Error {
	if now := time.Now(); !t.fits(o) && now.Sub(t.looked) >= lookAgain {
		t.expireLocked(now)
	}
	switch {
	case t.fits(o):
	case t.shares[o] > t.placed/2:
		return errGreedySessions
	default:
		return errTooManySessions
	}
	t.placed++
	t.shares[o]++
	t.gauge.Inc()
	return nil
}

// fits reports whether an owner may have one more: with it, it has no more than
// there was left for all.
func (t *sessionTable) fits(o fairshare.Share) bool { return t.shares[o]+1 <= t.max-t.placed }

// unplace gives the place of a session back.
func (t *sessionTable) release(o fairshare.Share) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releaseLocked(o)
}

func (t *sessionTable) releaseLocked(o fairshare.Share) {
	t.placed--
	if t.shares[o]--; t.shares[o] == 0 {
		delete(t.shares, o)
	}
	t.gauge.Dec()
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
	if s.counts {
		t.releaseLocked(s.share)
	}
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
	t.looked = now
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

// endOf ends the sessions of these owners.
func (t *sessionTable) endOf(gone func(owner string) bool, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		if gone(s.owner) {
			t.removeLocked(s, cause)
		}
	}
}

func (t *sessionTable) endStreams() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.byID {
		s.endStreams()
	}
}

func (t *sessionTable) listChanged(of func(*call.Principal, *call.Client) stream.ListChanges) {
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
