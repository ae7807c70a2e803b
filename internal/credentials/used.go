package credentials

import (
	"context"
	"strings"
	"time"
)

// usedEvery is how often the use of a grant is recorded.
const usedEvery = time.Hour

// usedKind begins the names of [lastUse] values. The last use is not in the grant itself: replicas compare the bytes of a
// grant to find out which of two renewals came later.
const usedKind = "used"

// lastUse is the stored record about the use of a grant.
type lastUse struct {
	At time.Time `json:"at"`
}

// usedName returns the name of the last use of the grant with a name, "" for values that are no grants.
func usedName(name string) string {
	if !strings.HasPrefix(name, grantKind+"\x00") {
		return ""
	}
	return usedKind + name[len(grantKind):]
}

// noteUse records that a grant is used: one write per hour and grant, also among replicas except those that use it at the same moment.
// A use that cannot be stored is recorded later. A use from before the grant was given belongs to the grant that it replaced, and
// does not count.
func (s *Store) noteUse(ctx context.Context, grant string, given, now time.Time) {
	name := usedName(grant)
	s.mu.Lock()
	noted, known := s.noted.Get(name, now)
	if known = known && noted.Equal(given); !known {
		s.noted.Put(name, given, now.Add(usedEvery), now)
	}
	s.mu.Unlock()
	if known {
		return
	}
	var last lastUse
	_, err := s.load(ctx, name, &last)
	if err == nil && (now.Sub(last.At) >= usedEvery || last.At.Before(given)) {
		err = s.save(ctx, name, lastUse{now})
	}
	if err != nil {
		s.forgetUse(name)
	}
}

// forgetUse makes the next use of a grant be recorded.
func (s *Store) forgetUse(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted.Delete(name)
}

// removeUse removes the last use of a grant that was removed.
func (s *Store) removeUse(ctx context.Context, grant string) {
	if name := usedName(grant); name != "" {
		s.forgetUse(name)
		_ = s.values.remove(ctx, name, nil) // a later grant does not read it: it is older
	}
}

// usedSince returns when a grant was used last, to the hour, zero if that is not known. A use before the grant was
// given is that of another one.
func (s *Store) usedSince(ctx context.Context, grant string, given time.Time) (time.Time, error) {
	var last lastUse
	if _, err := s.load(ctx, usedName(grant), &last); err != nil || last.At.Before(given) {
		return time.Time{}, err
	}
	return last.At, nil
}
