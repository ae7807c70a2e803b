package sessionstore

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/wire"
)

// maxUnwritten bounds the memory of the changes that wait for the store, in bytes: about 40,000 ends of sessions.
const maxUnwritten = 16 << 20

// unwrittenSize is what a change takes beside its texts.
const unwrittenSize = 256

// unwritten are changes that the store did not take yet.
type unwritten struct {
	mu       sync.Mutex
	sessions map[string]*unwrittenSession
	bytes    int
	number   int // of the last change
}

// unwrittenSession are the changes of one session: the last one of each field, or only its end.
type unwrittenSession struct {
	expires time.Time
	changes map[string]unwrittenChange // by field
}

type unwrittenChange struct {
	session.Change
	number int
}

// fieldOfChange returns the field that a change is about.
func fieldOfChange(c session.Change) string {
	switch {
	case c.Ended:
		return fieldEnded
	case c.Level != wire.LevelNone:
		return fieldLevel
	case c.Subscribed != "":
		return fieldOf(c.Subscribed)
	}
	return fieldOf(c.Unsubscribed)
}

func sizeOf(id string, c session.Change) int {
	return unwrittenSize + len(id) + len(c.Subscribed) + len(c.Unsubscribed)
}

// add keeps a change in the place of an earlier one of the same field, unless there is no room.
func (u *unwritten) add(id string, expires time.Time, c session.Change) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.sessions[id]
	if s != nil && s.ended() {
		return
	}
	if s != nil && c.Ended {
		u.forget(id)
		s = nil
	}
	field := fieldOfChange(c)
	if s != nil {
		if old, is := s.changes[field]; is {
			u.bytes -= sizeOf(id, old.Change)
			delete(s.changes, field)
		}
	}
	if u.bytes+sizeOf(id, c) > maxUnwritten {
		return
	}
	if s == nil {
		s = &unwrittenSession{changes: make(map[string]unwrittenChange)}
		if u.sessions == nil {
			u.sessions = make(map[string]*unwrittenSession)
		}
		u.sessions[id] = s
	}
	u.number++
	u.bytes += sizeOf(id, c)
	s.expires, s.changes[field] = expires, unwrittenChange{c, u.number}
}

func (s *unwrittenSession) ended() bool {
	_, ended := s.changes[fieldEnded]
	return ended
}

// forget forgets all changes of a session. The caller holds mu.
func (u *unwritten) forget(id string) {
	for _, c := range u.sessions[id].changes {
		u.bytes -= sizeOf(id, c.Change)
	}
	delete(u.sessions, id)
}

// has reports whether changes of a session wait. Further ones have to wait behind them.
func (u *unwritten) has(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sessions[id] != nil
}

// ids returns the sessions with changes that wait.
func (u *unwritten) ids() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.sessions))
}

// of returns the changes of a session in their order.
func (u *unwritten) of(id string) (expires time.Time, changes []unwrittenChange) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.sessions[id]
	if s == nil {
		return expires, nil
	}
	changes = slices.SortedFunc(maps.Values(s.changes), func(a, b unwrittenChange) int { return a.number - b.number })
	return s.expires, changes
}

// written forgets a change, unless another one has taken its place.
func (u *unwritten) written(id string, c unwrittenChange) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.sessions[id]
	if s == nil {
		return
	}
	field := fieldOfChange(c.Change)
	if s.changes[field].number != c.number {
		return
	}
	u.bytes -= sizeOf(id, c.Change)
	if delete(s.changes, field); len(s.changes) == 0 {
		delete(u.sessions, id)
	}
}

// Run writes changes that the store did not take when they were made, and tells the other replicas of them
// again, until ctx ends.
func (s *States) Run(ctx context.Context) {
	tick := time.NewTicker(retryAfter)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, id := range s.unwritten.ids() {
				if s.write(ctx, id) != nil {
					break // the store is away still
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// write writes the changes of a session that wait. Another replica may have ended it meanwhile.
func (s *States) write(ctx context.Context, id string) error {
	expires, changes := s.unwritten.of(id)
	st, err := s.Load(ctx, id)
	if err != nil && !isFinal(err) {
		return err
	}
	for _, c := range changes {
		if !st.Ended && time.Now().Before(expires) {
			bounded, cancel := context.WithTimeout(ctx, timeout)
			err := s.change(bounded, id, expires, c.Change)
			cancel()
			if err != nil && !isFinal(err) {
				return err
			}
			if err == nil {
				s.tell(ctx, id, c.Change)
			}
		}
		s.unwritten.written(id, c)
	}
	return nil
}
