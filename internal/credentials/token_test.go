package credentials

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"mcpgateway/internal/gatewaytest"
)

// TestAssertions verifies assertions with keys of every type.
func TestAssertions(t *testing.T) {
	as := gatewaytest.NewAuthServer(t, map[string]string{"gw": "unused"})
	rsaKey, err1 := rsa.GenerateKey(rand.Reader, 2048)
	ecKey, err2 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	edPublic, edKey, err3 := ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name        string
		key, public any
		alg         jose.SignatureAlgorithm
	}{
		{"RSA", rsaKey, &rsaKey.PublicKey, jose.RS256}, {"EC", ecKey, &ecKey.PublicKey, jose.ES384}, {"Ed25519", edKey, edPublic, jose.EdDSA},
	} {
		t.Run(tc.name, func(t *testing.T) {
			der, err := x509.MarshalPKCS8PrivateKey(tc.key)
			if err != nil {
				t.Fatal(err)
			}
			text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
			s := source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", PrivateKey: text, KeyID: "k1"}, Issuer: as.URL}})
			bearer(t, s, nil)
			posts := as.TokenRequests(gatewaytest.GrantClient)
			form := posts[len(posts)-1]
			if form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
				t.Errorf("the type is %q", form.Get("client_assertion_type"))
			}
			signed, err := jwt.ParseSigned(form.Get("client_assertion"), []jose.SignatureAlgorithm{tc.alg})
			if err != nil {
				t.Fatal(err)
			}
			var claims jwt.Claims
			if err := signed.Claims(tc.public, &claims); err != nil {
				t.Fatal(err)
			}
			if err := claims.Validate(jwt.Expected{Issuer: "gw", Subject: "gw", AnyAudience: jwt.Audience{as.URL}, Time: time.Now()}); err != nil || claims.ID == "" {
				t.Errorf("%v in %+v", err, claims)
			}
			if claims.Expiry.Time().After(time.Now().Add(2*time.Minute)) || signed.Headers[0].KeyID != "k1" {
				t.Errorf("the assertion is %+v with %+v", claims, signed.Headers)
			}
		})
	}
}

// TestOddAnswers checks responses of a token endpoint that contain no usable token.
func TestOddAnswers(t *testing.T) {
	for name, tc := range map[string]struct{ kind, body, want string }{
		"no JSON":        {"text/html", "<p>", "answered without a token"},
		"no object":      {"application/json", "[]", "answered without a token"},
		"no token":       {"application/json", "{}", "answered without a token"},
		"line end":       {"application/json", `{"access_token":"a\r\nX: y"}`, "answered without a token"},
		"space":          {"application/json", `{"access_token":"a b"}`, "answered without a token"},
		"twice":          {"application/json", `{"access_token":"a","access_token":"b"}`, "answered without a token"},
		"another scheme": {"application/json", `{"access_token":"a","token_type":"DPoP"}`, "not a Bearer token"},
		"endless":        {"application/json", `{"x":"` + strings.Repeat("x", maxDocument) + `"}`, "sends more than"},
		"deep":           {"application/json", `{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "answered without a token"},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tc.kind)
				_, _ = w.Write([]byte(tc.body))
			})
			fails(t, source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: "s3cret"}, TokenURL: u}}), nil, tc.want)
		})
	}
}

func TestSecondsAndLife(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		life time.Duration // 0: unknown
		want time.Duration
	}{{0, defaultLife}, {time.Hour, time.Hour - skew}, {8 * time.Second, 6 * time.Second}} {
		tok := &token{issued: now}
		if tc.life > 0 {
			tok.expires = now.Add(tc.life)
		}
		if got := tok.goodUntil().Sub(now); got != tc.want {
			t.Errorf("a token with a life of %v is kept for %v, want %v", tc.life, got, tc.want)
		}
	}
}
