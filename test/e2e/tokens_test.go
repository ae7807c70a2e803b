package e2e

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/rig"
)

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// forgery is a decoded token of the provider, from which an attacker makes other tokens.
type forgery struct {
	t              *testing.T
	header, claims map[string]any
	parts          []string
}

func decodeToken(t *testing.T, token string) forgery {
	t.Helper()
	f := forgery{t: t, parts: strings.Split(token, ".")}
	for i, into := range []*map[string]any{&f.header, &f.claims} {
		raw, err := base64.RawURLEncoding.DecodeString(f.parts[i])
		if err != nil || json.Unmarshal(raw, into) != nil {
			t.Fatalf("part %d of the token: %v", i, err)
		}
	}
	return f
}

// with returns a header with other members. A nil value removes a member.
func with(m map[string]any, more map[string]any) map[string]any {
	out := map[string]any{}
	for _, from := range []map[string]any{m, more} {
		for k, v := range from {
			if out[k] = v; v == nil {
				delete(out, k)
			}
		}
	}
	return out
}

// signed encodes a token. sign signs its argument.
func (f forgery) signed(header, claims map[string]any, sign func(text string) []byte) string {
	f.t.Helper()
	h, err1 := json.Marshal(with(f.header, header))
	c, err2 := json.Marshal(with(f.claims, claims))
	if err1 != nil || err2 != nil {
		f.t.Fatal(err1, err2)
	}
	text := b64(h) + "." + b64(c)
	return text + "." + b64(sign(text))
}

// TestTokenAttacks sends a gateway with a real OpenID provider everything that is not an access token for it.
func TestTokenAttacks(t *testing.T) {
	issuer, listen, everything := rig.OpenID(t), netns.Addr(), rig.EverythingCommand(t)
	g := rig.StartGateway(t, rig.Config{
		"listen": listen, "public_url": "http://" + listen,
		"auth":      rig.Config{"mode": "jwt", "jwt": []rig.Config{{"issuer": issuer, "required_scopes": []string{"mcp"}}}},
		"policy":    rig.Config{"default": "allow"},
		"upstreams": rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}},
	})
	a := register(t, issuer, "http://127.0.0.1:1/callback")
	ann := a.tokens(t, "ann", g.URL, "openid mcp")
	bob := a.tokens(t, "bob", g.URL, "openid mcp").Access
	good := ann.Access
	f := decodeToken(t, good)
	keep := func(text string) []byte {
		raw, err := base64.RawURLEncoding.DecodeString(f.parts[2])
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	empty := func(string) []byte { return nil }

	var jwks struct{ Keys []map[string]string }
	resp, err := http.Get(issuer + "/jwks")
	if err != nil {
		t.Fatal(err)
	}
	readJSON(t, resp, http.StatusOK, &jwks)
	public := publicKey(t, jwks.Keys[0])
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := json.Marshal(jwks.Keys[0])
	if err != nil {
		t.Fatal(err)
	}
	mac := func(key []byte) func(text string) []byte {
		return func(text string) []byte {
			m := hmac.New(sha256.New, key)
			m.Write([]byte(text))
			return m.Sum(nil)
		}
	}
	mine, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	own := func(text string) []byte {
		sum := sha256.Sum256([]byte(text))
		s, err := rsa.SignPKCS1v15(rand.Reader, mine, 5, sum[:]) // crypto.SHA256
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var fetched atomic.Int32
	mineJWK := map[string]any{"kty": "RSA", "kid": f.header["kid"], "alg": "RS256", "n": b64(mine.N.Bytes()), "e": b64(big.NewInt(int64(mine.E)).Bytes())}
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{mineJWK}})
	}))
	defer evil.Close()
	type m = map[string]any
	now := time.Now().Unix()

	send := func(headers ...string) (int, string, http.Header) {
		t.Helper()
		resp := postTo(t, g.URL, "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, func(r *http.Request) {
			r.Header.Set("Accept", "application/json, text/event-stream")
			for i := 0; i+1 < len(headers); i += 2 {
				r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
			}
		})
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body), resp.Header
	}
	if status, body, _ := send("Authorization", "Bearer "+good); status != http.StatusOK || !strings.Contains(body, "e__echo") {
		t.Fatalf("the good token: %d %s", status, body)
	}
	for name, token := range map[string]string{
		"none":                          f.signed(m{"alg": "none"}, nil, empty),
		"None, with the old signature":  f.signed(m{"alg": "None"}, nil, keep),
		"no algorithm":                  f.signed(m{"alg": nil}, nil, keep),
		"algorithm is a list":           f.signed(m{"alg": []string{"none", "RS256"}}, nil, keep),
		"key confusion, PEM":            f.signed(m{"alg": "HS256"}, nil, mac(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))),
		"key confusion, DER":            f.signed(m{"alg": "HS256"}, nil, mac(der)),
		"key confusion, JWK":            f.signed(m{"alg": "HS256"}, nil, mac(jwk)),
		"key confusion, modulus":        f.signed(m{"alg": "HS256"}, nil, mac(public.N.Bytes())),
		"empty secret":                  f.signed(m{"alg": "HS256"}, nil, mac(nil)),
		"another user":                  f.signed(nil, m{"sub": "root"}, keep),
		"more scopes":                   f.signed(nil, m{"scope": "mcp notes:write"}, keep),
		"signature of another's token":  strings.Join(append(strings.Split(good, ".")[:2:2], strings.Split(bob, ".")[2]), "."),
		"no signature":                  f.parts[0] + "." + f.parts[1] + ".",
		"two parts":                     f.parts[0] + "." + f.parts[1],
		"four parts":                    good + "." + f.parts[2],
		"own key":                       f.signed(nil, nil, own),
		"own key, without kid":          f.signed(m{"kid": nil}, nil, own),
		"jwk":                           f.signed(m{"jwk": mineJWK}, nil, own),
		"jku":                           f.signed(m{"jku": evil.URL}, nil, own),
		"x5u":                           f.signed(m{"x5u": evil.URL}, nil, own),
		"x5c":                           f.signed(m{"x5c": []string{base64.StdEncoding.EncodeToString(der)}}, nil, own),
		"jku, with its kid":             f.signed(m{"jku": evil.URL, "kid": evil.URL}, nil, own),
		"issuer that leads astray":      f.signed(nil, m{"iss": evil.URL}, own),
		"issuer below":                  f.signed(nil, m{"iss": issuer + "/"}, own),
		"kid is a path":                 f.signed(m{"kid": "../../../../../../dev/null"}, nil, mac(nil)),
		"kid is a command":              f.signed(m{"kid": "x; id |"}, nil, own),
		"kid is SQL":                    f.signed(m{"kid": "' UNION SELECT '' --"}, nil, mac(nil)),
		"kid is a number":               f.signed(m{"kid": 0}, nil, keep),
		"crit":                          f.signed(m{"crit": []string{"exp"}, "exp": now}, nil, own),
		"crit, empty":                   f.signed(m{"crit": []string{}}, nil, keep),
		"b64":                           f.signed(m{"crit": []string{"b64"}, "b64": false}, nil, own),
		"nested":                        f.signed(m{"cty": "JWT"}, nil, own),
		"for another resource":          a.tokens(t, "ann", "http://127.0.0.1:1/mcp", "mcp").Access,
		"for nobody in particular":      a.tokens(t, "ann", "", "openid").Access,
		"id token":                      ann.ID,
		"expired, signed by the wrong":  f.signed(nil, m{"exp": now - 3600}, own),
		"JWE, direct":                   b64([]byte(`{"alg":"dir","enc":"A256GCM"}`)) + ".." + b64([]byte("nonce")) + "." + b64([]byte("text")) + "." + b64([]byte("tag")),
		"JWE in three parts":            f.signed(m{"enc": "A256GCM", "zip": "DEF"}, nil, keep),
		"header is deep":                b64([]byte(strings.Repeat("[", 3000))) + "." + f.parts[1] + "." + f.parts[2],
		"header twice":                  b64([]byte(`{"alg":"RS256","alg":"none"}`)) + "." + f.parts[1] + "." + f.parts[2],
		"zeros for a signature":         f.signed(nil, m{"sub": "root"}, func(string) []byte { return make([]byte, 256) }),
		"signature with other bits":     good[:len(good)-2] + "_-",
		"padding":                       good + "=",
		"percent-encoded":               strings.ReplaceAll(good, ".", "%2E"),
		"too large":                     good + strings.Repeat("A", 20_000),
		"nothing but dots":              "..",
		"a key that nobody has":         "mcpgw_AAAAAAAAAAAAAAAAAAAAAAAAAA",
		"unicode dots":                  strings.ReplaceAll(good, ".", "\u3002"),
		"a token within its own header": f.signed(m{"typ": good}, nil, keep),
	} {
		t.Run(name, func(t *testing.T) {
			status, body, header := send("Authorization", "Bearer "+token)
			if status != http.StatusUnauthorized || !strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer ") || strings.Contains(body, "e__") {
				t.Errorf("got %d %q %s", status, header.Get("WWW-Authenticate"), body)
			}
			if len(token) > 20 && strings.Contains(body+fmt.Sprint(header), token) {
				t.Error("the response repeats the token")
			}
		})
	}
	for name, tc := range map[string]struct {
		status  int
		headers []string
	}{
		"twice the same":        {400, []string{"Authorization", "Bearer " + good, "Authorization", "Bearer " + good}},
		"good, then another's":  {400, []string{"Authorization", "Bearer " + good, "Authorization", "Bearer " + bob}},
		"in another spelling":   {400, []string{"Authorization", "Bearer " + good, "AUTHORIZATION", "Bearer " + bob}},
		"with a comma":          {400, []string{"Authorization", "Bearer " + good + ", Bearer " + bob}},
		"JSON serialization":    {400, []string{"Authorization", `Bearer {"payload":"` + f.parts[1] + `","signatures":[{"protected":"` + f.parts[0] + `","signature":"` + f.parts[2] + `"}]}`}},
		"another scheme":        {401, []string{"Authorization", "Basic " + good}},
		"no scheme":             {401, []string{"Authorization", good}},
		"DPoP":                  {401, []string{"Authorization", "DPoP " + good}},
		"proxy's header":        {401, []string{"Proxy-Authorization", "Bearer " + good}},
		"forwarded header":      {401, []string{"X-Forwarded-Authorization", "Bearer " + good}},
		"cookie":                {401, []string{"Cookie", "access_token=" + good}},
		"API key":               {401, []string{"X-Api-Key", good}},
		"header with underline": {401, []string{"Author_ization", "Bearer " + good}},
	} {
		t.Run(name, func(t *testing.T) {
			if status, body, _ := send(tc.headers...); status != tc.status || strings.Contains(body, "e__") {
				t.Errorf("got %d %s, want %d", status, body, tc.status)
			}
		})
	}
	t.Run("session of another", func(t *testing.T) {
		initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`
		resp := postTo(t, g.URL, "application/json", initialize, func(r *http.Request) {
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Authorization", "Bearer "+good)
		})
		resp.Body.Close()
		session := resp.Header.Get("Mcp-Session-Id")
		for token, want := range map[string]int{good: 200, bob: 404, "": 401} {
			headers := []string{"Mcp-Session-Id", session}
			if token != "" {
				headers = append(headers, "Authorization", "Bearer "+token)
			}
			if status, body, _ := send(headers...); status != want {
				t.Errorf("got %d %s, want %d", status, body, want)
			}
		}
	})
	if n := fetched.Load(); n != 0 {
		t.Errorf("keys named by a token were fetched %d times", n)
	}
	if status, _, _ := send("Authorization", "Bearer "+good); status != http.StatusOK {
		t.Errorf("after the attacks the good token gets %d", status)
	}
	if out := g.Process.Output(); strings.Contains(out, f.parts[2][:20]) || strings.Contains(out, "eyJ") {
		t.Error("the gateway's log contains a token")
	}
}

func publicKey(t *testing.T, jwk map[string]string) *rsa.PublicKey {
	t.Helper()
	n, err1 := base64.RawURLEncoding.DecodeString(jwk["n"])
	e, err2 := base64.RawURLEncoding.DecodeString(jwk["e"])
	if err1 != nil || err2 != nil || len(n) == 0 {
		t.Fatalf("the provider's key is %v", jwk)
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
}
