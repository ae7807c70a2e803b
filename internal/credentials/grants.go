package credentials

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/oauthmeta"
)

// Grant describes a stored grant. It contains no token.
type Grant struct {
	Upstream string
	URL      string // of the upstream, for which the grant is
	// Local says that the grant belongs to the user of this machine, and that the next
	// three members say nothing about a person.
	Local           bool
	Subject         string
	PrincipalIssuer string // of the tokens of the principal
	AuthMethod      string

	Issuer    string // the authorization server
	Scopes    []string
	Given     time.Time // when the user consented
	Used      time.Time // when the gateway last used it, to the hour; zero: unknown, or never
	Expires   time.Time // when the access token expires; zero: unknown
	Renewable bool      // whether the gateway can renew the access token
	key       string
}

// Grants returns the stored grants, in the order of their upstreams and principals. Grants
// that a version before this one stored are missing until their next renewal, because their
// files do not name them; those of known say whose they are: the names of upstreams and the
// URLs at which the user of this machine may have given one.
func (s *Store) Grants(ctx context.Context, known ...Grant) ([]Grant, error) {
	names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		at, err := url.Parse(k.URL)
		if err != nil {
			continue
		}
		if name := grantName(k.Upstream, oauthmeta.CanonicalURI(at), localKey); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var all []Grant
	for _, name := range names {
		parts := strings.SplitN(name, "\x00", 4)
		if len(parts) != 4 || parts[0] != grantKind {
			continue
		}
		var g grant
		switch there, err := s.load(ctx, name, &g); {
		case err != nil:
			return nil, err
		case !there: // it was removed meanwhile
			continue
		}
		who := strings.SplitN(parts[3], "\x00", 3)
		if len(who) != 3 {
			continue
		}
		used, err := s.usedSince(ctx, name, g.given())
		if err != nil {
			return nil, err
		}
		all = append(all, Grant{
			Upstream: parts[1], URL: parts[2], key: parts[3],
			Local: parts[3] == localKey, AuthMethod: who[0], PrincipalIssuer: who[1], Subject: who[2],
			Issuer: g.Issuer, Scopes: g.Scopes, Given: g.given(), Used: used, Expires: g.Expires, Renewable: g.Refresh != "",
		})
	}
	slices.SortFunc(all, func(a, b Grant) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.URL, b.URL), cmp.Compare(a.key, b.key))
	})
	return all, nil
}

// grantKind begins the names of grants.
const grantKind = "grant"

func grantName(upstream, at, key string) string {
	return strings.Join([]string{grantKind, upstream, at, key}, "\x00")
}

// given returns when the user consented.
func (g grant) given() time.Time {
	if g.Given.IsZero() { // it was stored by a version before this one
		return g.Issued
	}
	return g.Given
}

// IsFor reports whether a grant is for the upstream of s, at the URL that it has now.
func (s *Source) IsFor(g Grant) bool {
	return g.Upstream == s.o.Upstream && g.URL == oauthmeta.CanonicalURI(s.o.URL)
}

// Forget removes a stored grant, without a word to its authorization server.
func (s *Store) Forget(ctx context.Context, g Grant) error {
	name := grantName(g.Upstream, g.URL, g.key)
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	err = s.remove(ctx, name, nil)
	unlock()
	if err == nil {
		s.changed(ctx, name)
	}
	return err
}

// Revoke removes a stored grant for the upstream of s, and revokes it at its authorization
// server (RFC 7009). It reports whether that server has revoked it. The error says that the
// grant is still stored. untold is the reason why the request for revocation failed, nil if
// the server offers no revocation.
func (s *Source) Revoke(ctx context.Context, g Grant) (revoked bool, untold, err error) {
	u, ok := s.tokens.(*user)
	if !ok {
		return false, nil, failf("the upstream %s takes no grants of users", s.o.Upstream)
	}
	name := u.storeName(g.key)
	if revoked, untold, err = u.revoke(ctx, name); err == nil {
		u.forget(g.key)
		u.lost(g.key)
		u.o.Store.changed(ctx, name)
	}
	return revoked, withCause(untold), err
}

// revoke removes a stored grant, and revokes it at its authorization server.
func (u *user) revoke(ctx context.Context, name string) (revoked bool, untold, err error) {
	unlock, err := u.o.Store.lock(ctx, name)
	if err != nil {
		return false, nil, err
	}
	defer unlock()
	var stored grant
	there, err := u.o.Store.load(ctx, name, &stored)
	if err != nil || !there {
		return false, nil, err
	}
	revoked, untold = u.revokeAt(ctx, stored)
	return revoked, untold, u.o.Store.remove(ctx, name, nil)
}

// revokeAt asks the authorization server to revoke a grant. The refresh token stands for
// the whole grant.
func (u *user) revokeAt(ctx context.Context, g grant) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	s, err := u.guard.findServer(ctx, g.Issuer)
	if err != nil || s.revoke == nil {
		return false, err
	}
	e := u.endpoint(s, g.Client)
	e.what, e.url = "the revocation endpoint", s.revoke
	form := tokenParams{}.form("")
	form.Del("grant_type")
	form.Set("token", cmp.Or(g.Refresh, g.Access))
	form.Set("token_type_hint", map[bool]string{true: "refresh_token", false: "access_token"}[g.Refresh != ""])
	a, err := e.post(ctx, form)
	if err == nil && a.Status != http.StatusOK {
		err = a.refusal(e.what)
	}
	return err == nil, err
}
