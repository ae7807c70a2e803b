package credentials

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mcpgateway/internal/wire"
)

// token is a response of a token endpoint.
type token struct {
	access  string
	kind    string // issued_token_type (RFC 8693), "" if absent
	refresh string
	id      string    // the ID token of OpenID Connect
	scope   string    // "" if it is the requested scope
	issued  time.Time // when the response arrived
	expires time.Time // zero: unknown
}

const (
	// defaultLife is the life of a token without an expiry.
	defaultLife = time.Hour
	maxLife     = 365 * 24 * time.Hour
	// skew is how long before its expiry a token is replaced, but at most a quarter of
	// its life.
	skew = 30 * time.Second
	// minTokenAge is the age below which a refused token is not replaced, since a server
	// that refuses a new token will refuse the next one.
	minTokenAge = 5 * time.Second
	maxToken    = 16 << 10
)

// goodUntil returns when to replace the token.
func (t *token) goodUntil() time.Time {
	if t.expires.IsZero() {
		return t.issued.Add(defaultLife)
	}
	return t.expires.Add(-min(skew, t.expires.Sub(t.issued)/4))
}

// validUntil returns when the token is no longer valid, as far as that is known.
func (t *token) validUntil() time.Time {
	if t.expires.IsZero() {
		return t.goodUntil()
	}
	return t.expires
}

// tokenEndpoint is the token endpoint of an authorization server, for one client. It is
// immutable. All grants go through its method request, and not through
// golang.org/x/oauth2: that package has no token exchange (RFC 8693) and no JWT grants
// (RFC 7523), accepts responses with duplicate keys, and puts the body of a refusal into
// its errors.
type tokenEndpoint struct {
	what    string // its name in errors
	url     *url.URL
	aud     string // the audience of assertions
	client  *clientAuth
	methods []string // authentication methods of the server, none: unknown
	guard   *guard
	now     func() time.Time
}

// request requests a token with the given parameters and the credentials of the client.
// The error is an *Error, or that of ctx.
func (e *tokenEndpoint) request(ctx context.Context, form url.Values) (*token, error) {
	a, err := e.post(ctx, form)
	if err != nil {
		return nil, err
	}
	if a.Status < 200 || a.Status > 299 {
		fail := a.refusal(e.what)
		fail.final = fail.code == "invalid_grant"
		return nil, fail
	}
	return e.read(a.Body)
}

// post sends a form with the credentials of the client, and returns the response with any
// status.
func (e *tokenEndpoint) post(ctx context.Context, form url.Values) (answer, error) {
	header, err := e.client.authenticate(form, e.aud, e.methods, e.now())
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, failf("%s has no URL", e.what).because(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if header != "" {
		req.Header.Set("Authorization", header)
	}
	return e.guard.send(e.guard.client(false), e.what, req)
}

// read parses the response of a token endpoint (RFC 6749, section 5.1).
func (e *tokenEndpoint) read(body wire.Value) (*token, error) {
	t := &token{
		access: body.Get("access_token").Str(), kind: body.Get("issued_token_type").Str(), refresh: body.Get("refresh_token").Str(),
		id: body.Get("id_token").Str(), scope: body.Get("scope").Str(), issued: e.now(),
	}
	typ := body.Get("token_type").Str()
	switch {
	case !isToken(t.access):
		return nil, failf("%s answered without a token", e.what)
	case typ != "" && !strings.EqualFold(typ, "Bearer") && !strings.EqualFold(typ, "N_A"):
		return nil, failf("%s returned a token that is not a Bearer token", e.what)
	case len(t.refresh) > maxToken || len(t.scope) > maxToken:
		return nil, failf("%s returned a token that is too large", e.what)
	}
	if life, ok := seconds(body.Get("expires_in")); ok {
		t.expires = t.issued.Add(min(life, maxLife))
	}
	return t, nil
}

// seconds parses a duration in seconds, which some servers send as a string. It reports
// false unless the duration is positive.
func seconds(v wire.Value) (time.Duration, bool) {
	text := string(v.Raw())
	if v.Kind() == '"' {
		text = v.Str()
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 0) {
		return 0, false
	}
	return time.Duration(min(f, maxLife.Seconds()) * float64(time.Second)), true
}

// isToken reports whether a text can be a Bearer token in a header: visible ASCII
// characters of bounded number.
func isToken(s string) bool {
	if s == "" || len(s) > maxToken {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
