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

// token is what a token endpoint gave.
type token struct {
	access  string
	kind    string // issued_token_type of RFC 8693, "" where there is none
	refresh string
	id      string    // the ID token of OpenID Connect
	scope   string    // "" where it is what was asked for
	issued  time.Time // when it came
	expires time.Time // zero: nobody said when
}

const (
	// unknownLife is for how long a token is taken for good that does not say so.
	defaultLife = time.Hour
	maxLife     = 365 * 24 * time.Hour
	// skew is how long before its end a token is taken to have expired, but no more
	// than a quarter of its life.
	skew = 30 * time.Second
	// youth is how long a token is young: a server that refuses a young one will
	// refuse the next.
	minTokenAge = 5 * time.Second
	maxToken    = 16 << 10
)

// goodUntil is when the token is to be replaced.
func (t *token) goodUntil() time.Time {
	if t.expires.IsZero() {
		return t.issued.Add(defaultLife)
	}
	return t.expires.Add(-min(skew, t.expires.Sub(t.issued)/4))
}

// tokenEndpoint is where tokens come from, and who the gateway is there. It is
// immutable.
type tokenEndpoint struct {
	what    string // what errors call it
	url     *url.URL
	aud     string // for whom assertions are
	client  *clientAuth
	methods []string // in which clients may authenticate, none: unknown
	guard   *guard
	now     func() time.Time
}

// request asks for a token with the given parameters, and with who the gateway is.
// The error is an *Error, or that of ctx.
func (e *tokenEndpoint) request(ctx context.Context, form url.Values) (*token, error) {
	header, err := e.client.authenticate(form, e.aud, e.methods, e.now())
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, failf("%s has no URL", e.what).because(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if header != "" {
		req.Header.Set("Authorization", header)
	}
	a, err := e.guard.send(e.guard.client(false), e.what, req)
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

// read reads the answer of a token endpoint (RFC 6749, section 5.1).
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
		return nil, failf("%s gave a token of another type than Bearer", e.what)
	case len(t.refresh) > maxToken || len(t.scope) > maxToken:
		return nil, failf("%s gave a token that is too large", e.what)
	}
	if life, ok := seconds(body.Get("expires_in")); ok {
		t.expires = t.issued.Add(min(life, maxLife))
	}
	return t, nil
}

// seconds reads a duration that is a number, or a string of one as some servers
// have it. One that is not over 0 says nothing.
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

// isToken tells whether a text can stand behind Bearer: visible characters of
// ASCII, and no more than a header should have.
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
