package credentials

import (
	"context"
	"net/url"
	"sync"
	"time"
)

// Authority is an authorization server that the configuration names, and who the
// gateway is there.
type Authority struct {
	Client
	Issuer   string // whose metadata says where its endpoints are
	TokenURL string // its token endpoint, in place of what the metadata says
}

// metadataLife is for how long metadata is taken for current.
const metadataLife = 10 * time.Minute

// authority finds the token endpoint of an authorization server. Its methods may be
// called by many goroutines at once.
type authority struct {
	Authority
	what       string // what errors call its token endpoint
	clientAuth *clientAuth
	guard      *guard
	now        func() time.Time

	mu    sync.Mutex // held while metadata is fetched: who asks meanwhile needs it too
	known *authServer
	until time.Time
}

func newAuthority(a Authority, what string, g *guard, now func() time.Time) (*authority, error) {
	proof, err := newClientAuth(a.Client)
	if err != nil {
		return nil, err
	}
	return &authority{Authority: a, what: what, clientAuth: proof, guard: g, now: now}, nil
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
