package auth

import (
	"slices"
	"sync/atomic"

	"mcpgateway/internal/call"
)

// Sender is who sent a request: a principal, and the profiles that they may use. Its methods
// may be called concurrently.
type Sender struct {
	// Profiles are the names of the only profiles that the principal may use; nil means all.
	Profiles []string

	principal *call.Principal // in the default profile
	others    atomic.Pointer[[]*call.Principal]
}

// NewSender returns a sender who may use all profiles.
func NewSender(p *call.Principal) *Sender { return &Sender{principal: p.In("")} }

// Principal returns the principal in the default profile.
func (s *Sender) Principal() *call.Principal { return s.principal }

// In returns the principal in a profile. It returns the same one for each request with the
// same credentials, which costs nothing.
func (s *Sender) In(profile string) *call.Principal {
	if profile == "" {
		return s.principal
	}
	for {
		known := s.others.Load()
		if known != nil {
			for _, p := range *known {
				if p.Profile == profile {
					return p
				}
			}
		}
		var next []*call.Principal
		if known != nil {
			next = slices.Clone(*known)
		}
		next = append(next, s.principal.In(profile))
		if s.others.CompareAndSwap(known, &next) {
			return next[len(next)-1]
		}
	}
}
