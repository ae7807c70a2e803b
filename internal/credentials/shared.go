package credentials

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"mcpgateway/internal/store"
)

// Kinds of keys in the store that replicas share.
const (
	kindGrant  = "grant"      // a grant or registration
	kindGrants = "grants"     // the names of all grants, as fields
	kindLock   = "grant-lock" // who changes a grant
	kindLink   = "grant-link" // of Web, like the next two
	kindLinkOf = "grant-link-of"
	kindLogin  = "grant-login"
)

var allGrants = store.Key{Kind: kindGrants}

const (
	// grantTTL is how long a grant stays in the store after it was last stored.
	grantTTL = 400 * 24 * time.Hour
	// resealAfter is the age at which a grant that is used is stored anew: for another grantTTL, and sealed
	// with the first key.
	resealAfter = 24 * time.Hour
	// maxGrants bounds the grants in the store.
	maxGrants = 1 << 20
	// lockLife is how long a replica that dies keeps others from changing a grant. It is longer than anybody holds
	// a lock.
	lockLife = attemptTime + 3*storeTime
	// lockPause and maxLockPause bound the time between attempts to take a lock of another replica.
	lockPause, maxLockPause = 20 * time.Millisecond, 200 * time.Millisecond
)

// shared keeps values in a store that replicas share.
type shared struct {
	store store.Store
	id    []byte  // marks the locks of this process
	files *folder // of the time before there was a store; nil for none
	now   func() time.Time
}

// sharedValue is the content of a value in the store.
type sharedValue struct {
	Saved time.Time       `json:"saved"`
	Value json.RawMessage `json:"value,omitempty"` // absent if it was removed
	// Refused is the digest of the removed value if its authorization server has refused it.
	Refused []byte `json:"refused,omitempty"`
}

func newShared(s store.Store, files *folder) *shared {
	return &shared{s, []byte(rand.Text()), files, time.Now}
}

func grantKey(name string) store.Key { return store.Key{Kind: kindGrant, Name: name} }

func digest(value []byte) []byte {
	sum := sha256.Sum256(value)
	return sum[:]
}

// awayError is the error of an operation of the store that replicas share.
func awayError(err error) error {
	if !errors.Is(err, store.ErrUnavailable) {
		return err // that of the context
	}
	e := failf("the store that the gateway shares with its replicas does not answer, and it has the grants; try again later").because(err)
	e.away = true
	return e
}

// get returns what the store has under a name, nil if there is nothing.
func (s *shared) get(ctx context.Context, name string) (*sharedValue, error) {
	all, err := s.store.Get(ctx, grantKey(name))
	if err != nil {
		return nil, awayError(err)
	}
	if all[0] == nil {
		return nil, nil
	}
	var v sharedValue
	return &v, decode(all[0], &v)
}

// load implements values.
func (s *shared) load(ctx context.Context, name string) ([]byte, error) {
	v, err := s.get(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return s.move(ctx, name)
	case v.Value != nil && s.now().Sub(v.Saved) > resealAfter:
		s.reseal(ctx, name)
	}
	return v.Value, s.discard(ctx, name)
}

// reseal stores a value anew, unless the store is away or somebody changes the value.
func (s *shared) reseal(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	key := store.Key{Kind: kindLock, Name: name}
	// The id is not that of this process, which may lock the name at the same time.
	if locked, err := s.store.PutNew(ctx, key, []byte(rand.Text()), 2*storeTime); err != nil || !locked {
		return
	}
	if v, err := s.get(ctx, name); err == nil && v != nil && v.Value != nil && s.now().Sub(v.Saved) > resealAfter {
		_ = s.save(ctx, name, v.Value)
	}
	_ = s.store.Delete(ctx, key)
}

// move moves a value from the folder to the store, and returns it. A value that was removed from the store
// does not come back, since the store remembers it.
func (s *shared) move(ctx context.Context, name string) ([]byte, error) {
	if s.files == nil {
		return nil, nil
	}
	if _, err := os.Stat(s.files.file(name)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	unlock, err := s.files.lock(ctx, name) // a process without a store may change it
	if err != nil {
		return nil, err
	}
	defer unlock(true)
	value, err := s.files.load(ctx, name)
	if err != nil || value == nil {
		return nil, err
	}
	moved, err := s.put(ctx, name, value, s.store.PutNew)
	if err != nil {
		return nil, err
	}
	if !moved { // another replica was faster
		v, err := s.get(ctx, name)
		if err != nil || v == nil {
			return nil, err
		}
		value = v.Value
	}
	return value, s.files.remove(ctx, name, nil)
}

// discard removes from the folder what the store has.
func (s *shared) discard(ctx context.Context, name string) error {
	if s.files == nil {
		return nil
	}
	return s.files.remove(ctx, name, nil)
}

// put puts a value into the store with one of its methods.
func (s *shared) put(ctx context.Context, name string, value []byte, put func(context.Context, store.Key, []byte, time.Duration) (bool, error)) (bool, error) {
	data, err := json.Marshal(sharedValue{Saved: s.now(), Value: value})
	if err != nil {
		return false, storeError(err)
	}
	if strings.HasPrefix(name, grantKind+"\x00") { // listed first, so that no grant is missing in the list
		switch ok, err := s.store.PutField(ctx, allGrants, field(name), []byte(name), maxGrants, grantTTL); {
		case err != nil:
			return false, awayError(err)
		case !ok:
			return false, storeError(fmt.Errorf("the store has %d grants", maxGrants))
		}
	}
	done, err := put(ctx, grantKey(name), data, grantTTL)
	if err != nil {
		return false, awayError(err)
	}
	return done, nil
}

// field returns the field of a name among the names of all grants. It hides the name.
func field(name string) string {
	return base64.RawURLEncoding.EncodeToString(digest([]byte(name))[:nameSize])
}

// save implements values.
func (s *shared) save(ctx context.Context, name string, value []byte) error {
	_, err := s.put(ctx, name, value, func(ctx context.Context, key store.Key, data []byte, ttl time.Duration) (bool, error) {
		return true, s.store.Put(ctx, key, data, ttl)
	})
	if err != nil {
		return err
	}
	return s.discard(ctx, name)
}

// replace implements values. If another replica has used old meanwhile, and its authorization server has
// refused it, the value is saved: it is newer.
func (s *shared) replace(ctx context.Context, name string, old, value []byte) error {
	v, err := s.get(ctx, name)
	if err != nil {
		return err
	}
	if v == nil || v.Value != nil && bytes.Equal(v.Value, old) || v.Value == nil && bytes.Equal(v.Refused, digest(old)) {
		return s.save(ctx, name, value)
	}
	return nil
}

// remove implements values.
func (s *shared) remove(ctx context.Context, name string, refused []byte) error {
	v := sharedValue{Saved: s.now()}
	if refused != nil {
		v.Refused = digest(refused)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return storeError(err)
	}
	if err := s.store.Put(ctx, grantKey(name), data, grantTTL); err != nil {
		return awayError(err)
	}
	_ = s.store.DeleteField(ctx, allGrants, field(name)) // the list skips names without a grant
	return s.discard(ctx, name)
}

// names implements values.
func (s *shared) names(ctx context.Context) ([]string, error) {
	fields, err := s.store.Fields(ctx, allGrants)
	if err != nil {
		return nil, awayError(err)
	}
	var names []string
	for _, name := range fields {
		names = append(names, string(name))
	}
	if s.files == nil {
		return names, nil
	}
	more, err := s.files.names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range more {
		if _, listed := fields[field(name)]; !listed {
			names = append(names, name)
		}
	}
	return names, nil
}

// tryLock reports whether this process has the lock of a name now. It may have it already, if it could not
// release it.
func (s *shared) tryLock(ctx context.Context, name string) (bool, error) {
	key := store.Key{Kind: kindLock, Name: name}
	locked, err := s.store.PutNew(ctx, key, s.id, lockLife)
	if err != nil || locked {
		return locked, awayError(err)
	}
	all, err := s.store.Get(ctx, key)
	if err != nil || !bytes.Equal(all[0], s.id) {
		return false, awayError(err)
	}
	return true, awayError(s.store.Put(ctx, key, s.id, lockLife))
}

// lock implements values.
func (s *shared) lock(ctx context.Context, name string) (func(bool), error) {
	for pause := lockPause; ; pause = min(2*pause, maxLockPause) {
		locked, err := s.tryLock(context.WithoutCancel(ctx), name) // a lock that came too late would keep all others waiting
		if err != nil {
			return nil, err
		}
		if locked {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	until := time.Now().Add(lockLife - storeTime)
	return func(saved bool) {
		if !saved || time.Now().After(until) {
			return // others wait until it ends, or have it already
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
		defer cancel()
		_ = s.store.Delete(ctx, store.Key{Kind: kindLock, Name: name}) // otherwise it ends by itself
	}, nil
}
