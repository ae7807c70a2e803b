package auth

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/call"
)

// Key is an API key of the configuration, which has its digest only.
type Key struct {
	ID      string // names the key in the log
	Subject string // of the principal, which may have several keys; "" for the ID
	SHA256  string // in hex
	Groups  []string
	Scopes  []string
	// Profiles are the names of the only profiles that the key gets; nil means all.
	Profiles []string
	Expires  time.Time // the key is invalid from then on; zero means never
}

// MethodAPIKey is the AuthMethod of principals that authenticate with an API key.
const MethodAPIKey = "api-key"

type apiKey struct {
	id        string
	formerIDs []string // used by SetKeys only
	digest    [sha256.Size]byte
	principal *call.Principal // of sender
	sender    *Sender
}

// apiKeys finds an API key in the same time however many there are.
type apiKeys struct {
	salt [sha256.Size]byte
	all  map[[sha256.Size]byte]*apiKey // by slot
}

// slot returns the place of a digest. Nobody can predict it, so the time of a search tells
// nothing about the digests of other keys.
func (s *apiKeys) slot(digest *[sha256.Size]byte) [sha256.Size]byte {
	var salted [2 * sha256.Size]byte
	copy(salted[copy(salted[:], s.salt[:]):], digest[:])
	return sha256.Sum256(salted[:])
}

// find returns the key with a digest, nil for none.
func (s *apiKeys) find(digest *[sha256.Size]byte) *apiKey {
	k := s.all[s.slot(digest)]
	if k == nil || subtle.ConstantTimeCompare(k.digest[:], digest[:]) != 1 {
		return nil
	}
	return k
}

func newKeys(keys []Key, h hierarchy) (*apiKeys, error) {
	s := &apiKeys{all: make(map[[sha256.Size]byte]*apiKey, len(keys))}
	_, _ = rand.Read(s.salt[:]) // it never fails
	for _, k := range keys {
		next := &apiKey{
			id:        k.ID,
			principal: &call.Principal{Subject: cmp.Or(k.Subject, k.ID), Groups: k.Groups, Scopes: h.expand(k.Scopes), AuthMethod: MethodAPIKey, KeyID: k.ID, Expires: k.Expires},
		}
		next.sender = &Sender{principal: next.principal, Profiles: k.Profiles}
		if n, err := hex.Decode(next.digest[:], []byte(k.SHA256)); err != nil || n != sha256.Size || len(k.SHA256) != 2*sha256.Size {
			return nil, fmt.Errorf("API key %q: its SHA-256 must be 64 hex digits", k.ID)
		}
		s.all[s.slot(&next.digest)] = next
	}
	return s, nil
}

// SetKeys replaces the API keys for later requests. It returns from which keys it has taken
// something, so that the caller can end what began with them. On error, which names the API key, it
// changes nothing. It must not be called concurrently.
func (a *Authenticator) SetKeys(keys []Key) (KeyChanges, error) {
	next, err := newKeys(keys, a.hierarchy)
	if err != nil {
		return KeyChanges{}, err
	}
	changes := KeyChanges{Revoked: make(KeySet), Changed: make(KeySet), Shortened: make(KeySet)}
	now := a.now()
	for _, was := range a.keys.Swap(next).all {
		k := next.find(&was.digest)
		switch {
		case k == nil || k.principal.Subject != was.principal.Subject || k.expired(now) && !was.expired(now):
			changes.Revoked.add(was)
		case !was.sameRights(k):
			changes.Changed.add(was)
		case was.outlasts(k):
			changes.Shortened.add(was)
		}
		if k != nil && k.principal.Subject == was.principal.Subject {
			k.formerIDs = was.formerIDs
			if k.id != was.id && !slices.Contains(k.formerIDs, was.id) {
				k.formerIDs = append(slices.Clip(k.formerIDs), was.id)
			}
		}
	}
	return changes, nil
}

// sameRights reports whether two keys have the same groups, scopes and profiles.
func (k *apiKey) sameRights(other *apiKey) bool {
	return slices.Equal(k.principal.Groups, other.principal.Groups) && slices.Equal(k.principal.Scopes, other.principal.Scopes) &&
		slices.Equal(k.sender.Profiles, other.sender.Profiles)
}

// expired reports whether a key is invalid because of the time.
func (k *apiKey) expired(now time.Time) bool {
	return !k.principal.Expires.IsZero() && !now.Before(k.principal.Expires)
}

// outlasts reports whether a key expires later than another one, or never although the other one does.
func (k *apiKey) outlasts(other *apiKey) bool {
	mine, its := k.principal.Expires, other.principal.Expires
	return !its.IsZero() && (mine.IsZero() || mine.After(its))
}

// outlives reports whether a key expires later than another one. The id decides between keys that expire
// at the same time, so that the answer is always the same.
func (k *apiKey) outlives(other *apiKey) bool {
	if k.principal.Expires.Equal(other.principal.Expires) {
		return k.id > other.id
	}
	return k.outlasts(other)
}

// findKey returns an API key by its text, nil for none.
func (a *Authenticator) findKey(text string) *apiKey {
	var room [256]byte // for a key of usual length
	digest := sha256.Sum256(append(room[:0], text...))
	return a.keys.Load().find(&digest)
}

// keySender returns the sender of an API key.
func (a *Authenticator) keySender(text string) (*Sender, *failure) {
	key := a.findKey(text)
	switch {
	case key == nil:
		return nil, errKeyUnknown
	case key.expired(a.now()):
		return nil, errKeyExpired
	}
	return key.sender, nil
}

// KeyPrefix begins the keys of [NewKey], so that they can be hidden in logs, and secret scanners find keys that were
// committed to a repository.
const KeyPrefix = "mcpgw_"

// mayBeToken reports whether credentials that are no known API key are judged as a token. A
// mistyped or removed key is not, so that its refusal says that the key is unknown.
func (a *Authenticator) mayBeToken(text string) bool {
	return len(a.issuers) > 0 && !strings.HasPrefix(text, KeyPrefix)
}

// NewKey returns a new API key of at least 128 random bits, and its digest for the
// configuration.
func NewKey() (key, digest string) {
	key = KeyPrefix + rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(key))
	return key, hex.EncodeToString(sum[:])
}
