package auth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
)

const audience = "https://gw.example.com/mcp"

func newAuth(t testing.TB, o Options) *Authenticator {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// forTokens returns an Authenticator for the tokens of an issuer. Both have the same,
// stopped clock, so that tokens do not expire on a slow machine.
func forTokens(t testing.TB, iss *gatewaytest.Issuer, change ...func(*Options)) *Authenticator {
	t.Helper()
	now := time.Now()
	iss.Now = func() time.Time { return now }
	o := Options{Now: iss.Now, Issuers: []Issuer{{URL: iss.URL, Audiences: []string{audience}, Skew: 30 * time.Second}}}
	for _, c := range change {
		c(&o)
	}
	return newAuth(t, o)
}

// request returns a request with headers, given as names and values.
func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://gw.example.com/mcp", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func withToken(text string) *http.Request { return request("Authorization", "Bearer "+text) }

// refused requires that a request is refused for a reason.
func refused(t *testing.T, a *Authenticator, r *http.Request, reason string) *Denied {
	t.Helper()
	principal, err := a.Authenticate(r)
	var denied *Denied
	if !errors.As(err, &denied) {
		t.Fatalf("got %+v, %v; want a refusal for %q", principal, err, reason)
	}
	if denied.Reason() != reason {
		t.Errorf("refused for %q, want %q", denied.Reason(), reason)
	}
	if principal != nil {
		t.Errorf("got the principal %+v beside a refusal", principal)
	}
	return denied
}

func accepted(t *testing.T, a *Authenticator, r *http.Request) *call.Principal {
	t.Helper()
	principal, err := a.Authenticate(r)
	if err != nil {
		t.Fatalf("refused: %v (%#v)", err, err)
	}
	return principal
}

func TestKeys(t *testing.T) {
	key, digest := NewKey()
	old, oldDigest := NewKey()
	now := time.Date(2027, 1, 30, 23, 59, 59, 0, time.UTC)
	a := newAuth(t, Options{
		Keys: []Key{
			{ID: "ci", SHA256: digest, Groups: []string{"g"}, Scopes: []string{"write"}},
			{ID: "old", SHA256: strings.ToUpper(oldDigest), Expires: now.Add(time.Second)},
		},
		Hierarchy: []ImpliedScopes{{"write", []string{"read"}}},
		Now:       func() time.Time { return now },
	})
	want := &call.Principal{Subject: "ci", Groups: []string{"g"}, Scopes: []string{"write", "read"}, AuthMethod: "api-key"}
	for name, r := range map[string]*http.Request{
		"bearer":             request("Authorization", "Bearer "+key),
		"another case":       request("Authorization", "bEARER  "+key),
		"header of its own":  request("X-API-Key", key),
		"the same key twice": request("X-API-Key", key, "Authorization", "Bearer "+key),
	} {
		if diff := cmp.Diff(want, accepted(t, a, r)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if principal := accepted(t, a, request("X-API-Key", old)); principal.Subject != "old" || !principal.Expires.Equal(now.Add(time.Second)) {
		t.Errorf("got %+v", principal)
	}
	for _, tc := range []struct {
		name   string
		r      *http.Request
		reason string
		status int
	}{
		{"nothing", request(), "missing", 401},
		{"another key", request("X-API-Key", key+"x"), "unknown_key", 401},
		{"a part of the key", request("X-API-Key", key[:len(key)-1]), "unknown_key", 401},
		{"the digest", request("X-API-Key", digest), "unknown_key", 401},
		{"two keys in one kind of header", request("X-API-Key", key, "X-API-Key", key), "malformed", 400},
		{"two Authorization headers", request("Authorization", "Bearer "+key, "Authorization", "Bearer "+key), "malformed", 400},
		{"two in one Authorization header", request("Authorization", "Bearer "+key+", Bearer "+old), "malformed", 400},
		{"no text after the scheme", request("Authorization", "Bearer "), "malformed", 400},
		{"an empty key", request("X-API-Key", ""), "malformed", 400},
		{"no scheme", request("Authorization", ""), "malformed", 400},
		{"two different", request("Authorization", "Bearer "+key, "X-API-Key", old), "two_proofs", 400},
		{"another scheme", request("Authorization", "Basic Y2k6"+key), "missing", 401},
		{"too large", request("X-API-Key", strings.Repeat("k", maxCredentials+1)), "too_large", 401},
		{"in the URL", httptest.NewRequest(http.MethodPost, "http://gw/mcp?access_token="+key+"&api_key="+key, nil), "missing", 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := refused(t, a, tc.r, tc.reason)
			if d.Status() != tc.status || d.Challenge() != `Bearer realm="mcpgateway"` {
				t.Errorf("status %d, challenge %s", d.Status(), d.Challenge())
			}
		})
	}
	now = now.Add(time.Second)
	refused(t, a, request("X-API-Key", old), "expired_key")
}

func TestNewKeysDiffer(t *testing.T) {
	key, _ := NewKey()
	other, _ := NewKey()
	if key == other || !strings.HasPrefix(key, "mcpgw_") || len(key) < len("mcpgw_")+26 { // 26 characters of base 32 are 130 bits
		t.Errorf("got %s and %s", key, other)
	}
}

func TestFaultyOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"short digest":         {Keys: []Key{{ID: "a", SHA256: "ab"}}},
		"no hex":               {Keys: []Key{{ID: "a", SHA256: strings.Repeat("x", 64)}}},
		"no audience":          {Issuers: []Issuer{{URL: "https://idp"}}},
		"issuer over http":     {Issuers: []Issuer{{URL: "http://idp", Audiences: []string{"a"}}}},
		"keys over http":       {Issuers: []Issuer{{URL: "https://idp", Keys: "http://idp/keys", Audiences: []string{"a"}}}},
		"symmetric signatures": {Issuers: []Issuer{{URL: "https://idp", Audiences: []string{"a"}, Algorithms: []string{"HS256"}}}},
		"no signatures":        {Issuers: []Issuer{{URL: "https://idp", Audiences: []string{"a"}, Algorithms: []string{"none"}}}},
		"issuer twice":         {Issuers: []Issuer{{URL: "https://idp", Audiences: []string{"a"}}, {URL: "https://idp", Audiences: []string{"b"}}}},
		"two kinds of names":   {Certificates: []CertificateRule{{DNS: "a", URI: "b"}}},
		"no name":              {Certificates: []CertificateRule{{Subject: "a"}}},
		"stars from nowhere":   {Certificates: []CertificateRule{{DNS: "a", Subject: "*"}}},
	} {
		if a, err := New(o); err == nil {
			t.Errorf("%s: no error, but %+v", name, a)
		}
	}
}

// TestNothingIsTold checks that neither errors nor the log contain anything of what a
// refused client has sent.
func TestNothingIsTold(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	iss := gatewaytest.NewIssuer(t)
	_, digest := NewKey()
	a := forTokens(t, iss, func(o *Options) {
		o.Keys, o.Logger = []Key{{ID: "ci", SHA256: digest}}, zap.New(core)
	})
	const secret = "s3cret"
	n := 0
	for _, r := range []*http.Request{
		request("X-API-Key", secret),
		withToken(secret), withToken(secret + "." + secret + "." + secret),
		withToken(iss.Sign(map[string]any{"typ": secret}, iss.Claims(audience, nil))),
		withToken(iss.Sign(map[string]any{"kid": secret}, iss.Claims(audience, nil))),
		withToken(iss.Token(secret, nil)),
		withToken(iss.Token(audience, map[string]any{"iss": secret})),
		withToken(iss.Token(audience, map[string]any{"sub": secret, "exp": 1})),
	} {
		_, err := a.Authenticate(r)
		var d *Denied
		if !errors.As(err, &d) {
			t.Fatalf("got %v", err)
		}
		if strings.Contains(d.Error()+d.Public()+d.Challenge()+d.Reason(), secret) {
			t.Errorf("the client gets: %s; %s", d, d.Challenge())
		}
		n++
	}
	if logs.Len() != n {
		t.Errorf("%d lines in the log for %d refusals", logs.Len(), n)
	}
	for range 200 {
		_, _ = a.Authenticate(withToken(secret))
	}
	if n := logs.FilterLevelExact(zapcore.InfoLevel).Len(); n == 0 || n > 100 {
		t.Errorf("200 tokens that were made up are %d lines in the log", n)
	}
	for _, e := range logs.All() {
		for _, f := range e.Context {
			if strings.Contains(f.String, secret) {
				t.Errorf("the log says: %v", f)
			}
		}
	}
}
