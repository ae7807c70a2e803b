package auth

import "mcpgateway/internal/call"

// KeyChanges are the API keys from which [Authenticator.SetKeys] has taken something. A key is in one
// of the sets at most.
type KeyChanges struct {
	Revoked   KeySet // removed, given to another subject, or expired by their new expiry
	Changed   KeySet // with other groups, scopes or profiles
	Shortened KeySet // valid, but not as long as before
}

// HasSubject reports whether one of the keys belongs to the principal, whichever key it used.
func (c *KeyChanges) HasSubject(p *call.Principal) bool {
	return c.Revoked.hasSubject(p) || c.Changed.hasSubject(p) || c.Shortened.hasSubject(p)
}

// KeySet is a set of API keys: the ids that they have had, by the identity of their principal.
type KeySet map[string]map[string]bool

func (s KeySet) add(k *apiKey) {
	of := k.principal.Identity()
	if s[of] == nil {
		s[of] = make(map[string]bool)
	}
	s[of][k.id] = true
	for _, id := range k.formerIDs { // a session may have begun when the key had another id
		s[of][id] = true
	}
}

// Has reports whether the principal authenticated with one of the keys.
func (s KeySet) Has(p *call.Principal) bool { return s[p.Identity()][p.KeyID] }

func (s KeySet) hasSubject(p *call.Principal) bool { return s[p.Identity()] != nil }
