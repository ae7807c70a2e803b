package credentials

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"mcpgateway/internal/wire"
)

// BrowserLogin is how users of an issuer prove to the gateway in a browser who they
// are (OpenID Connect). The gateway is registered there with the redirect URI
// <public URL>/oauth/login.
type BrowserLogin struct {
	Authority
	// Subject is the claim of the ID token that is the subject of principals of the
	// issuer: its name, or names with dots between; "" means sub.
	Subject string
}

// browserLogin is a BrowserLogin at work.
type browserLogin struct {
	*authority
	subject string
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
	return &browserLogin{a, b.Subject}, nil
}

// begin begins a login that comes back to redirect. nonce is to be in the ID token: it
// binds that to the browser also where the provider does not say that it knows PKCE, as
// Entra ID does not, though it does. The challenge is sent all the same.
func (b *browserLogin) begin(ctx context.Context, redirect string) (f *flow, nonce string, err error) {
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
	f, err = newFlow(s, e, registration{ID: b.ID}, redirect, tokenParams{scopes: []string{oidc.ScopeOpenID}})
	return f, rand.Text(), err
}

// finish takes the answer of a login and returns the subject of whoever logged in.
func (b *browserLogin) finish(ctx context.Context, f *flow, nonce string, answer url.Values) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	t, err := f.redeem(ctx, answer)
	if err != nil {
		return "", err
	}
	if f.server.keys == nil {
		return "", failf("the identity provider has no keys")
	}
	ctx = oidc.ClientContext(ctx, b.guard.client(true))
	verifier := oidc.NewVerifier(f.server.Issuer, oidc.NewRemoteKeySet(ctx, f.server.keys.String()), &oidc.Config{
		ClientID: b.ID, Now: b.now,
		SupportedSigningAlgs: []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA},
	})
	id, err := verifier.Verify(ctx, t.id)
	if err != nil {
		return "", failf("the identity provider gave no ID token that holds").because(err)
	}
	if id.Nonce != nonce {
		return "", failf("the ID token of the identity provider belongs to another login")
	}
	var claims rawClaims
	if err := id.Claims(&claims); err != nil {
		return "", failf("the ID token of the identity provider cannot be read").because(err)
	}
	subject, ok := claimText(wire.Raw(claims), b.subject)
	if !ok {
		return "", failf("the ID token of the identity provider has no claim %s", b.subject)
	}
	return subject, nil
}

// rawClaims are claims as they came.
type rawClaims []byte

// UnmarshalJSON implements [encoding/json.Unmarshaler].
func (c *rawClaims) UnmarshalJSON(data []byte) error {
	*c = slices.Clone(data)
	return wire.Check(data, wire.Limits{Depth: maxDepth}, wire.Strict)
}
