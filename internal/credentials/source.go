package credentials

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/oauthmeta"
)

// Kind is a kind of credentials for an upstream.
type Kind string

// The kinds of credentials. The zero value means headers only.
const (
	Own        Kind = "own"        // a token of the gateway: client credentials
	Exchange   Kind = "exchange"   // the principal's token, exchanged
	Enterprise Kind = "enterprise" // a token by way of the enterprise's identity provider
	User       Kind = "user"       // a grant of the principal
)

// Options configure the credentials for one upstream.
type Options struct {
	Upstream string   // the name of the upstream
	URL      *url.URL // the URL of the server

	Headers map[string][]Part // headers that depend on the principal

	Kind Kind
	// Authority issues the tokens. Its Issuer may be "" for the kind User, since the
	// server names its own, and must be set for Enterprise.
	Authority Authority
	IdP       Authority // for the kind Enterprise
	Scopes    []string
	Resource  *string // the resource that tokens are for: nil means URL, "" none
	Audience  string
	// SubjectType is the type of the principals' tokens for the kinds Exchange and
	// Enterprise: access_token, id_token or jwt; "" means access_token.
	SubjectType string

	Store *Store // for the kind User
	// Roots returns the authorities whose certificates are trusted; nil means those of the
	// system.
	Roots func() *x509.CertPool
	// Obtained is called with each token before the first request that has it, so that it can be hidden in texts
	// of the server, and again at any time. It must not block, and may be nil.
	Obtained func(token string)
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Source makes the headers that authenticate requests to one upstream.
type Source struct {
	o         Options
	templates []template
	tokens    tokenSource // nil: no tokens
}

// New returns the source of one upstream. The error names the invalid option. New makes
// no request.
func New(o Options) (*Source, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Obtained == nil {
		o.Obtained = func(string) {}
	}
	s := &Source{o: o}
	for name, parts := range o.Headers {
		t, err := newTemplate(name, parts)
		if err != nil {
			return nil, fmt.Errorf("upstream %s: %w", o.Upstream, err)
		}
		s.templates = append(s.templates, t)
	}
	var err error
	if s.tokens, err = newTokens(o); err != nil {
		return nil, fmt.Errorf("upstream %s: %w", o.Upstream, err)
	}
	return s, nil
}

func newTokens(o Options) (tokenSource, error) {
	if o.Kind == "" {
		return nil, nil
	}
	g := newGuard(o.URL, o.Authority.Issuer, o.Authority.TokenURL, o.IdP.Issuer, o.IdP.TokenURL)
	g.roots = o.Roots
	params := tokenParams{scopes: o.Scopes, resource: oauthmeta.CanonicalURI(o.URL), audience: o.Audience}
	if o.Resource != nil {
		params.resource = *o.Resource
	}
	if o.Kind == User {
		return newUser(o, g, params)
	}
	from, err := newAuthority(o.Authority, "the token endpoint", g, o.Now)
	if err != nil {
		return nil, err
	}
	own := &clientCredentials{from: from, params: params, cache: newTokenCache(o.Now, o.Obtained)}
	if o.Kind == Own {
		return own, nil
	}
	if o.Authority.Secret == "" && o.Authority.PrivateKey == "" {
		own = nil
	}
	subjectType := tokenTypePrefix + "access_token"
	if o.SubjectType != "" {
		subjectType = tokenTypePrefix + o.SubjectType
	}
	exchanged := &exchangedTokens{fallback: own, cache: newTokenCache(o.Now, o.Obtained), latest: newLatestTokens()}
	switch o.Kind {
	case Exchange:
		exchanged.exchange = (&tokenExchange{from: from, params: params, subjectType: subjectType}).exchange
		return exchanged, nil
	case Enterprise:
		idp, err := newAuthority(o.IdP, "the token endpoint of the identity provider", g, o.Now)
		if err != nil {
			return nil, err
		}
		exchanged.exchange = (&enterpriseManaged{idp: idp, from: from, params: params, subjectType: subjectType}).exchange
		return exchanged, nil
	}
	return nil, fmt.Errorf("unknown kind of credentials %q", o.Kind)
}

const authorization = "Authorization"

// Headers returns the headers of a request for a principal, by their canonical names. The
// caller owns the result. principal is nil for requests that belong to no principal; they have
// no headers that depend on one. The error is an [*Error], or that of ctx.
func (s *Source) Headers(ctx context.Context, principal *call.Principal) (http.Header, error) {
	h := make(http.Header, len(s.templates)+1)
	if principal != nil {
		for _, t := range s.templates {
			v, err := t.value(principal)
			if err != nil {
				return nil, err
			}
			h[t.name] = []string{v}
		}
	}
	if s.tokens == nil {
		return h, nil
	}
	t, err := s.tokens.token(ctx, principal)
	if err != nil {
		return nil, err
	}
	if t != nil {
		h[authorization] = []string{"Bearer " + t.access}
	}
	return h, nil
}

// Refused handles a response with status 401 or 403 to a request with the headers sent.
// It reports whether to send the request again, once, with new Headers. The error
// explains the refusal better than the response, and is an error of Headers.
func (s *Source) Refused(ctx context.Context, principal *call.Principal, sent http.Header, status int, answer http.Header) (again bool, err error) {
	if s.tokens == nil {
		return false, nil
	}
	c := oauthmeta.ReadChallenge(answer)
	if status != http.StatusUnauthorized && c.Error != oauthmeta.InsufficientScope {
		return false, nil
	}
	if status != http.StatusUnauthorized {
		if u, ok := s.tokens.(*user); ok {
			return false, u.stepUp(ctx, principal, c)
		}
		return false, nil // another token would have the same scopes
	}
	return s.tokens.refuse(ctx, principal, strings.TrimPrefix(sent.Get(authorization), "Bearer "), c)
}
