package auth

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/ttlcache"
	"mcpgateway/internal/wire"
)

// token contains the parts of a JWT that identify its issuer. None of them is verified.
type token struct {
	text   string
	alg    string
	issuer string
}

// tokenDepth bounds the nesting of a token's header and claims.
const tokenDepth = 16

// parseToken parses a token as far as is necessary to find its issuer. It ignores the
// header parameters that contain keys or their URLs (jwk, jku, x5u, x5c; RFC 8725,
// section 3.10).
func parseToken(text string) (*token, *failure) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, errNotAccessToken
	}
	header, ok := object(parts[0])
	if !ok || header.Get("crit").Exists() || header.Get("enc").Exists() {
		return nil, errNotAccessToken
	}
	if typ := header.Get("typ"); typ.Exists() && !isAccessTokenType(typ.Str()) {
		return nil, errNotAccessToken
	}
	claims, ok := object(parts[1])
	if !ok {
		return nil, errNotAccessToken
	}
	return &token{text: text, alg: header.Get("alg").Str(), issuer: claims.Get("iss").Str()}, nil
}

// object decodes one part of a token: a JSON object without duplicate keys.
func object(part string) (wire.Value, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil || wire.Check(raw, wire.Limits{Depth: tokenDepth}, wire.Strict) != nil {
		return wire.Value{}, false
	}
	v := wire.ValueOf(raw)
	return v, v.Kind() == '{'
}

// isAccessTokenType reports whether the typ header is that of access tokens (RFC 9068,
// section 2.1) or the generic JWT that most issuers use. Issuers sign tokens of other
// types with the same keys (RFC 8725, section 3.11).
func isAccessTokenType(typ string) bool {
	switch strings.ToLower(typ) {
	case "jwt", "application/jwt", "at+jwt", "application/at+jwt":
		return true
	}
	return false
}

// isNotAccessToken reports whether the claims mark the token as something other than an
// access token: at_hash and c_hash occur in ID tokens only (OpenID Connect Core, sections
// 2 and 3.3.2.11), events in logout tokens, and some issuers name the type in the claim
// typ. An ID token without these claims is refused for its audience, which is the client.
func isNotAccessToken(claims wire.Value) bool {
	for _, name := range []string{"at_hash", "c_hash", "s_hash", "events"} {
		if claims.Get(name).Exists() {
			return true
		}
	}
	switch strings.ToLower(claims.Get("typ").Str()) {
	case "id", "refresh", "offline", "logout":
		return true
	}
	return false
}

// verified is the result of the verification of a token.
type verified struct {
	sender     *Sender
	audience   tokenAudience
	certDigest string // the digest of the certificate that it is bound to, "" for none
}

// checkBinding checks that the connection has the certificate that the token is bound to
// (RFC 8705, section 3).
func (v *verified) checkBinding(tls *tlsState) *failure {
	if v.certDigest == "" {
		return nil
	}
	if tls == nil || len(tls.PeerCertificates) == 0 {
		return errBinding
	}
	sum := sha256.Sum256(tls.PeerCertificates[0].Raw)
	if base64.RawURLEncoding.EncodeToString(sum[:]) != v.certDigest {
		return errBinding
	}
	return nil
}

const (
	maxVerified = 10_000
	// trustFor is how long the result of a verification is cached. A token may be
	// accepted for that long after its issuer has withdrawn the key.
	trustFor = 5 * time.Minute
)

// tokenCache caches verified tokens by their digest.
type tokenCache struct {
	mu  sync.RWMutex
	all *ttlcache.Cache[[sha256.Size]byte, *verified]
}

func newTokenCache() *tokenCache {
	return &tokenCache{all: ttlcache.New[[sha256.Size]byte, *verified](maxVerified)}
}

func (c *tokenCache) get(text string, now time.Time) (*verified, bool) {
	key := sha256.Sum256([]byte(text))
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.all.Get(key, now)
}

func (c *tokenCache) put(text string, v *verified, now time.Time) {
	until := now.Add(trustFor)
	if v.sender.principal.Expires.Before(until) {
		until = v.sender.principal.Expires
	}
	key := sha256.Sum256([]byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Put(key, v, until, now)
}
