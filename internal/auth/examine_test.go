package auth

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
)

// resultOf returns the result of a check, "" if there is none.
func resultOf(x *Examination, name string) CheckResult {
	for _, c := range x.Checks {
		if c.Name == name {
			return c.Result
		}
	}
	return ""
}

// An examination comes to the same answer as the authentication of a request.
func TestExamineIsAuthenticate(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	key, digest := NewKey()
	old, oldDigest := NewKey()
	a := forTokens(t, iss, func(o *Options) {
		o.Keys = []Key{{ID: "ci", SHA256: digest, Groups: []string{"g"}}, {ID: "old", SHA256: oldDigest, Expires: time.Now().Add(-time.Hour)}}
		o.Issuers[0].Required = []string{"mcp"}
	})
	now := iss.Now().Unix()
	good := claimSet{"scope": "mcp x", "groups": []string{"h"}}
	for wrong, text := range map[string]string{
		"":              iss.Token(audience, good),
		"key":           key,
		"expires":       old,
		"iss":           iss.Token(audience, claimSet{"iss": "https://evil.example.com"}),
		"alg":           iss.Sign(claimSet{"alg": "HS256"}, iss.Claims(audience, nil)),
		"signature":     gatewaytest.NewIssuer(t).Sign(claimSet{}, iss.Claims(audience, good)),
		"aud":           iss.Token("https://other.example.com", good),
		"exp":           iss.Token(audience, claimSet{"exp": now - 60}),
		"nbf":           iss.Token(audience, claimSet{"nbf": now + 60}),
		"iat":           iss.Token(audience, claimSet{"iat": now + 60}),
		"sub":           iss.Token(audience, claimSet{"sub": nil}),
		"groups":        iss.Token(audience, claimSet{"groups": 1}),
		"scope":         iss.Token(audience, claimSet{"scope": "a b"}),
		"typ":           iss.Sign(claimSet{"typ": "logout+jwt"}, iss.Claims(audience, good)),
		"kind of token": iss.Token(audience, claimSet{"at_hash": "x", "scope": "mcp"}),
		"cnf":           iss.Token(audience, claimSet{"cnf": claimSet{"jkt": "x"}, "scope": "mcp"}),
		"form":          "opaque",
		"unknown key":   key[:len(key)-1],
		"too large":     strings.Repeat("a", maxCredentials+1),
	} {
		x := a.Examine(t.Context(), text, "")
		principal, err := authenticate(a, withToken(text))
		reason := ""
		if d := (*Denied)(nil); errors.As(err, &d) {
			reason = d.Reason()
		}
		if x.Reason != reason {
			t.Errorf("%s: examined as %q, authenticated as %q", wrong, x.Reason, reason)
		}
		if wrong == "" || wrong == "key" {
			if x.Principal == nil || x.Principal.Key() != principal.Key() || strings.Join(x.Principal.Groups, " ") != strings.Join(principal.Groups, " ") {
				t.Errorf("%s: examined as %+v, authenticated as %+v", wrong, x.Principal, principal)
			}
			for _, c := range x.Checks {
				if c.Result != CheckOK {
					t.Errorf("%s: %+v", wrong, c)
				}
			}
			continue
		}
		if got := resultOf(x, wrong); got != CheckWrong && wrong != "too large" && wrong != "unknown key" {
			t.Errorf("%s: %q, checks %+v", wrong, got, x.Checks)
		}
		for _, c := range x.Checks {
			if parts := strings.Split(text, "."); len(parts) == 3 && strings.Contains(c.Value+c.Expected, parts[2]) {
				t.Errorf("%s: the signature is in %+v", wrong, c)
			}
		}
	}
}

// An unknown key ID is told apart from a forged signature.
func TestExamineUnknownKeyID(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	a := forTokens(t, iss)
	const want = `the issuer has no key "k9"; it has: rs256-1, es256-1, eddsa-1`
	x := a.Examine(t.Context(), iss.Sign(claimSet{"kid": "k9"}, iss.Claims(audience, nil)), "")
	if i := slices.IndexFunc(x.Checks, func(c Check) bool { return c.Name == "signature" }); x.Reason != "signature" || x.Message != want || x.Checks[i].Expected != want {
		t.Errorf("got %+v", x)
	}
}

// Without the keys of the issuer, everything but the signature is judged.
func TestExamineWithoutKeys(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	a := forTokens(t, iss)
	iss.SetDown(true)
	x := a.Examine(t.Context(), iss.Token(audience, nil), "")
	if x.Reason != "" || resultOf(x, "signature") != CheckUnchecked || x.Principal == nil || x.Principal.Subject != "ann" {
		t.Errorf("got %+v", x)
	}
	if x = a.Examine(t.Context(), iss.Token("https://other.example.com", nil), ""); x.Reason != "audience" {
		t.Errorf("got %+v", x)
	}
	bound := a.Examine(t.Context(), iss.Token(audience, claimSet{"cnf": claimSet{"x5t#S256": "x"}}), "")
	if bound.Reason != "" || resultOf(bound, "cnf") != CheckUnchecked {
		t.Errorf("got %+v", bound)
	}
}

func TestConfigured(t *testing.T) {
	_, digest := NewKey()
	a := newAuth(t, Options{
		Keys: []Key{{ID: "ci", SHA256: digest, Groups: []string{"g"}, Scopes: []string{"write"}}},
		Certificates: []CertificateRule{
			{DNS: "*.dev.example", Subject: "dev-*", Groups: []string{"dev"}},
			{CommonName: "host-*", Groups: []string{"hosts"}},
		},
		Hierarchy: []ImpliedScopes{{"write", []string{"read"}}},
	})
	for _, tc := range []struct{ method, subject, groups, scopes string }{
		{MethodAPIKey, "ci", "g", "write read"}, {MethodAPIKey, "c", "-", ""}, {MethodToken, "ci", "-", ""},
		{MethodCertificate, "dev-a", "dev", ""}, {MethodCertificate, "a.dev.example", "-", ""}, {MethodCertificate, "host-7", "hosts", ""},
	} {
		var got *call.Principal
		if known := a.Configured(tc.method, tc.subject); known != nil {
			got = known.Principal()
		}
		switch {
		case tc.groups == "-":
			if got != nil {
				t.Errorf("%+v: got %+v", tc, got)
			}
		case got == nil || strings.Join(got.Groups, " ") != tc.groups || strings.Join(got.Scopes, " ") != tc.scopes || got.Subject != tc.subject || got.AuthMethod != tc.method:
			t.Errorf("%+v: got %+v", tc, got)
		}
	}
}
