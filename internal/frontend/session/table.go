package session

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

// Errors of [Table.Get], for the log. Clients must not learn which one it is.
var (
	ErrUnknown = errors.New("there is no such session: it has ended, or never was")
	ErrForeign = errors.New("the session belongs to another principal")
	ErrProfile = errors.New("the session belongs to another profile")
)

// expireAgain is how often, at most, a full table looks for expired sessions: clients
// that are refused must not keep the table locked.
const expireAgain = time.Second

// TableOptions configure a [Table]. The functions must not block, must not call the
// table, and are required.
type TableOptions struct {
	Max   int              // sessions, including reserved slots
	Idle  time.Duration    // until a session without requests and streams expires
	Gauge prometheus.Gauge // counts what Max bounds
	// Kept says that a replica which adopts a session learns its level and subscriptions. Then a full table
	// forgets also sessions that have some.
	Kept bool
	// Ended is called with the id of each session that has ended.
	Ended func(id string)
	// LogLevel is called with the most verbose level that any session has set, whenever it
	// changes: LevelNone if none has set one. Calls of it do not overlap.
	LogLevel func(wire.Level)
}

// Table holds the open sessions. No client has more of them than are left for the
// others, see [fairshare.Budget].
type Table struct {
	options TableOptions
	levels  levelTracker
	slots   *fairshare.Budget

	mu      sync.RWMutex
	byID    map[string]*Session
	ended   endedIDs
	expired time.Time // when the table last looked for expired sessions
	changed time.Time // when lists last changed; at first, when the table was made
	closed  error     // the cause with which CloseAll ended all sessions
}

// NewTable returns an empty table.
func NewTable(o TableOptions) *Table {
	return &Table{
		options: o,
		levels:  levelTracker{report: o.LogLevel},
		slots:   fairshare.New(int64(o.Max)+1, 0), // a single client may use the last slot
		changed: time.Now(),
		byID:    make(map[string]*Session),
	}
}

// Open opens a session. The error is that of Reserve. After CloseAll the session has
// ended already.
func (t *Table) Open(c Config) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.add(c)
	if err != nil {
		return nil, err
	}
	if t.closed != nil {
		t.close(s, t.closed, true)
	}
	return s, nil
}

// Adopt opens a session that another process has opened, or that was idle for too long. If the
// table has the session already, Adopt returns that one, and keeps it from expiring. The error is
// ErrUnknown if the session was ended, the cause of CloseAll, or that of Reserve.
//
// The subscriptions and the level of the session are not known. If the session is older than the table, or
// than the last change of a list, its client is notified that all lists have changed, because it may have
// missed earlier notifications.
func (t *Table) Adopt(c Config) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byID[c.Client.Key]; s != nil {
		s.Touch()
		return s, nil
	}
	switch {
	case t.closed != nil:
		return nil, t.closed
	case t.ended.has(c.Client.Key):
		return nil, ErrUnknown
	}
	s, err := t.add(c)
	if err != nil {
		return nil, err
	}
	s.adopted = true
	if c.Opened.Before(t.changed) {
		s.NotifyLists(stream.AllChanged)
	}
	return s, nil
}

// add makes a session and puts it into the table.
func (t *Table) add(c Config) (*Session, error) {
	if c.Counted {
		if err := t.reserve(c.Share); err != nil {
			return nil, err
		}
	}
	s := newSession(c, &t.levels)
	t.byID[s.ID()] = s
	return s, nil
}

// Reserve reserves the slot of a session, for Release to give back. The error is
// [fairshare.ErrExhausted] or [fairshare.ErrShareExceeded] if there is no slot, no
// session has expired, and none that is idle can be adopted again: a session in use never
// makes room for a new one.
func (t *Table) Reserve(share fairshare.Share) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reserve(share)
}

func (t *Table) reserve(share fairshare.Share) error {
	err := t.slots.Acquire(share, 1)
	if now := time.Now(); err != nil && now.Sub(t.expired) >= expireAgain {
		t.expire(now)
		if err = t.slots.Acquire(share, 1); err != nil {
			t.evict(now, share, err)
			err = t.slots.Acquire(share, 1)
		}
	}
	if err == nil {
		t.options.Gauge.Inc()
	}
	return err
}

// evict forgets sessions that can be adopted again, those first that were not used for longest: an eighth
// of all that the table may have, or fewer. If a share is exceeded, they are of that share.
func (t *Table) evict(now time.Time, share fairshare.Share, why error) {
	type candidate struct {
		s    *Session
		used time.Time
	}
	var all []candidate
	for _, s := range t.byID {
		if why == fairshare.ErrShareExceeded && s.Share != share {
			continue
		}
		if used, ok := s.canBeForgotten(now.Add(-t.options.Idle/evictPart), t.options.Kept); ok {
			all = append(all, candidate{s, used})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return a.used.Compare(b.used) })
	for _, c := range all[:min(len(all), t.options.Max/evictPart+1)] {
		t.close(c.s, ErrEnded, false)
	}
}

// evictPart is the part of Idle for which a session must be unused, and the part of Max that is evicted at
// once.
const evictPart = 8

// Release gives back a slot.
func (t *Table) Release(share fairshare.Share) {
	t.slots.Release(share, 1)
	t.options.Gauge.Dec()
}

// Get returns the session with this id, if it belongs to the principal. The error is
// ErrUnknown, ErrForeign or ErrProfile.
func (t *Table) Get(id string, principal *call.Principal) (*Session, error) {
	s := t.Find(id)
	if s == nil {
		return nil, ErrUnknown
	}
	if err := CheckOwner(s.Principal, principal); err != nil {
		return nil, err
	}
	return s, nil
}

// CheckOwner returns ErrForeign or ErrProfile if the owner of a session is another principal
// than who.
func CheckOwner(owner, who *call.Principal) error {
	switch {
	case owner.Same(who):
		return nil
	case owner.In(who.Profile).Same(who):
		return ErrProfile
	default:
		return ErrForeign
	}
}

// Find returns the session with this id, whichever principal it belongs to, or nil.
func (t *Table) Find(id string) *Session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byID[id]
}

// Of returns the sessions of the principal with this key.
func (t *Table) Of(principal string) []*Session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []*Session
	for _, s := range t.byID {
		if s.key == principal {
			out = append(out, s)
		}
	}
	return out
}

// Close ends a session, if it has not ended yet. The table does not adopt it again.
func (t *Table) Close(s *Session, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.ID()] == s {
		t.closeForGood(s, cause)
	}
}

// CloseID ends the session with this id, if the table has it, because it was ended at another replica.
// The table does not adopt it again.
func (t *Table) CloseID(id string, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byID[id]; s != nil {
		t.closeForGood(s, cause)
	} else if !t.ended.has(id) {
		t.ended.add(id)
	}
}

func (t *Table) closeForGood(s *Session, cause error) {
	if s.IsSealed() {
		t.ended.add(s.ID())
	}
	t.close(s, cause, false)
}

func (t *Table) close(s *Session, cause error, keepTied bool) {
	delete(t.byID, s.ID())
	if s.Counted {
		t.Release(s.Share)
	}
	s.end(cause, keepTied)
	t.options.Ended(s.ID())
}

// Expire ends the sessions that have been idle for too long, and those whose id has expired. A
// sealed id of an idle session can be adopted again.
func (t *Table) Expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
}

func (t *Table) expire(now time.Time) {
	t.expired = now
	for _, s := range t.byID {
		if s.isOver(now, t.options.Idle) {
			t.close(s, ErrEnded, false)
		}
	}
}

// CloseAll ends all sessions, and those that are opened later. The streams of tied
// sessions stay open for the responses of their calls.
func (t *Table) CloseAll(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = cause
	for _, s := range t.byID {
		t.close(s, cause, true)
	}
}

// CloseOf ends the sessions of the principals that match, and returns them. The table does not adopt
// them again.
func (t *Table) CloseOf(match func(*call.Principal) bool, cause error) (ended []*Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		if match(s.Principal) {
			t.closeForGood(s, cause)
			ended = append(ended, s)
		}
	}
	return ended
}

// Sealed returns the sessions whose ids other replicas can open.
func (t *Table) Sealed() []*Session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []*Session
	for _, s := range t.byID {
		if s.IsSealed() {
			out = append(out, s)
		}
	}
	return out
}

// EndStreams ends the streams of all sessions, except of tied ones.
func (t *Table) EndStreams() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.byID {
		s.endStreams()
	}
}

// Disconnect ends the connections of streams of the sessions of principals that match, except of tied
// sessions. Clients can resume the streams.
func (t *Table) Disconnect(match func(*call.Principal) bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.byID {
		if match(s.Principal) {
			s.disconnect()
		}
	}
}

// NotifyLists tells each client which lists have changed for it. changed is called
// without a lock.
func (t *Table) NotifyLists(changed func(*call.Principal, *call.Client) stream.ListChanges) {
	t.mu.Lock()
	t.changed = time.Now()
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, s := range all {
		if c := changed(s.Principal, s.Client); c != 0 {
			s.NotifyLists(c)
		}
	}
}
