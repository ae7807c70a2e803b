package latest

import (
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// maxPrincipals bounds each of the two generations of records.
const maxPrincipals = 16384

// Principals holds the latest credentials of the principals that were active last. The zero
// Principals is empty. Its methods may be called by many goroutines at once.
type Principals struct {
	mu sync.RWMutex
	// A record is in young if it was used since the generations changed last. When young
	// is full it becomes old, and the records that were in old are forgotten.
	young, old map[identity]*call.Principal
}

// identity is what call.Principal.Identity is made of, without an allocation: the credentials
// of a principal are the same in all profiles.
type identity struct{ method, issuer, subject string }

func identityOf(p *call.Principal) identity { return identity{p.AuthMethod, p.Issuer, p.Subject} }

// Record notes the principal of a request that was authenticated just now. A token that
// was issued before the recorded one changes nothing.
func (r *Principals) Record(p *call.Principal) {
	if isFixed(p) {
		return
	}
	id := identityOf(p)
	r.mu.RLock()
	known := r.young[id]
	r.mu.RUnlock()
	if known == p {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known = r.find(id); known == nil || issued(p) >= issued(known) {
		r.put(id, p)
	}
}

// Latest returns the principal, in its profile, with the latest credentials that are recorded
// for it in any profile, or the principal itself.
func (r *Principals) Latest(p *call.Principal) *call.Principal {
	if isFixed(p) {
		return p
	}
	id := identityOf(p)
	r.mu.RLock()
	known := r.young[id]
	r.mu.RUnlock()
	if known == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if known = r.find(id); known == nil {
			return p
		}
		r.put(id, known)
	}
	return known.In(p.Profile)
}

// find returns the record of a principal. The caller holds mu.
func (r *Principals) find(id identity) *call.Principal {
	if p := r.young[id]; p != nil {
		return p
	}
	return r.old[id]
}

// put makes a record one that was used last. The caller holds mu.
func (r *Principals) put(id identity, p *call.Principal) {
	if r.young == nil || len(r.young) >= maxPrincipals && r.young[id] == nil {
		r.young, r.old = make(map[identity]*call.Principal), r.young
	}
	r.young[id] = p
}

// isFixed reports whether a principal has the same rights in every request.
func isFixed(p *call.Principal) bool { return p.IsAnonymous() || p.IsLocal() }

// issued returns when the token of a principal was issued, 0 if that is not known.
func issued(p *call.Principal) int64 {
	at, _ := wire.ValueOf(p.Claims).Get("iat").Int()
	return at
}
