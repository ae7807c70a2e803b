package auth

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/wire"
)

// Nothing but the tokens of the issuer is accepted: no text, and no token whose header or claims
// changed after it was signed. A refusal has a status of HTTP.
func FuzzToken(f *testing.F) {
	iss := gatewaytest.NewIssuer(f)
	a := forTokens(f, iss)
	good := iss.Token(audience, nil)
	parts := strings.Split(good, ".")
	decoded := func(part string) []byte {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	f.Add("a.b.c", []byte(`{"alg":"none"}`), []byte(`{"iss":"https://idp.example"}`))
	f.Add("e30.e30.", []byte(`{"alg":"HS256","typ":"at+jwt"}`), decoded(parts[1]))
	f.Add(good+" ", decoded(parts[0]), []byte(`{"iss":1,"iss":2}`))
	f.Fuzz(func(t *testing.T, text string, header, claims []byte) {
		signed := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims) + "." + parts[2]
		for _, token := range []string{text, signed} {
			if strings.TrimSpace(token) == good {
				continue
			}
			principal, err := authenticate(a, withToken(token))
			fail, known := errors.AsType[*Denied](err)
			switch {
			case err == nil:
				t.Errorf("%q is accepted for %+v", token, principal)
			case !known, fail.Status() != http.StatusUnauthorized && fail.Status() != http.StatusBadRequest && fail.Status() != http.StatusServiceUnavailable:
				t.Errorf("%q is refused with %v", token, err)
			}
		}
	})
}

// A key set yields public keys only, and none from a document without keys.
func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"1"},{"kty":"oct","k":"AAAA"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA","d":"AA"},{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Add([]byte(`{"keys":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if wire.Check(body, wire.Limits{Depth: tokenDepth}, wire.Lenient) != nil {
			return // the document of an issuer is checked when it is fetched
		}
		keys, err := parseKeys(body)
		if err == nil && wire.ValueOf(body).Get("keys").Kind() != '[' {
			t.Errorf("%s is read as a key set", body)
		}
		for _, k := range keys {
			if !k.IsPublic() || !k.Valid() {
				t.Errorf("%s yields the key %+v", body, k)
			}
		}
	})
}
