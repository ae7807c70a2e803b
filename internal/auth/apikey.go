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

// Key is an API key. Only its digest is known.
type Key struct {
	ID      string // the subject of who sends it
	SHA256  string // in hex
	Groups  []string
	Scopes  []string
	Expires time.Time // the moment at which it is good no more; zero for never
}

// ProofKey is the proof of principals who sent an API key.
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
			return nil, fmt.Errorf("API key %q: its SHA-256 is not 64 hex digits", k.ID)
		}
		all = append(all, next)
	}
	return all, nil
}

// SetKeys replaces the API keys, for requests that come from now on, and returns the
// keys of the principals for whom one that was good is not there any more as it was:
// what they have open is to end. After an error, which names the API key, nothing has
// changed. It must not be called by several goroutines at once.
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

// is reports whether two keys are the same, and stand for the same.
func (k apiKey) equal(other apiKey) bool {
	return k.digest == other.digest && k.principal.Subject == other.principal.Subject && k.principal.Expires.Equal(other.principal.Expires) &&
		slices.Equal(k.principal.Groups, other.principal.Groups) && slices.Equal(k.principal.Scopes, other.principal.Scopes)
}

// byKey returns who a key belongs to. It takes the same time whichever it is, and
// whether there is one: all are compared.
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
	who := keys[found].principal
	if !who.Expires.IsZero() && !a.now().Before(who.Expires) {
		return nil, errKeyExpired
	}
	return who, nil
}

// keyPrefix lets scanners of repositories find keys that were committed.
const keyPrefix = "mcpgw_"

// NewKey makes an API key of at least 128 random bits, and the digest of it that
// is to be configured.
func NewKey() (key, digest string) {
	key = keyPrefix + rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(key))
	return key, hex.EncodeToString(sum[:])
}
