package latest

import (
	"slices"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// maxPrincipals bounds each of the two generations of records.
const maxPrincipals = 16384

// Principals holds the latest credentials of the principals that were active last. The
// credentials of a principal are the same in all profiles. The zero Principals is empty. Its
// methods may be called concurrently.
type Principals struct {
	mu sync.RWMutex
	// A record is in young if it was used since the generations changed last. When young
	// is full it becomes old, and the records that were in old are forgotten.
	young, old map[identity]record
}

// identity has the parts of call.Principal.Identity, without an allocation.
type identity struct{ method, issuer, subject string }

func identityOf(p *call.Principal) identity { return identity{p.AuthMethod, p.Issuer, p.Subject} }

// record is a principal with its latest credentials: first as it was recorded, then in other
// profiles. It is not changed, only replaced.
type record []*call.Principal

// in returns the principal in a profile, nil if the record does not have it yet.
func (r record) in(profile string) *call.Principal {
	for _, p := range r {
		if p.Profile == profile {
			return p
		}
	}
	return nil
}

// Record notes the principal of a request that was authenticated just now. A token that
// was issued before the recorded one changes nothing. Record costs least if requests with the
// same credentials are recorded with the same pointer, whatever their profile is.
func (r *Principals) Record(p *call.Principal) {
	if isFixed(p) {
		return
	}
	id := identityOf(p)
	r.mu.RLock()
	known := r.young[id]
	r.mu.RUnlock()
	if slices.Contains(known, p) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known = r.find(id); known == nil || issued(p) >= issued(known[0]) {
		r.put(id, record{p})
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
	latest := r.young[id].in(p.Profile)
	r.mu.RUnlock()
	if latest != nil {
		return latest
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.find(id)
	if known == nil {
		return p
	}
	if latest = known.in(p.Profile); latest == nil {
		latest = known[0].In(p.Profile)
		known = append(slices.Clip(known), latest)
	}
	r.put(id, known)
	return latest
}

// find returns the record of a principal. The caller holds mu.
func (r *Principals) find(id identity) record {
	if known := r.young[id]; known != nil {
		return known
	}
	return r.old[id]
}

// put makes a record the most recently used one. The caller holds mu.
func (r *Principals) put(id identity, known record) {
	if r.young == nil || len(r.young) >= maxPrincipals && r.young[id] == nil {
		r.young, r.old = make(map[identity]record), r.young
	}
	r.young[id] = known
}

// isFixed reports whether a principal has the same rights in every request.
func isFixed(p *call.Principal) bool { return p.IsAnonymous() || p.IsLocal() }

// issued returns when the token of a principal was issued, 0 if that is not known.
func issued(p *call.Principal) int64 {
	at, _ := wire.ValueOf(p.Claims).Get("iat").Int()
	return at
}
