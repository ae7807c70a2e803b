package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"mcpgateway/internal/oauthmeta"
)

// authServer is the metadata of an authorization server, with URLs that the guard has
// checked. It is immutable.
type authServer struct {
	*oauthmeta.Server
	token     *url.URL
	authorize *url.URL // nil if absent
	register  *url.URL // nil if absent
	keys      *url.URL // nil if absent
	revoke    *url.URL // nil if absent
}

// findResource returns the metadata of the server at u: from the URL in its challenge, or
// else from the well-known URLs (2026-07-28, basic/authorization/
// authorization-server-discovery).
func (g *guard) findResource(ctx context.Context, u *url.URL, c oauthmeta.Challenge) (*oauthmeta.Resource, error) {
	const what = "the metadata of the server"
	var r *oauthmeta.Resource
	var err error
	if c.Metadata == "" {
		r, err = oauthmeta.FindResource(ctx, u, g.fetcher(what))
	} else {
		r, err = g.resourceAt(ctx, u, c.Metadata)
	}
	var other *oauthmeta.ResourceError
	switch {
	case errors.As(err, &other):
		cause := errors.New("it names none")
		if other.Named != "" {
			cause = fmt.Errorf("%.200q: set url to that if it is the server that you mean", other.Named)
		}
		return nil, failf("%s is about another resource", what).because(cause)
	case errors.Is(err, oauthmeta.ErrNoServer):
		return nil, failf("%s names no authorization server", what)
	}
	return r, err
}

// resourceAt returns the metadata of the server at u from the URL that its challenge names.
func (g *guard) resourceAt(ctx context.Context, u *url.URL, metadata string) (*oauthmeta.Resource, error) {
	const what = "the metadata of the server"
	at, err := g.checkText(metadata)
	if err != nil {
		return nil, refusedURL(what, metadata, err)
	}
	a, err := g.fetch(ctx, what, at)
	switch {
	case err != nil:
		return nil, err
	case a.Status != http.StatusOK:
		return nil, a.refusal(what)
	}
	return oauthmeta.ParseResource(u, a.Body)
}

// fetcher returns a function that fetches documents. what names them in errors.
func (g *guard) fetcher(what string) oauthmeta.Fetch {
	return func(ctx context.Context, at *url.URL) (oauthmeta.Document, error) {
		a, err := g.fetch(ctx, what, at)
		return a.Document, err
	}
}

// findServer returns the metadata of an issuer.
func (g *guard) findServer(ctx context.Context, issuer string) (*authServer, error) {
	const what = "the metadata of the authorization server"
	u, err := g.checkText(issuer)
	if err == nil && u.RawQuery != "" {
		err = errors.New("has a query")
	}
	if err != nil {
		return nil, refusedURL("the authorization server", issuer, err)
	}
	meta, err := oauthmeta.FindServer(ctx, issuer, g.fetcher(what))
	var missing *oauthmeta.NotFoundError
	var other *oauthmeta.IssuerError
	switch {
	case errors.As(err, &missing):
		e := failf("%s is at none of its well-known URLs (HTTP %d)", what, missing.Status).because(&undescribed{issuer, missing.Status})
		e.temporary = isTemporary(missing.Status)
		return nil, e
	case errors.As(err, &other):
		return nil, failf("%s is that of another issuer", what).because(fmt.Errorf("%.200q instead of %.200q", other.Named, other.Issuer))
	case err != nil:
		return nil, err
	}
	return g.checkServer(meta)
}

// undescribed is the cause of an error about an issuer without metadata.
type undescribed struct {
	issuer string
	status int // at the last well-known URL
}

// Error implements error.
func (u *undescribed) Error() string { return fmt.Sprintf("the issuer is %.200q", u.issuer) }

// checkServer checks the URLs in the metadata of an authorization server.
func (g *guard) checkServer(meta *oauthmeta.Server) (*authServer, error) {
	s := &authServer{Server: meta}
	for _, e := range []struct {
		what, text string
		to         **url.URL
	}{
		{"the token endpoint", meta.TokenEndpoint, &s.token},
		{"the authorization endpoint", meta.AuthorizationEndpoint, &s.authorize},
		{"the registration endpoint", meta.RegistrationEndpoint, &s.register},
		{"the key set", meta.JWKSURI, &s.keys},
		{"the revocation endpoint", meta.RevocationEndpoint, &s.revoke},
	} {
		if e.text == "" {
			continue
		}
		u, err := g.checkText(e.text)
		if err != nil {
			return nil, refusedURL(e.what, e.text, err)
		}
		*e.to = u
	}
	if s.token == nil {
		return nil, failf("the metadata of the authorization server names no token endpoint")
	}
	return s, nil
}
