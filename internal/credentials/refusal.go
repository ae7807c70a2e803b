package credentials

import (
	"context"
	"net/url"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/oauthmeta"
)

// refusalKind begins the names of [refusal] values. They outlive the grant: without one its user would read that there was no
// grant yet.
const refusalKind = "refusal"

// refusal is what is stored about a grant that was removed because it is of no use any more.
type refusal struct {
	Code string `json:"code,omitempty"` // of the authorization server; "" if the grant could not be renewed
}

// refusalName returns the name of the refusal of the grant with a name, "" for values that are no grants.
func refusalName(name string) string {
	if !strings.HasPrefix(name, grantKind+"\x00") {
		return ""
	}
	return refusalKind + name[len(grantKind):]
}

// text says why there is no grant any more: to the user of this machine, or about another one.
func (r refusal) text(own bool) string {
	whose := "the grant of this server's user"
	if own {
		whose = "your grant"
	}
	if r.Code == "" {
		return whose + " has expired or was revoked"
	}
	return "the authorization server refused " + whose + " (" + r.Code + ")"
}

// refusalOf returns why the grant with a name was removed, and whether it was.
func (s *Store) refusalOf(ctx context.Context, grant string) (refusal, bool) {
	var r refusal
	there, err := s.load(ctx, refusalName(grant), &r)
	return r, there && err == nil
}

// noteRefusal records why a grant was removed, and reports it. Without the record its user reads that there is none.
func (s *Store) noteRefusal(ctx context.Context, grant string, r refusal) {
	_ = s.save(ctx, refusalName(grant), r)
	if parts := strings.SplitN(grant, "\x00", 6); len(parts) == 6 { // see grantName and call.Principal.Identity
		s.removed(parts[1], parts[5], r.text(false))
	}
}

// ForgetLost removes the record from which [Store.Lost] reads.
func (s *Store) ForgetLost(ctx context.Context, upstream string, at *url.URL) error {
	name := grantName(upstream, oauthmeta.CanonicalURI(at), localKey)
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	return s.values.remove(ctx, refusalName(name), nil)
}

// Lost says why the user of this machine has no grant any more for an upstream at a URL, "" if there is one, or there never was.
func (s *Store) Lost(ctx context.Context, upstream string, at *url.URL) string {
	return s.lost(ctx, grantName(upstream, oauthmeta.CanonicalURI(at), localKey), true)
}

// lost says why there is no grant with a name any more, "" if there is one, or there never was.
func (s *Store) lost(ctx context.Context, name string, own bool) string {
	if stored, err := s.read(ctx, name); stored != nil || err != nil {
		return ""
	}
	if r, there := s.refusalOf(ctx, name); there {
		return r.text(own)
	}
	return ""
}

// Lost says why a principal has no grant any more, "" if there is one, or there never was. own says that the principal reads it.
func (s *Source) Lost(ctx context.Context, principal *call.Principal, own bool) string {
	u, ok := s.tokens.(*user)
	if !ok {
		return ""
	}
	return u.o.Store.lost(ctx, u.storeName(principalKey(principal)), own)
}

// lost notes that a principal has no grant.
func (u *user) lost(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last.Delete(key)
	if len(u.without) >= maxRemembered {
		clear(u.without)
	}
	u.without[key] = true
}

// LacksGrant reports whether a principal had no grant when it was last read or removed here. Unlike [Source.NeedsGrant] it reads
// nothing.
func (s *Source) LacksGrant(principal *call.Principal) bool {
	u, ok := s.tokens.(*user)
	if !ok {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.without[principalKey(principal)]
}
