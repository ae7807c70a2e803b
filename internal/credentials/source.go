package credentials

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/oauthmeta"
)

// Kind is what proves to an upstream who calls.
type Kind string

// The kinds. The zero value is nothing but headers.
const (
	Own        Kind = "own"        // a token of the gateway itself
	Exchange   Kind = "exchange"   // the principal's token, exchanged
	Enterprise Kind = "enterprise" // a grant of the enterprise's identity provider
	User       Kind = "user"       // a grant of the principal
)

// Options are what proves to one upstream who calls.
type Options struct {
	Upstream string   // its name
	URL      *url.URL // of the server

	Headers map[string][]Part // that depend on the principal

	Kind Kind
	// Authority issues the tokens. For User Issuer may be "": the server says who it
	// is; for Enterprise it must not be.
	Authority Authority
	IdP       Authority // for Enterprise
	Scopes    []string
	Resource  *string // what tokens are for: nil means URL, "" that nothing is said
	Audience  string
	// SubjectType is what principals' tokens are, for Exchange and Enterprise:
	// access_token, id_token or jwt; "" means access_token.
	SubjectType string

	Store *Store // for User
	// Now is the time; nil means time.Now.
	Now func() time.Time
}

// Source makes the headers that prove to one upstream who calls.
type Source struct {
	o         Options
	templates []template
	tokens    tokenSource // nil for none
}

// New returns the source of one upstream. The error names what of the options is
// wrong. It connects to nobody.
func New(o Options) (*Source, error) {
	if o.Now == nil {
		o.Now = time.Now
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
	a := tokenParams{scopes: o.Scopes, resource: oauthmeta.CanonicalURI(o.URL), audience: o.Audience}
	if o.Resource != nil {
		a.resource = *o.Resource
	}
	if o.Kind == User {
		return newUser(o, g, a)
	}
	from, err := newAuthority(o.Authority, "the token endpoint", g, o.Now)
	if err != nil {
		return nil, err
	}
	mine := &clientCredentials{from: from, ask: a, cache: newCache(o.Now)}
	if o.Kind == Own {
		return mine, nil
	}
	if o.Authority.Secret == "" && o.Authority.PrivateKey == "" {
		mine = nil
	}
	subject := tokenTypePrefix + "access_token"
	if o.SubjectType != "" {
		subject = tokenTypePrefix + o.SubjectType
	}
	switch o.Kind {
	case Exchange:
		return &tokenExchange{from: from, ask: a, subject: subject, fallback: mine, cache: newCache(o.Now)}, nil
	case Enterprise:
		idp, err := newAuthority(o.IdP, "the token endpoint of the identity provider", g, o.Now)
		if err != nil {
			return nil, err
		}
		return &enterpriseManaged{idp: idp, from: from, ask: a, subject: subject, fallback: mine, cache: newCache(o.Now)}, nil
	}
	return nil, fmt.Errorf("there are no credentials of the kind %q", o.Kind)
}

const authorization = "Authorization"

// Headers returns the headers of a request for a principal, by their canonical
// names; nobody else has them. who is nil for what the gateway does on its own
// behalf, which carries no headers that depend on a principal. The error is an
// *[Error], or that of ctx.
func (s *Source) Headers(ctx context.Context, who *call.Principal) (http.Header, error) {
	h := make(http.Header, len(s.templates)+1)
	if who != nil {
		for _, t := range s.templates {
			v, err := t.value(who)
			if err != nil {
				return nil, err
			}
			h[t.name] = []string{v}
		}
	}
	if s.tokens == nil {
		return h, nil
	}
	t, err := s.tokens.token(ctx, who)
	if err != nil {
		return nil, err
	}
	if t != nil {
		h[authorization] = []string{"Bearer " + t.access}
	}
	return h, nil
}

// Refused says that the server has answered 401 or 403 to a request with these
// headers, and takes the headers of the answer. It reports whether to send the
// request again, once, with what Headers returns now. An error says better than the
// answer why not; it is one of Headers.
func (s *Source) Refused(ctx context.Context, who *call.Principal, sent http.Header, status int, answer http.Header) (again bool, err error) {
	if s.tokens == nil {
		return false, nil
	}
	c := readChallenge(answer)
	if status != http.StatusUnauthorized && c.code != "insufficient_scope" {
		return false, nil
	}
	if status != http.StatusUnauthorized {
		if u, ok := s.tokens.(*user); ok {
			return false, u.stepUp(who, c)
		}
		return false, nil // another token would have the same scopes
	}
	return s.tokens.refuse(ctx, who, strings.TrimPrefix(sent.Get(authorization), "Bearer "), c)
}
