package webui

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"sync"
	"time"
)

// sessions are the browsers that have proved who they are.
type sessions struct {
	key []byte // of tokens in forms

	mu  sync.Mutex
	all map[[sha256.Size]byte]session // by the digest of the id
}

// session is one login.
type session struct {
	until       time.Time
	owner       string // the identity of a principal, "" for the holder of the admin token
	credentials string // that the principal has given
}

const (
	// sessionLife is how long a login is valid.
	sessionLife = 12 * time.Hour
	// maxSessions and maxOwnSessions bound the logins that are kept, of all and of one owner. If
	// there are more, the oldest ends.
	maxSessions    = 4096
	maxOwnSessions = 256
)

func newSessions() sessions {
	return sessions{key: []byte(rand.Text()), all: make(map[[sha256.Size]byte]session)}
}

// open begins a session and returns its id.
func (s *sessions) open(now time.Time, with session) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest, oldestOwn [sha256.Size]byte
	own := 0
	for digest, of := range s.all {
		if of.until.Before(now) {
			delete(s.all, digest)
			continue
		}
		if first := s.all[oldest].until; first.IsZero() || of.until.Before(first) {
			oldest = digest
		}
		if of.owner == with.owner {
			own++
			if first := s.all[oldestOwn].until; first.IsZero() || of.until.Before(first) {
				oldestOwn = digest
			}
		}
	}
	switch {
	case own >= maxOwnSessions:
		delete(s.all, oldestOwn)
	case len(s.all) >= maxSessions:
		delete(s.all, oldest)
	}
	id = newSessionID()
	with.until = now.Add(sessionLife)
	s.all[sha256.Sum256([]byte(id))] = with
	return id
}

func newSessionID() string { return rand.Text() }

// get returns an open session.
func (s *sessions) get(id string, now time.Time) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.all[sha256.Sum256([]byte(id))]
	return of, now.Before(of.until)
}

// knows reports whether a session is open.
func (s *sessions) knows(id string, now time.Time) bool {
	_, ok := s.get(id, now)
	return ok
}

func (s *sessions) close(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(id)))
}

// formToken returns what a form of a session has to carry. Without sessions the id is "": then the
// token only proves that the sender can read pages of this gateway.
func (s *sessions) formToken(id string) string {
	return formTokenOf(s.key, id)
}

func formTokenOf(key []byte, text string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// attempts bounds how often logins fail.
type attempts struct {
	mu     sync.Mutex
	from   time.Time            // when the minute began
	failed map[netip.Prefix]int // by network
	total  int
}

const (
	attemptTime = time.Minute
	// maxAttempts and maxAllAttempts bound the logins that fail in that time, from one network and
	// from all.
	maxAttempts    = 10
	maxAllAttempts = 600
)

// take takes one attempt of the sender at an address. It returns false if there were too many.
func (a *attempts) take(remote string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.from) > attemptTime {
		a.from, a.failed, a.total = now, make(map[netip.Prefix]int), 0
	}
	from := networkOf(remote)
	if a.total >= maxAllAttempts || a.failed[from] >= maxAttempts {
		return false
	}
	a.failed[from]++
	a.total++
	return true
}

// giveBack gives an attempt back that has succeeded.
func (a *attempts) giveBack(remote string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if from := networkOf(remote); a.failed[from] > 0 {
		a.failed[from]--
		a.total--
	}
}

// networkOf returns the network of an address: the address itself for IPv4, its first 64 bits for
// IPv6, which one customer usually has.
func networkOf(remote string) netip.Prefix {
	at, _ := netip.ParseAddrPort(remote) // all others count together
	addr := at.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits)
	return network
}
