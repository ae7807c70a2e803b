package gatewaytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Issuer is an authorization server as verifiers of its tokens see it: metadata (RFC 8414
// or OpenID Connect Discovery) and keys over HTTP. The methods may be called concurrently.
type Issuer struct {
	URL string
	// Now returns the time at which tokens are issued. A test that stops the clock of the
	// verifier also sets Now, before the first token.
	Now func() time.Time

	t   testing.TB
	mu  sync.Mutex
	gen int
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	ed  ed25519.PrivateKey

	path    string // of the issuer
	openID  bool
	down    bool
	claimed string // the issuer in the metadata; "" for the real one
	asked   map[string]int

	more     map[string]http.HandlerFunc // further endpoints, by path
	metadata map[string]any              // further members of the metadata
}

// IssuerOption changes an Issuer before it starts.
type IssuerOption func(*Issuer)

// OpenID serves the metadata at the path of OpenID Connect, and not at that of OAuth.
func OpenID(i *Issuer) { i.openID = true }

// AtPath gives the issuer's URL a path, such as /tenant.
func AtPath(path string) IssuerOption { return func(i *Issuer) { i.path = path } }

// NewIssuer starts an issuer that ends with the test.
func NewIssuer(t testing.TB, opts ...IssuerOption) *Issuer {
	t.Helper()
	i := &Issuer{Now: time.Now, t: t, asked: map[string]int{}}
	for _, o := range opts {
		o(i)
	}
	i.Rotate()
	srv := httptest.NewServer(i)
	t.Cleanup(srv.Close)
	i.URL = srv.URL + i.path
	return i
}

// Rotate replaces the keys. The old ones are no longer published.
func (i *Issuer) Rotate() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.gen++
	var err1, err2, err3 error
	i.rsa, err1 = takeKey(i.t)
	i.ec, err2 = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, i.ed, err3 = ed25519.GenerateKey(rand.Reader)
	if err1 != nil || err2 != nil || err3 != nil {
		panic("no randomness")
	}
}

// spare are RSA keys of tests that have ended. Making one takes seconds under the race
// detector on a busy machine, and tests start hundreds of issuers.
var spare struct {
	mu   sync.Mutex
	keys []*rsa.PrivateKey
}

// takeKey returns a key that no other issuer uses until the test has ended.
func takeKey(t testing.TB) (key *rsa.PrivateKey, err error) {
	spare.mu.Lock()
	if last := len(spare.keys) - 1; last >= 0 {
		key, spare.keys = spare.keys[last], spare.keys[:last]
	}
	spare.mu.Unlock()
	if key == nil {
		if key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			return nil, err
		}
	}
	t.Cleanup(func() {
		spare.mu.Lock()
		defer spare.mu.Unlock()
		spare.keys = append(spare.keys, key)
	})
	return key, nil
}

// SetDown makes all requests to the issuer fail, or work again.
func (i *Issuer) SetDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// SetClaimedIssuer makes the metadata name another issuer.
func (i *Issuer) SetClaimedIssuer(url string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.claimed = url
}

// Requests returns the number of requests for a path. The path of the keys is /keys.
func (i *Issuer) Requests(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.asked[r.URL.Path]++
	if more := i.more[r.URL.Path]; more != nil && !i.down {
		i.mu.Unlock()
		more(w, r)
		return
	}
	defer i.mu.Unlock()
	metadata := "/.well-known/oauth-authorization-server" + i.path
	if i.openID {
		metadata = i.path + "/.well-known/openid-configuration"
	}
	switch {
	case i.down:
		http.Error(w, "down", http.StatusInternalServerError)
	case r.URL.Path == metadata:
		self := i.URL
		if i.claimed != "" {
			self = i.claimed
		}
		doc := map[string]any{"issuer": self, "jwks_uri": "http://" + r.Host + "/keys"}
		for name, v := range i.metadata {
			doc[name] = v
			if path, ok := v.(string); ok && strings.HasPrefix(path, "/") {
				doc[name] = "http://" + r.Host + path
			}
		}
		i.answer(w, doc)
	case r.URL.Path == "/keys":
		i.answer(w, map[string]any{"keys": i.keys()})
	default:
		http.NotFound(w, r)
	}
}

func (i *Issuer) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		i.t.Error(err)
	}
}

func (i *Issuer) keys() []map[string]any {
	point, err := i.ec.PublicKey.Bytes() // uncompressed: 4, X, Y
	if err != nil {
		panic(err)
	}
	return []map[string]any{
		{"kty": "RSA", "use": "sig", "kid": i.kid("RS256"), "n": b64(i.rsa.N.Bytes()), "e": b64(big.NewInt(int64(i.rsa.E)).Bytes())},
		{"kty": "EC", "use": "sig", "alg": "ES256", "kid": i.kid("ES256"), "crv": "P-256", "x": b64(point[1:33]), "y": b64(point[33:])},
		{"kty": "OKP", "use": "sig", "kid": i.kid("EdDSA"), "crv": "Ed25519", "x": b64(i.ed.Public().(ed25519.PublicKey))},
	}
}

func (i *Issuer) kid(alg string) string { return fmt.Sprintf("%s-%d", strings.ToLower(alg), i.gen) }

// Claims returns the claims of a valid token for an audience. other replaces claims; a
// nil value removes one.
func (i *Issuer) Claims(audience string, other map[string]any) map[string]any {
	now := i.Now().Unix()
	claims := map[string]any{"iss": i.URL, "aud": audience, "sub": "ann", "iat": now, "exp": now + 300}
	for name, v := range other {
		claims[name] = v
		if v == nil {
			delete(claims, name)
		}
	}
	return claims
}

// Token returns a valid token for an audience, with claims replaced as in Claims.
func (i *Issuer) Token(audience string, other map[string]any) string {
	return i.Sign(map[string]any{"typ": "at+jwt"}, i.Claims(audience, other))
}

// Sign signs claims. The header may have any members. alg is RS256 by default; ES256,
// EdDSA and PS256 are supported too, and for attacks none, and HS256 with the public RSA key
// in PEM as the secret. A missing kid is added.
func (i *Issuer) Sign(header, claims map[string]any) string {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	h := map[string]any{"alg": "RS256"}
	for name, v := range header {
		h[name] = v
	}
	alg := h["alg"].(string)
	if _, ok := h["kid"]; !ok {
		h["kid"] = i.kid(strings.Replace(alg, "PS", "RS", 1))
	}
	text := encode(i.t, h) + "." + encode(i.t, claims)
	sum := sha256.Sum256([]byte(text))
	var sig []byte
	var err error
	switch alg {
	case "RS256":
		sig, err = rsa.SignPKCS1v15(rand.Reader, i.rsa, crypto.SHA256, sum[:])
	case "PS256":
		sig, err = rsa.SignPSS(rand.Reader, i.rsa, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	case "ES256":
		var r, s *big.Int
		if r, s, err = ecdsa.Sign(rand.Reader, i.ec, sum[:]); err == nil {
			sig = make([]byte, 64)
			r.FillBytes(sig[:32])
			s.FillBytes(sig[32:])
		}
	case "EdDSA":
		sig = ed25519.Sign(i.ed, []byte(text))
	case "HS256":
		mac := hmac.New(sha256.New, i.publicPEM())
		mac.Write([]byte(text))
		sig = mac.Sum(nil)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	return text + "." + b64(sig)
}

func encode(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b64(raw)
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// publicPEM is the public RSA key in the form in which many libraries keep it.
func (i *Issuer) publicPEM() []byte {
	der, err := x509.MarshalPKIXPublicKey(&i.rsa.PublicKey)
	if err != nil {
		i.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}
