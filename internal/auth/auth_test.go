package auth

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zapcore"

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

// authenticate authenticates a request to the endpoint that it was sent to.
func authenticate(a *Authenticator, r *http.Request) (*call.Principal, error) {
	at, _ := a.endpoints().Find(r.URL, r.Host)
	sender, err := a.Authenticate(r, at)
	if err != nil {
		return nil, err
	}
	return sender.Principal(), nil
}

// refused requires that a request is refused for a reason.
func refused(t *testing.T, a *Authenticator, r *http.Request, reason string) *Denied {
	t.Helper()
	principal, err := authenticate(a, r)
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
	principal, err := authenticate(a, r)
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
	want := &call.Principal{Subject: "ci", Groups: []string{"g"}, Scopes: []string{"write", "read"}, AuthMethod: "api-key", KeyID: "ci"}
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
		{"another scheme", request("Authorization", "Basic Y2k6"+key), "scheme", 401},
		{"a key without the scheme", request("Authorization", key), "scheme", 401},
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

// logged returns the fields of the log line about a refusal.
func logged(d *Denied) (zapcore.Level, map[string]any) {
	level, _, field := d.Log()
	e := zapcore.NewMapObjectEncoder()
	field.AddTo(e)
	return level, e.Fields
}

// TestNothingIsTold checks that errors contain nothing of what a refused client has sent, and
// that the log has no credentials.
func TestNothingIsTold(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	_, digest := NewKey()
	a := forTokens(t, iss, func(o *Options) { o.Keys = []Key{{ID: "ci", SHA256: digest}} })
	const secret = "s3cret"
	for _, tc := range []struct {
		r     *http.Request
		token string
	}{
		{request("X-API-Key", secret), secret},
		{withToken(secret), secret},
		{withToken(secret + "." + secret + "." + secret), secret},
		{withToken(iss.Sign(map[string]any{"typ": secret}, iss.Claims(audience, nil))), secret},
		{withToken(iss.Sign(map[string]any{"jti": secret}, iss.Claims("x", nil))), secret},
		{withToken(iss.Token(secret, nil)), ""},
		{withToken(iss.Token(audience, map[string]any{"iss": secret})), ""},
		{withToken(iss.Token(audience, map[string]any{"sub": secret, "exp": 1})), ""},
		{withToken(iss.Token(secret, map[string]any{"email": "e" + secret, "scope": "x" + secret})), "e" + secret},
	} {
		_, err := authenticate(a, tc.r)
		var d *Denied
		if !errors.As(err, &d) {
			t.Fatalf("got %v", err)
		}
		if strings.Contains(d.Error()+d.Public()+d.Challenge()+d.Reason(), secret) {
			t.Errorf("the client gets: %s; %s", d, d.Challenge())
		}
		_, fields := logged(d)
		text, parts := fmt.Sprint(fields), strings.Split(tc.r.Header.Get("Authorization"), ".")
		if tc.token != "" && strings.Contains(text, tc.token) || strings.Contains(text, parts[len(parts)-1]) && len(parts) > 1 {
			t.Errorf("the log says: %s", text)
		}
	}
}

// TestRefusalsInTheLog checks that the log says what was refused beside what was expected.
func TestRefusalsInTheLog(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	key, digest := NewKey()
	until := time.Now().Add(-time.Hour).Truncate(time.Second)
	a := forTokens(t, iss, func(o *Options) {
		o.Keys = []Key{{ID: "ci", SHA256: digest, Expires: until}}
		o.Issuers[0].Required = []string{"mcp"}
		o.Issuers[0].Algorithms = []string{"RS256"}
	})
	now := iss.Now()
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	about := map[string]any{"iss": iss.URL, "sub": "ann", "aud": []any{audience}, "exp": at(5 * time.Minute), "signature_verified": true}
	with := func(pairs ...any) map[string]any {
		out := maps.Clone(about)
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i].(string)] = pairs[i+1]
		}
		return out
	}
	for _, tc := range []struct {
		reason string
		r      *http.Request
		want   map[string]any
	}{
		{"missing", request(), map[string]any{}},
		{"unknown_key", request("X-API-Key", "x"), map[string]any{}},
		{"unknown_key", withToken(key[:len(key)-1]), map[string]any{}},
		{"expired_key", request("X-API-Key", key), map[string]any{"key": "ci", "expired": until.UTC().Format(time.RFC3339)}},
		{"audience", withToken(iss.Token("https://other.example.com", nil)), with("aud", []any{"https://other.example.com"}, "expected_aud", []any{audience})},
		{"issuer", withToken(iss.Token(audience, claimSet{"iss": "https://evil.example.com"})),
			with("iss", "https://evil.example.com", "signature_verified", false, "expected_iss", []any{iss.URL})},
		{"expired", withToken(iss.Token(audience, claimSet{"exp": now.Unix() - 60})), with("exp", at(-time.Minute))},
		{"not_yet_valid", withToken(iss.Token(audience, claimSet{"nbf": now.Unix() + 60})), with("nbf", at(time.Minute), "iat", at(0))},
		{"not_yet_valid", withToken(iss.Token(audience, claimSet{"iat": now.Unix() + 60})), with("iat", at(time.Minute))},
		{"token_form", withToken(iss.Token(audience, claimSet{"at_hash": "x"})), about},
		{"claims", withToken(iss.Token(audience, claimSet{"exp": nil})), with("exp", nil, "claim", "exp")},
		{"claims", withToken(iss.Token(audience, claimSet{"groups": 1})), with("claim", "groups")},
		{"scope", withToken(iss.Token(audience, claimSet{"scope": "a b"})), with("scope", []any{"a", "b"}, "expected_scope", []any{"mcp"})},
		{"algorithm", withToken(iss.Sign(claimSet{"alg": "ES256"}, iss.Claims(audience, nil))),
			with("alg", "ES256", "expected_alg", []any{"RS256"}, "signature_verified", false)},
		{"signature", withToken(gatewaytest.NewIssuer(t).Sign(claimSet{"kid": "k"}, iss.Claims(audience, nil))),
			with("kid", "k", "signature_verified", false, "why", `the issuer has no key "k"; it has: rs256-1, es256-1, eddsa-1`)},
		{"signature", withToken(gatewaytest.NewIssuer(t).Sign(claimSet{}, iss.Claims(audience, nil))), with("kid", "rs256-1", "signature_verified", false)},
	} {
		d := refused(t, a, tc.r, tc.reason)
		level, got := logged(d)
		if tc.want["reason"] = tc.reason; tc.want["why"] == nil {
			tc.want["why"] = d.Public()
		}
		maps.DeleteFunc(tc.want, func(_ string, v any) bool { return v == nil })
		if diff := cmp.Diff(tc.want, got); diff != "" || level != zapcore.InfoLevel {
			t.Errorf("%s: level %s (-want +got)\n%s", tc.reason, level, diff)
		}
	}
	iss.SetDown(true)
	cold := forTokens(t, iss)
	level, got := logged(refused(t, cold, withToken(iss.Token(audience, nil)), "unavailable"))
	if !strings.Contains(fmt.Sprint(got["error"]), "HTTP 500") || level != zapcore.WarnLevel {
		t.Errorf("level %s, %v", level, got)
	}
}

// The log repeats a bounded part of a token.
func TestRefusalsInTheLogAreBounded(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	a := forTokens(t, iss)
	long := strings.Repeat("a", 3000)
	_, got := logged(refused(t, a, withToken(iss.Token(audience, claimSet{"iss": long, "sub": []string{long}, "aud": []string{long, "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"}})), "issuer"))
	if n := len(fmt.Sprint(got)); n > 2000 {
		t.Errorf("the line has %d bytes", n)
	}
	kid := "k\n\u202e\"" + long
	_, got = logged(refused(t, a, withToken(gatewaytest.NewIssuer(t).Sign(claimSet{"kid": kid}, iss.Claims(audience, nil))), "signature"))
	if why := fmt.Sprint(got["why"]); len(why) > 300 || strings.ContainsAny(why, "\n\u202e") || !strings.HasPrefix(why, `the issuer has no key "k`) {
		t.Errorf("why: %q", why)
	}
}

// Lines about senders who have no credentials do not use up the rate limit of lines about those
// who have, and an expired key does not hide another one.
func TestSortsOfRefusalsInTheLog(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	key, digest := NewKey()
	other, otherDigest := NewKey()
	past := time.Now().Add(-time.Hour)
	a := forTokens(t, iss, func(o *Options) {
		o.Keys = []Key{{ID: "ci", SHA256: digest, Expires: past}, {ID: "ci-2", SHA256: otherDigest, Expires: past}}
	})
	categories := make(map[string]string)
	for name, tc := range map[string]struct {
		r      *http.Request
		reason string
	}{
		"nothing":           {request(), "missing"},
		"a key":             {request("X-API-Key", key), "expired_key"},
		"another key":       {request("X-API-Key", other), "expired_key"},
		"no token":          {withToken("a.b.c"), "token_form"},
		"an ID token":       {withToken(iss.Token(audience, claimSet{"at_hash": "x"})), "token_form"},
		"for another":       {withToken(iss.Token("https://other.example.com", nil)), "audience"},
		"a forged token":    {withToken(gatewaytest.NewIssuer(t).Sign(claimSet{}, iss.Claims(audience, nil))), "signature"},
		"an expired token":  {withToken(iss.Token(audience, claimSet{"exp": 1})), "expired"},
		"a malformed token": {withToken(iss.Token(audience, claimSet{"groups": 1})), "claims"},
	} {
		_, category, _ := refused(t, a, tc.r, tc.reason).Log()
		if before, ok := categories[category]; ok {
			t.Errorf("%s and %s are of the category %q", name, before, category)
		}
		categories[category] = name
	}
	_, first, _ := refused(t, a, withToken(iss.Token(audience, claimSet{"groups": 1, "sub": "bob"})), "claims").Log()
	if categories[first] != "a malformed token" {
		t.Errorf("the category %q depends on the sender", first) // there may be any number of them
	}
}

// Too many attempts are explained also if the gateway has issuers, whose challenges depend on the request.
func TestTooManyAttempts(t *testing.T) {
	denied := forTokens(t, gatewaytest.NewIssuer(t)).TooManyAttempts()
	if _, fields := logged(denied); denied.Status() != http.StatusTooManyRequests || denied.Challenge() != "" || fields["reason"] != "attempts" {
		t.Errorf("HTTP %d, %q, %v", denied.Status(), denied.Challenge(), fields)
	}
}
