package credentials

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"mcpgateway/internal/wire"
)

// BrowserLogin is the login of an issuer's users in a browser (OpenID Connect). The
// gateway is registered at the issuer with the redirect URI <public URL>/oauth/login.
type BrowserLogin struct {
	Authority
	// Subject is the claim of the ID token that contains the subject of the issuer's
	// principals: a name, or nested names with dots between them; "" means sub.
	Subject string
	// Scopes are those that access tokens for the gateway need.
	Scopes []string
}

// browserLogin implements a BrowserLogin.
type browserLogin struct {
	*authority
	subject string
	scopes  []string
}

func newBrowserLogin(b BrowserLogin, now func() time.Time) (*browserLogin, error) {
	u, err := url.Parse(b.Issuer)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("login: the issuer %q is no URL", b.Issuer)
	}
	a, err := newAuthority(b.Authority, "the token endpoint of the identity provider", newGuard(u, b.TokenURL), now)
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	if b.Subject == "" {
		b.Subject = "sub"
	}
	return &browserLogin{a, b.Subject, b.Scopes}, nil
}

// begin begins a login that returns to the URL redirect. resource is that of an access token for the gateway itself,
// "" if none is needed. The ID token must contain the nonce, which binds it to the browser. That protects the login at providers whose
// metadata does not offer PKCE, such as Entra ID, although they support it; the challenge
// is always sent.
func (b *browserLogin) begin(ctx context.Context, redirect, resource string) (f *flow, nonce string, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	s, err := b.server(ctx)
	if err != nil {
		return nil, "", err
	}
	e, err := b.endpoint(ctx)
	if err != nil {
		return nil, "", err
	}
	p := tokenParams{scopes: []string{oidc.ScopeOpenID}, resource: resource}
	if resource != "" {
		p.scopes = union(p.scopes, b.scopes)
	}
	f, err = newFlow(s, e, registration{ID: b.ID}, redirect, p)
	return f, rand.Text(), err
}

// resume returns the flow of a login that was stored.
func (b *browserLogin) resume(ctx context.Context, s savedFlow) (*flow, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	server, err := b.guard.checkServer(s.Server)
	if err != nil {
		return nil, err
	}
	e, err := b.endpoint(ctx)
	if err != nil {
		return nil, err
	}
	return s.flow(server, e), nil
}

// finish handles the authorization response of a login, and returns the subject of the
// user and the access token.
func (b *browserLogin) finish(ctx context.Context, f *flow, nonce string, answer url.Values) (subject, access string, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	t, err := f.redeem(ctx, answer)
	if err != nil {
		return "", "", err
	}
	if f.server.keys == nil {
		return "", "", failf("the metadata of the identity provider names no keys")
	}
	ctx = oidc.ClientContext(ctx, b.guard.client(true))
	verifier := oidc.NewVerifier(f.server.Issuer, oidc.NewRemoteKeySet(ctx, f.server.keys.String()), &oidc.Config{
		ClientID: b.ID, Now: b.now,
		SupportedSigningAlgs: []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA},
	})
	id, err := verifier.Verify(ctx, t.id)
	if err != nil {
		return "", "", failf("the ID token of the identity provider is invalid").because(errors.New(libraries.Replace(err.Error())))
	}
	if id.Nonce != nonce {
		return "", "", failf("the ID token of the identity provider belongs to another login")
	}
	if id.AccessTokenHash != "" && id.VerifyAccessToken(t.access) != nil {
		return "", "", failf("the access token of the identity provider belongs to another login")
	}
	var claims rawClaims
	if err := id.Claims(&claims); err != nil {
		return "", "", failf("the ID token of the identity provider cannot be read").because(err)
	}
	subject, ok := claimText(wire.Raw(claims), b.subject)
	if !ok {
		return "", "", failf("the ID token of the identity provider has no claim %s", b.subject)
	}
	return subject, t.access, nil
}

// libraries removes the names that libraries put into their errors.
var libraries = strings.NewReplacer("oidc: ", "", "go-jose/go-jose: ", "")

// rawClaims is the JSON of claims.
type rawClaims []byte

// UnmarshalJSON implements [encoding/json.Unmarshaler].
func (c *rawClaims) UnmarshalJSON(data []byte) error {
	*c = slices.Clone(data)
	return wire.Check(data, wire.Limits{Depth: maxDepth}, wire.Strict)
}
