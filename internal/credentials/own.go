package credentials

import (
	"context"

	"mcpgateway/internal/call"
	"mcpgateway/internal/oauthmeta"
)

// GrantOf returns the grant of a principal for the upstream of s. It returns false if there is none.
func (s *Source) GrantOf(ctx context.Context, principal *call.Principal) (Grant, bool, error) {
	u, ok := s.tokens.(*user)
	if !ok {
		return Grant{}, false, nil
	}
	key := principalKey(principal)
	var g grant
	there, err := u.o.Store.load(ctx, u.storeName(key), &g)
	if err != nil || !there {
		return Grant{}, false, err
	}
	return Grant{
		Upstream: s.o.Upstream, URL: oauthmeta.CanonicalURI(s.o.URL), key: key, Local: key == localKey,
		Subject: principal.Subject, PrincipalIssuer: principal.Issuer, AuthMethod: principal.AuthMethod,
		Issuer: g.Issuer, Scopes: g.Scopes, Given: g.given(), Expires: g.Expires, Renewable: g.Refresh != "",
	}, true, nil
}
