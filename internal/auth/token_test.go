package auth

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
)

type claimSet = map[string]any

func TestTokens(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	a := forTokens(t, iss)
	for _, alg := range []string{"RS256", "PS256", "ES256", "EdDSA"} {
		for _, typ := range []any{"at+jwt", "JWT", "application/AT+JWT", nil} {
			header := claimSet{"alg": alg}
			if typ != nil {
				header["typ"] = typ
			}
			principal := accepted(t, a, withToken(iss.Sign(header, iss.Claims(audience, claimSet{
				"aud": []string{"other", audience}, "scope": "read write", "groups": []string{"g", "h"}, "email": "ann@example.com",
			}))))
			claims := principal.Claims
			if left := principal.Expires.Unix() - iss.Now().Unix(); left != 300+30 { // includes the skew
				t.Errorf("%s, %v: the proof is good for %d s", alg, typ, left)
			}
			principal = &call.Principal{Subject: principal.Subject, Issuer: principal.Issuer, Groups: principal.Groups, Scopes: principal.Scopes, AuthMethod: principal.AuthMethod}
			want := &call.Principal{Subject: "ann", Issuer: iss.URL, Groups: []string{"g", "h"}, Scopes: []string{"read", "write"}, AuthMethod: "jwt"}
			if diff := cmp.Diff(want, principal); diff != "" {
				t.Errorf("%s, %v: (-want +got)\n%s", alg, typ, diff)
			}
			if !strings.Contains(string(claims), `"email":"ann@example.com"`) {
				t.Errorf("claims are %s", claims)
			}
		}
	}
}

func TestTokenAttacks(t *testing.T) {
	iss, other := gatewaytest.NewIssuer(t), gatewaytest.NewIssuer(t)
	a := forTokens(t, iss)
	// attacker publishes keys of its own.
	attacker := gatewaytest.NewIssuer(t)
	now := iss.Now().Unix()
	good := iss.Token(audience, nil)
	parts := strings.Split(good, ".")
	flipped := []byte(parts[2])
	if flipped[10] = 'A'; parts[2][10] == 'A' {
		flipped[10] = 'B'
	}
	withHeader := func(h claimSet) string { return iss.Sign(h, iss.Claims(audience, nil)) }
	withClaims := func(c claimSet) string { return iss.Token(audience, c) }
	raw := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, tc := range []struct{ name, token, reason string }{
		{"none", withHeader(claimSet{"alg": "none"}), "algorithm"},
		{"None", withHeader(claimSet{"alg": "nOnE"}), "algorithm"},
		{"no alg", raw(`{"typ":"JWT"}`) + "." + parts[1] + ".", "algorithm"},
		{"alg twice", raw(`{"alg":"RS256","alg":"none"}`) + "." + parts[1] + "." + parts[2], "token_form"},
		{"key confusion", withHeader(claimSet{"alg": "HS256", "kid": "rs256-1"}), "algorithm"},
		{"the kid of another algorithm", withHeader(claimSet{"alg": "ES256", "kid": "rs256-1"}), "signature"},
		{"signature cut off", parts[0] + "." + parts[1] + ".", "signature"},
		{"signature changed", parts[0] + "." + parts[1] + "." + string(flipped), "signature"},
		{"claims changed", parts[0] + "." + raw(fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":"root","exp":%d}`, iss.URL, audience, now+60)) + "." + parts[2], "signature"},
		{"signed by another", attacker.Sign(claimSet{}, iss.Claims(audience, nil)), "signature"},
		{"jku", attacker.Sign(claimSet{"jku": attacker.URL + "/keys"}, iss.Claims(audience, nil)), "signature"},
		{"x5u", attacker.Sign(claimSet{"x5u": attacker.URL + "/keys"}, iss.Claims(audience, nil)), "signature"},
		{"jwk", attacker.Sign(claimSet{"jwk": claimSet{"kty": "oct", "k": "AAAA"}}, iss.Claims(audience, nil)), "signature"},
		{"kid leads to a file", withHeader(claimSet{"alg": "RS256", "kid": "../../../../dev/null"}), "signature"},
		{"kid is a query", withHeader(claimSet{"alg": "RS256", "kid": "' OR 1=1 --"}), "signature"},
		{"critical extension", withHeader(claimSet{"crit": []string{"x"}, "x": 1}), "token_form"},
		{"unencoded payload", withHeader(claimSet{"crit": []string{"b64"}, "b64": false}), "token_form"},
		{"typ of a logout", withHeader(claimSet{"typ": "logout+jwt"}), "token_form"},
		{"typ of a proof of possession", withHeader(claimSet{"typ": "dpop+jwt"}), "token_form"},
		{"id token", withClaims(claimSet{"at_hash": "x"}), "token_form"},
		{"id token by its claim", withClaims(claimSet{"typ": "ID"}), "token_form"},
		{"refresh token", withClaims(claimSet{"typ": "Refresh"}), "token_form"},
		{"wrong audience", iss.Token("https://other.example.com/mcp", nil), "audience"},
		{"audience in another case", iss.Token(strings.ToUpper(audience), nil), "audience"},
		{"audience that begins alike", iss.Token(audience+"/", nil), "audience"},
		{"no audience", withClaims(claimSet{"aud": nil}), "audience"},
		{"audience of another form", withClaims(claimSet{"aud": claimSet{"x": audience}}), "audience"},
		{"wrong issuer", other.Token(audience, nil), "issuer"},
		{"the name of another issuer", withClaims(claimSet{"iss": other.URL}), "issuer"},
		{"issuer with a slash", withClaims(claimSet{"iss": iss.URL + "/"}), "issuer"},
		{"no issuer", withClaims(claimSet{"iss": nil}), "issuer"},
		{"expired", withClaims(claimSet{"exp": now - 31}), "expired"},
		{"no expiry", withClaims(claimSet{"exp": nil}), "claims"},
		{"expiry as text", withClaims(claimSet{"exp": "9999999999"}), "claims"},
		{"expiry out of range", withClaims(claimSet{"exp": 1e300}), "claims"},
		{"not yet", withClaims(claimSet{"nbf": now + 120}), "not_yet_valid"},
		{"not-before as text", withClaims(claimSet{"nbf": "0"}), "claims"},
		{"issued in the future", withClaims(claimSet{"iat": now + 120}), "not_yet_valid"},
		{"no subject", withClaims(claimSet{"sub": nil}), "claims"},
		{"empty subject", withClaims(claimSet{"sub": ""}), "claims"},
		{"subject of another form", withClaims(claimSet{"sub": []string{"ann"}}), "claims"},
		{"subject with a separator", withClaims(claimSet{"sub": "ann\x00jwt"}), "claims"},
		{"subject too long", withClaims(claimSet{"sub": strings.Repeat("a", maxText+1)}), "claims"},
		{"groups of another form", withClaims(claimSet{"groups": 1}), "claims"},
		{"groups with others", withClaims(claimSet{"groups": []any{"a", 1}}), "claims"},
		{"scopes of another form", withClaims(claimSet{"scope": true}), "claims"},
		{"bound to a key", withClaims(claimSet{"cnf": claimSet{"jkt": "x"}}), "bound"},
		{"bound to a certificate", withClaims(claimSet{"cnf": claimSet{"x5t#S256": "x"}}), "bound"},
		{"encrypted", "a.b.c.d.e", "token_form"},
		{"JSON serialization", `{"payload":"x"}`, "token_form"},
		{"opaque", "abcdef", "token_form"},
		{"padding", parts[0] + "=." + parts[1] + "." + parts[2], "token_form"},
		{"not JSON", raw("x") + "." + parts[1] + "." + parts[2], "token_form"},
		{"claims are a list", parts[0] + "." + raw("[]") + "." + parts[2], "token_form"},
		{"a claim twice", parts[0] + "." + raw(fmt.Sprintf(`{"iss":%q,"iss":"x"}`, iss.URL)) + "." + parts[2], "token_form"},
		{"deep", parts[0] + "." + raw(strings.Repeat("[", 5000)) + "." + parts[2], "token_form"},
		{"huge", good + strings.Repeat("A", maxCredentials), "too_large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := refused(t, a, withToken(tc.token), tc.reason)
			if d.Status() != 401 || !strings.Contains(d.Challenge(), `error="invalid_token"`) {
				t.Errorf("status %d, challenge %s", d.Status(), d.Challenge())
			}
		})
	}
	if n := attacker.Requests("/keys"); n != 0 {
		t.Errorf("the attacker's keys were fetched %d times", n)
	}
	if n := iss.Requests("/keys"); n > 1+fetchBurst {
		t.Errorf("keys were fetched %d times", n)
	}
	accepted(t, a, withToken(good))
}

func TestAudienceInUpperCase(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	a := forTokens(t, iss, func(o *Options) { o.Issuers[0].Audiences = []string{"https://Gw.example.com:8443/mcp?x#y", "Name"} })
	for aud, want := range map[string]bool{
		"https://Gw.example.com:8443/mcp?x#y": true, "HTTPS://GW.EXAMPLE.COM:8443/mcp?x#y": true, "https://gw.example.com:8443/mcp?x#y": true, "Name": true,
		"https://gw.example.com:8443/MCP?x#y": false, "https://gw.example.com:8443/mcp?X#y": false, "https://gw.example.com/mcp?x#y": false, "name": false, "NAME": false,
	} {
		if r := withToken(iss.Token(aud, nil)); want {
			accepted(t, a, r)
		} else {
			refused(t, a, r, "audience")
		}
	}
}

func TestClockSkew(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	a := forTokens(t, iss)
	now := iss.Now().Unix()
	accepted(t, a, withToken(iss.Token(audience, claimSet{"exp": float64(now) - 20.5, "iat": now + 20, "nbf": now + 20})))
}

// TestVerifiedTokensExpire checks that a verified token is cached, but not beyond its
// expiry.
func TestVerifiedTokensExpire(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	now := time.Now()
	a := forTokens(t, iss, func(o *Options) { o.Now = func() time.Time { return now } })
	token := iss.Token(audience, claimSet{"exp": now.Unix() + 60})
	first := accepted(t, a, withToken(token))
	if again := accepted(t, a, withToken(token)); again != first {
		t.Error("a token was verified twice")
	}
	now = now.Add(89 * time.Second)
	accepted(t, a, withToken(token))
	now = now.Add(2 * time.Second) // 60 s and the skew
	refused(t, a, withToken(token), "expired")
}

// TestWithdrawnKey checks that a token with a withdrawn key is refused as soon as the new
// keys are fetched and the cached result has expired.
func TestWithdrawnKey(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	now := time.Now()
	a := forTokens(t, iss, func(o *Options) { o.Now = func() time.Time { return now } })
	token := iss.Token(audience, claimSet{"exp": now.Unix() + 7200})
	accepted(t, a, withToken(token))
	var others []string // each is used once, since verified tokens are cached
	for n := range 500 {
		others = append(others, iss.Token(audience, claimSet{"jti": strconv.Itoa(n), "exp": now.Unix() + 7200}))
	}
	iss.Rotate()
	accepted(t, a, withToken(iss.Token(audience, nil))) // fetches the new keys
	for i := 0; ; i++ {
		if i == len(others) {
			t.Fatal("the new keys do not take the place of the old")
		}
		if _, err := authenticate(a, withToken(others[i])); err != nil {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	now = now.Add(trustFor + time.Second)
	refused(t, a, withToken(token), "signature")
}

// TestKeysAreRenewed checks that old keys are fetched again without a token that has a
// new key.
func TestKeysAreRenewed(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	now := time.Now()
	a := forTokens(t, iss, func(o *Options) { o.Now = func() time.Time { return now } })
	token := iss.Token(audience, claimSet{"exp": now.Unix() + 7200})
	accepted(t, a, withToken(token))
	iss.Rotate()
	now = now.Add(freshFor + time.Second)
	refused(t, a, withToken(token), "signature")
}

func TestIssuerOutOfReach(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	iss.SetDown(true)
	now := time.Now()
	a := forTokens(t, iss, func(o *Options) { o.Now = func() time.Time { return now } })
	token := iss.Token(audience, claimSet{"exp": now.Unix() + 7*24*3600})
	d := refused(t, a, withToken(token), "unavailable")
	if d.Status() != http.StatusServiceUnavailable || d.Challenge() != "" {
		t.Errorf("status %d, challenge %q", d.Status(), d.Challenge())
	}
	// This is not a token, whatever the issuer's keys are.
	refused(t, a, withToken("x.y.z"), "token_form")

	for range 50 {
		refused(t, a, withToken(token), "unavailable")
	}
	if n := iss.Requests("/.well-known/oauth-authorization-server"); n > fetchBurst {
		t.Errorf("the issuer was asked %d times while it was down", n)
	}

	iss.SetDown(false)
	now = now.Add(fetchEvery + time.Second)
	accepted(t, a, withToken(token))

	// Keys that were fetched stay in use for some time.
	iss.SetDown(true)
	now = now.Add(freshFor + time.Minute)
	accepted(t, a, withToken(token))
	now = now.Add(staleFor)
	refused(t, a, withToken(token), "unavailable")
}

// TestNewKeyWhileIssuerIsDown sends a token with a key that the issuer has published
// since the last fetch. While the issuer is down the signature cannot be verified, so the
// answer is 503 and the client keeps its token.
func TestNewKeyWhileIssuerIsDown(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	now := time.Now()
	a := forTokens(t, iss, func(o *Options) { o.Now = func() time.Time { return now } })
	accepted(t, a, withToken(iss.Token(audience, nil)))
	iss.Rotate()
	iss.SetDown(true)
	token := iss.Token(audience, nil)
	for range 2 * fetchBurst { // also after the limit of the rate is reached
		if d := refused(t, a, withToken(token), "unavailable"); d.Status() != http.StatusServiceUnavailable {
			t.Errorf("status %d", d.Status())
		}
	}
	iss.SetDown(false)
	now = now.Add(fetchEvery)
	accepted(t, a, withToken(token))
}

// TestUnparsableTokenKeepsKeys sends a token whose signature cannot be parsed while stale
// keys are in use. They must stay in use.
func TestUnparsableTokenKeepsKeys(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	now := time.Now()
	a := forTokens(t, iss, func(o *Options) {
		o.Now, o.Issuers[0].Keys = func() time.Time { return now }, iss.URL+"/keys"
	})
	token := iss.Token(audience, claimSet{"exp": now.Unix() + 7*24*3600})
	accepted(t, a, withToken(token))
	iss.SetDown(true)
	now = now.Add(freshFor + time.Minute)
	refused(t, a, withToken(token[:strings.LastIndex(token, ".")]+".!"), "signature")
	other := iss.Token(audience, claimSet{"jti": "2", "exp": now.Unix() + 60}) // the first token is cached
	accepted(t, a, withToken(other))
}

// TestManyKeyIDs checks that tokens with unknown key IDs cause a bounded number of
// fetches.
func TestManyKeyIDs(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	now := time.Now()
	a := forTokens(t, iss, func(o *Options) { o.Now = func() time.Time { return now } })
	for range 300 {
		refused(t, a, withToken(iss.Sign(claimSet{"alg": "EdDSA", "kid": rand.Text()}, iss.Claims(audience, nil))), "signature")
	}
	if n := iss.Requests("/keys"); n > fetchBurst {
		t.Errorf("keys were fetched %d times", n)
	}
	// New keys are found nevertheless.
	iss.Rotate()
	now = now.Add(fetchEvery)
	accepted(t, a, withToken(iss.Token(audience, nil)))
}

func TestDiscovery(t *testing.T) {
	for name, opts := range map[string][]gatewaytest.IssuerOption{
		"OAuth": nil, "OAuth at a path": {gatewaytest.AtPath("/tenant")},
		"OpenID": {gatewaytest.OpenID}, "OpenID at a path": {gatewaytest.OpenID, gatewaytest.AtPath("/tenant/a")},
	} {
		t.Run(name, func(t *testing.T) {
			iss := gatewaytest.NewIssuer(t, opts...)
			a := forTokens(t, iss)
			accepted(t, a, withToken(iss.Token(audience, nil)))
		})
	}
	t.Run("metadata of another issuer", func(t *testing.T) {
		iss := gatewaytest.NewIssuer(t)
		iss.SetClaimedIssuer("https://idp.example.com")
		refused(t, forTokens(t, iss), withToken(iss.Token(audience, nil)), "unavailable")
	})
	t.Run("without metadata", func(t *testing.T) {
		iss := gatewaytest.NewIssuer(t)
		iss.SetClaimedIssuer("https://idp.example.com")
		a := forTokens(t, iss, func(o *Options) { o.Issuers[0].Keys = iss.URL + "/keys" })
		accepted(t, a, withToken(iss.Token(audience, nil)))
	})
	t.Run("metadata elsewhere", func(t *testing.T) {
		iss := gatewaytest.NewIssuer(t, gatewaytest.OpenID, gatewaytest.AtPath("/x"))
		a := forTokens(t, iss, func(o *Options) { o.Issuers[0].Discovery = iss.URL + "/.well-known/openid-configuration" })
		accepted(t, a, withToken(iss.Token(audience, nil)))
		if n := iss.Requests("/.well-known/oauth-authorization-server/x"); n != 0 {
			t.Errorf("the usual place was asked %d times", n)
		}
	})
	t.Run("a redirect to another host", func(t *testing.T) {
		iss := gatewaytest.NewIssuer(t)
		away := httptest.NewServer(http.RedirectHandler(iss.URL+"/keys", http.StatusFound))
		defer away.Close()
		a := forTokens(t, iss, func(o *Options) { o.Issuers[0].Keys = away.URL })
		refused(t, a, withToken(iss.Token(audience, nil)), "unavailable")
		if n := iss.Requests("/keys"); n != 0 {
			t.Error("the redirect was followed")
		}
	})
}

func TestHugeKeySet(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	for name, body := range map[string]string{
		"huge": `{"keys":[` + strings.Repeat(" ", maxDocument) + `]}`, "no keys": `{}`, "no object": `[]`, "no JSON": `<html>`,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		}))
		a := forTokens(t, iss, func(o *Options) { o.Issuers[0].Keys = srv.URL })
		t.Run(name, func(t *testing.T) { refused(t, a, withToken(iss.Token(audience, nil)), "unavailable") })
		srv.Close()
	}
}

func TestClaimPaths(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	a := forTokens(t, iss, func(o *Options) {
		o.Issuers[0].Claims = ClaimPaths{Subject: "user.id", Groups: "realm_access.roles", Scopes: "https://example.com/scp"}
		o.Hierarchy = []ImpliedScopes{{"admin", []string{"write"}}, {"write", []string{"read", "admin"}}}
	})
	principal := accepted(t, a, withToken(iss.Token(audience, claimSet{
		"user": claimSet{"id": "7"}, "realm_access": claimSet{"roles": "one role"}, "https://example.com/scp": []string{"admin"},
	})))
	if diff := cmp.Diff([]any{"7", []string{"one role"}, []string{"admin", "write", "read"}}, []any{principal.Subject, principal.Groups, principal.Scopes}); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	refused(t, a, withToken(iss.Token(audience, nil)), "claims")
}

func TestRequiredScopes(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	a := forTokens(t, iss, func(o *Options) {
		o.Issuers[0].Required = []string{"mcp", "read"}
		o.Hierarchy = []ImpliedScopes{{"all", []string{"mcp", "read"}}}
	})
	d := refused(t, a, withToken(iss.Token(audience, claimSet{"scope": "read"})), "scope")
	if d.Status() != http.StatusForbidden || !strings.Contains(d.Challenge(), `error="insufficient_scope"`) || !strings.Contains(d.Challenge(), `scope="mcp read"`) {
		t.Errorf("status %d, challenge %s", d.Status(), d.Challenge())
	}
	accepted(t, a, withToken(iss.Token(audience, claimSet{"scope": "read mcp"})))
	accepted(t, a, withToken(iss.Token(audience, claimSet{"scope": "all"})))
}

func TestSeveralIssuers(t *testing.T) {
	one, two := gatewaytest.NewIssuer(t), gatewaytest.NewIssuer(t)
	a := newAuth(t, Options{Issuers: []Issuer{{URL: one.URL, Audiences: []string{"one"}}, {URL: two.URL, Audiences: []string{"two"}}}})
	first, second := accepted(t, a, withToken(one.Token("one", nil))), accepted(t, a, withToken(two.Token("two", nil)))
	if first.Key() == second.Key() {
		t.Error("subjects of two issuers are one principal")
	}
	refused(t, a, withToken(one.Token("two", nil)), "audience")
	// An issuer cannot sign tokens of another one.
	refused(t, a, withToken(one.Sign(claimSet{}, two.Claims("two", nil))), "signature")
}

func TestVerifiedTokensAreTrustedForAWhile(t *testing.T) {
	c := newTokenCache()
	now := time.Now()
	c.put("a", &verified{sender: NewSender(&call.Principal{Expires: now.Add(time.Hour)})}, now)
	c.put("b", &verified{sender: NewSender(&call.Principal{Expires: now.Add(time.Second)})}, now)
	for text, until := range map[string]time.Duration{"a": trustFor, "b": time.Second} {
		if _, ok := c.get(text, now.Add(until-1)); !ok {
			t.Errorf("%s is verified again too early", text)
		}
		if _, ok := c.get(text, now.Add(until)); ok {
			t.Errorf("%s is trusted for too long", text)
		}
	}
}

func TestKeysAndTokens(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	key, digest := NewKey()
	a := forTokens(t, iss, func(o *Options) { o.Keys = []Key{{ID: "ci", SHA256: digest}} })
	token := iss.Token(audience, nil)
	if principal := accepted(t, a, withToken(token)); principal.AuthMethod != MethodToken {
		t.Errorf("got %+v", principal)
	}
	if principal := accepted(t, a, withToken(key)); principal.AuthMethod != MethodAPIKey {
		t.Errorf("got %+v", principal)
	}
	refused(t, a, request("X-API-Key", token), "unknown_key")
	refused(t, a, request("X-API-Key", key, "Authorization", "Bearer "+token), "two_proofs")
}
