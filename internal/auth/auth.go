package auth

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"mcpgateway/internal/endpoint"
)

// Options configure an [Authenticator]. It ignores kinds of credentials for which nothing
// is configured.
type Options struct {
	Keys         []Key
	Issuers      []Issuer
	Certificates []CertificateRule
	// Hierarchy lists scopes that imply others.
	Hierarchy []ImpliedScopes

	// PublicURL is the URL at which clients reach the gateway, without a slash at its
	// end; "" means the URL of each request.
	PublicURL string
	// Endpoints returns the current endpoints; nil means those without profiles.
	Endpoints func() *endpoint.Set

	Metrics *Metrics // nil: new collectors that are registered nowhere

	// Client fetches metadata and keys of issuers, in tests. nil means a client with
	// bounds on time, size and redirects.
	Client *http.Client
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Authenticator authenticates requests.
type Authenticator struct {
	keys      atomic.Pointer[apiKeys] // replaced by SetKeys
	issuers   map[string]*issuer
	certs     atomic.Pointer[[]certificateRule] // replaced by SetCertificates
	verified  *tokenCache
	resource  resource
	hierarchy hierarchy
	realm     string // the challenge if no tokens are accepted
	endpoints func() *endpoint.Set
	now       func() time.Time
	metrics   *Metrics
}

// New returns an Authenticator. The error names the invalid option. New makes no request.
func New(o Options) (*Authenticator, error) {
	a := &Authenticator{now: o.Now, metrics: o.Metrics, endpoints: o.Endpoints}
	if a.endpoints == nil {
		only := endpoint.New(nil)
		a.endpoints = func() *endpoint.Set { return only }
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.metrics == nil {
		a.metrics = NewMetrics()
	}
	a.hierarchy = newHierarchy(o.Hierarchy)
	a.verified = newTokenCache()
	keys, err := newKeys(o.Keys, a.hierarchy)
	if err != nil {
		return nil, err
	}
	a.keys.Store(keys)
	if err := a.SetCertificates(o.Certificates); err != nil {
		return nil, err
	}
	a.resource = newResource(o)
	if a.issuers, err = a.newIssuers(o.Issuers, fetcher(o.Client)); err != nil {
		return nil, err
	}
	a.realm = challenge("Bearer", "realm", "mcpgateway")
	if len(o.Keys) == 0 {
		// No scheme is registered for certificates. With Bearer, clients would look for
		// an authorization server.
		a.realm = challenge("ClientCertificate", "realm", "mcpgateway")
	}
	return a, nil
}

// Authenticate returns the sender of a request to an endpoint. The error is a [*Denied], or
// that of the request's context.
func (a *Authenticator) Authenticate(r *http.Request, at endpoint.Endpoint) (*Sender, error) {
	sender, fail, err := a.senderOf(r, at)
	if fail != nil {
		err = a.deny(r, fail)
	}
	return sender, err
}

// AuthenticatePage is Authenticate for pages for people, who may open one before they log in: a request without
// credentials ([Denied.Missing]) does not count as a failure.
func (a *Authenticator) AuthenticatePage(r *http.Request, at endpoint.Endpoint) (*Sender, error) {
	sender, fail, err := a.senderOf(r, at)
	switch {
	case fail.isMissing():
		err = a.denied(r, fail)
	case fail != nil:
		err = a.deny(r, fail)
	}
	return sender, err
}

// TooManyAttempts counts a login that is refused unseen, because too many have failed, and returns its error.
func (a *Authenticator) TooManyAttempts() *Denied {
	a.metrics.failures.WithLabelValues(errAttempts.reason).Inc()
	return &Denied{fail: errAttempts, category: errAttempts.reason, log: a.logField(new(http.Request), errAttempts)}
}

// senderOf returns the sender of a request, or why there is none. The error is that of the request's context.
func (a *Authenticator) senderOf(r *http.Request, at endpoint.Endpoint) (*Sender, *failure, error) {
	sender, fail := a.authenticate(r, at)
	if fail != nil && r.Context().Err() != nil {
		return nil, nil, r.Context().Err()
	}
	return sender, fail, nil
}

// deny counts a failure, and returns its error.
func (a *Authenticator) deny(r *http.Request, fail *failure) *Denied {
	a.metrics.failures.WithLabelValues(fail.reason).Inc()
	return a.denied(r, fail)
}

func (a *Authenticator) denied(r *http.Request, fail *failure) *Denied {
	return &Denied{fail, a.challengeFor(r, fail), a.logCategory(r, fail), a.logField(r, fail)}
}

// authenticate verifies the credentials of a request.
func (a *Authenticator) authenticate(r *http.Request, at endpoint.Endpoint) (*Sender, *failure) {
	creds, fail := a.credentials(r.Header)
	if fail != nil {
		return nil, fail
	}
	var fromCert *Sender
	if len(*a.certs.Load()) > 0 {
		if fromCert, fail = a.certSender(r.TLS); fail != nil && creds.text == "" {
			return nil, fail
		}
	}
	switch {
	case creds.text == "" && fromCert == nil && creds.otherScheme:
		return nil, errScheme
	case creds.text == "" && fromCert == nil:
		return nil, errMissing
	case creds.text == "":
		return fromCert, nil
	case fromCert != nil:
		return nil, errTwoCredentials
	}
	if sender, fail := a.keySender(creds.text); fail != errKeyUnknown || creds.keyOnly || !a.mayBeToken(creds.text) {
		return sender, fail
	}
	return a.tokenSender(r.Context(), creds.text, r.TLS, at)
}

// tokenSender returns the sender of an access token, which it verifies unless that was done
// before. The token has to be for the endpoint.
func (a *Authenticator) tokenSender(ctx context.Context, text string, tls *tlsState, at endpoint.Endpoint) (*Sender, *failure) {
	now := a.now()
	known, ok := a.verified.get(text, now)
	if !ok {
		t, fail := parseToken(text)
		if fail != nil {
			return nil, fail
		}
		iss := a.issuers[t.issuer]
		if iss == nil {
			return nil, errIssuer
		}
		if known, fail = iss.verify(ctx, t); fail != nil {
			return nil, fail
		}
		a.verified.put(text, known, now)
	}
	if !known.audience.covers(at, a.endpoints(), a.resource.lowerURL) {
		return nil, errAudience
	}
	if fail := known.checkBinding(tls); fail != nil {
		return nil, fail
	}
	return known.sender, nil
}

// challengeFor returns the WWW-Authenticate header of a response (RFC 6750, section 3;
// RFC 9728, section 5.1).
func (a *Authenticator) challengeFor(r *http.Request, fail *failure) string {
	switch {
	case fail == errUnavailable:
		return ""
	case len(a.issuers) == 0:
		return a.realm
	}
	params := []string{"resource_metadata", a.metadataURL(r), "scope", strings.Join(a.resource.scopes, " ")}
	if fail.code != "" {
		params = append(params, "error", fail.code, "error_description", fail.message)
	}
	return challenge("Bearer", params...)
}

// ScopeChallenge returns the WWW-Authenticate header for a call that needs more scopes
// (2025-11-25 and 2026-07-28, basic/authorization, "Runtime Insufficient Scope Errors").
// It names all scopes that the call needs and those that every token needs, since clients
// may request exactly the scopes of the challenge.
func (a *Authenticator) ScopeChallenge(r *http.Request, scopes []string) string {
	metadata := ""
	if len(a.issuers) > 0 {
		metadata = a.metadataURL(r)
	}
	all := slices.Clone(a.resource.scopes)
	for _, s := range scopes {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return challenge("Bearer", "error", "insufficient_scope", "scope", strings.Join(all, " "), "resource_metadata", metadata)
}
