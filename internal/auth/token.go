package auth

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/ttlcache"
	"mcpgateway/internal/wire"
)

// token is a JWT in the compact form, taken apart. Nothing of it is verified.
type token struct {
	text   string
	alg    string
	issuer string
}

// tokenDepth bounds the nesting of a token's parts.
const tokenDepth = 16

// parseToken takes a token apart as far as it takes to find who can verify it. The
// members of its header that name keys or where to get them (jwk, jku, x5u, x5c)
// are not looked at (RFC 8725, section 3.10).
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

// object decodes one part of a token: an object in which no key is there twice.
func object(part string) (wire.Value, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil || wire.Check(raw, wire.Limits{Depth: tokenDepth}, wire.Strict) != nil {
		return wire.Value{}, false
	}
	v := wire.ValueOf(raw)
	return v, v.Kind() == '{'
}

// accessTyp tells whether the type in a token's header is that of access tokens
// (RFC 9068, section 2.1), or the general one that most issuers write. Other types
// are other things, signed with the same keys (RFC 8725, section 3.11).
func isAccessTokenType(typ string) bool {
	switch strings.ToLower(typ) {
	case "jwt", "application/jwt", "at+jwt", "application/at+jwt":
		return true
	}
	return false
}

// isOther tells by its claims that a token is none for access. An id token goes to a
// client, and tells it who has logged in; at_hash and c_hash stand in these alone
// (OpenID Connect Core, sections 2 and 3.3.2.11), events only in those about the end of
// a session. One that has none of them is kept out by its audience, the client. Some issuers say in a claim typ what a token is.
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

// verified is a token that has been verified.
type verified struct {
	principal  *call.Principal
	certDigest string // digest of the certificate that it is bound to; "" for none
}

// boundTo holds a token to the certificate that it is bound to (RFC 8705, section
// 3).
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
	// trustFor is how long a verified token is not verified again: that is how long
	// one goes on that was signed with a key which its issuer has withdrawn.
	trustFor = 5 * time.Minute
)

// tokenCache holds verified tokens by their digest.
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
	if v.principal.Expires.Before(until) {
		until = v.principal.Expires
	}
	key := sha256.Sum256([]byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Put(key, v, until, now)
}
