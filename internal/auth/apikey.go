package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"mcpgateway/internal/call"
)

// Key is an API key of the configuration, which has its digest only.
type Key struct {
	ID      string // the subject of the principal
	SHA256  string // in hex
	Groups  []string
	Scopes  []string
	Expires time.Time // the key is invalid from then on; zero means never
}

// MethodAPIKey is the AuthMethod of principals that authenticate with an API key.
const MethodAPIKey = "api-key"

type apiKey struct {
	digest    [sha256.Size]byte
	principal *call.Principal
}

func newKeys(keys []Key, h hierarchy) ([]apiKey, error) {
	var all []apiKey
	for _, k := range keys {
		next := apiKey{
			principal: &call.Principal{Subject: k.ID, Groups: k.Groups, Scopes: h.expand(k.Scopes), AuthMethod: MethodAPIKey, Expires: k.Expires},
		}
		if n, err := hex.Decode(next.digest[:], []byte(k.SHA256)); err != nil || n != sha256.Size || len(k.SHA256) != 2*sha256.Size {
			return nil, fmt.Errorf("API key %q: its SHA-256 must be 64 hex digits", k.ID)
		}
		all = append(all, next)
	}
	return all, nil
}

// SetKeys replaces the API keys for later requests. It returns the keys of the principals
// whose API key was removed or changed, so that the caller can end their connections. On
// error, which names the API key, it changes nothing. It must not be called concurrently.
func (a *Authenticator) SetKeys(keys []Key) (withdrawn []string, err error) {
	next, err := newKeys(keys, a.hierarchy)
	if err != nil {
		return nil, err
	}
	for _, was := range *a.keys.Swap(&next) {
		if !slices.ContainsFunc(next, was.equal) {
			withdrawn = append(withdrawn, was.principal.Key())
		}
	}
	return withdrawn, nil
}

// equal reports whether two keys have the same digest and the same principal.
func (k apiKey) equal(other apiKey) bool {
	return k.digest == other.digest && k.principal.Subject == other.principal.Subject && k.principal.Expires.Equal(other.principal.Expires) &&
		slices.Equal(k.principal.Groups, other.principal.Groups) && slices.Equal(k.principal.Scopes, other.principal.Scopes)
}

// apiKeyPrincipal returns the principal of an API key. It compares all keys, so that its
// time tells nothing about the key.
func (a *Authenticator) apiKeyPrincipal(text string) (*call.Principal, *failure) {
	digest := sha256.Sum256([]byte(text))
	keys, found := *a.keys.Load(), -1
	for i := range keys {
		same := subtle.ConstantTimeCompare(digest[:], keys[i].digest[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 {
		return nil, errKeyUnknown
	}
	principal := keys[found].principal
	if !principal.Expires.IsZero() && !a.now().Before(principal.Expires) {
		return nil, errKeyExpired
	}
	return principal, nil
}

// keyPrefix lets secret scanners find keys that were committed to a repository.
const keyPrefix = "mcpgw_"

// NewKey returns a new API key of at least 128 random bits, and its digest for the
// configuration.
func NewKey() (key, digest string) {
	key = keyPrefix + rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(key))
	return key, hex.EncodeToString(sum[:])
}
