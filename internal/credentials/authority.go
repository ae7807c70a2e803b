package credentials

import (
	"context"
	"net/url"
	"sync"
	"time"
)

// Authority is an authorization server of the configuration, and the gateway as its
// client.
type Authority struct {
	Client
	Issuer   string // its metadata names the endpoints
	TokenURL string // replaces the token endpoint of the metadata
}

// metadataLife is how long metadata is used before it is fetched again.
const metadataLife = 10 * time.Minute

// authority finds the token endpoint of an authorization server. It is safe for
// concurrent use.
type authority struct {
	Authority
	what       string // the name of its token endpoint in errors
	clientAuth *clientAuth
	guard      *guard
	now        func() time.Time

	mu    sync.Mutex // held during a fetch, so that other callers wait for its result
	known *authServer
	until time.Time
}

func newAuthority(a Authority, what string, g *guard, now func() time.Time) (*authority, error) {
	auth, err := newClientAuth(a.Client)
	if err != nil {
		return nil, err
	}
	return &authority{Authority: a, what: what, clientAuth: auth, guard: g, now: now}, nil
}

// endpoint returns the token endpoint. The error is an *Error, or that of ctx.
func (a *authority) endpoint(ctx context.Context) (*tokenEndpoint, error) {
	e := &tokenEndpoint{what: a.what, client: a.clientAuth, guard: a.guard, now: a.now}
	if a.TokenURL != "" {
		u, err := url.Parse(a.TokenURL)
		if err != nil {
			return nil, failf("%s has no URL", a.what).because(err)
		}
		e.url, e.aud = u, a.TokenURL
		return e, nil
	}
	s, err := a.server(ctx)
	if err != nil {
		return nil, err
	}
	e.url, e.aud, e.methods = s.token, s.Issuer, s.AuthMethods
	return e, nil
}

// server returns the metadata of the issuer.
func (a *authority) server(ctx context.Context) (*authServer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known != nil && a.now().Before(a.until) {
		return a.known, nil
	}
	s, err := a.guard.findServer(ctx, a.Issuer)
	if err != nil {
		return nil, err
	}
	a.known, a.until = s, a.now().Add(metadataLife)
	return s, nil
}
