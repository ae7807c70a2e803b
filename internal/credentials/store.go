package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"mcpgateway/internal/store"
	"mcpgateway/internal/ttlcache"
)

// StoreOptions say where a [Store] keeps what it stores.
type StoreOptions struct {
	// Folder is the state folder of the gateway, which is created when something is first stored; ""
	// for none.
	Folder string
	// Shared is the store that replicas share, nil for none. It must seal its values. Grants in the folder
	// move to it.
	Shared store.Store
	// Changed is called when a principal has given a grant, or somebody has removed one, with a name for
	// [Source.GrantChanged] of the other replicas. It may be nil.
	Changed func(ctx context.Context, name string)
	// Removed is called when a grant was removed because it is of no use any more, with the subject of its principal, which
	// is that of [call.Local] for the user of this machine, and the reason for the log. It may be nil.
	Removed func(upstream, subject, why string)
	// Unsaved is called when a renewed grant cannot be stored. It is used from memory, and stored by
	// [Store.Run] or at its next renewal. It may be nil.
	Unsaved func(err error)
}

// Store stores grants and registrations, encrypted: in a store that replicas share, else in a folder,
// else in memory. It is safe for concurrent use.
type Store struct {
	values  values
	changed func(ctx context.Context, name string)
	removed func(upstream, subject, why string)
	failed  func(err error)

	mu      sync.Mutex
	locks   map[string]chan struct{}
	unsaved map[string]unsavedValue
	dirty   chan struct{}                      // capacity 1: unsaved has something new
	noted   *ttlcache.Cache[string, time.Time] // the uses of grants that this process has recorded: when each grant was given
}

// unsavedValue is a renewed value that could not be stored. It follows old, which is still stored.
type unsavedValue struct{ old, value []byte }

// values keeps values under names for a [Store]. Their errors are [*Error], or those of the context.
type values interface {
	// load returns a value, nil if there is none.
	load(ctx context.Context, name string) ([]byte, error)
	save(ctx context.Context, name string, value []byte) error
	// replace saves a value if nothing was stored or removed since old, which it follows.
	replace(ctx context.Context, name string, old, value []byte) error
	// remove removes a value. refused is the value if its authorization server has refused it, nil if
	// somebody removes it.
	remove(ctx context.Context, name string, refused []byte) error
	// names returns the names of the stored grants, and may return others.
	names(ctx context.Context) ([]string, error)
	// lock waits for the lock of a name among all processes. unlock may leave it locked for a while if
	// the last change is not saved.
	lock(ctx context.Context, name string) (unlock func(saved bool), err error)
}

// storeTime bounds how long a renewed grant may take into the store, apart from the request for it.
const storeTime = 5 * time.Second

// NewStore returns a store in a folder, "" means in memory.
func NewStore(folder string) *Store { return OpenStore(StoreOptions{Folder: folder}) }

// OpenStore returns a store. It reads nothing yet.
func OpenStore(o StoreOptions) *Store {
	s := &Store{changed: o.Changed, removed: o.Removed, failed: o.Unsaved, locks: make(map[string]chan struct{}), unsaved: make(map[string]unsavedValue), dirty: make(chan struct{}, 1), noted: ttlcache.New[string, time.Time](maxCached)}
	if s.changed == nil {
		s.changed = func(context.Context, string) {}
	}
	if s.removed == nil {
		s.removed = func(string, string, string) {}
	}
	if s.failed == nil {
		s.failed = func(error) {}
	}
	var files *folder
	if o.Folder != "" {
		files = &folder{dir: o.Folder}
	}
	switch {
	case o.Shared != nil:
		s.values = newShared(o.Shared, files)
	case files != nil:
		s.values = files
	default:
		s.values = &memory{all: make(map[string][]byte)}
	}
	return s
}

// read returns a stored value, nil if there is none.
func (s *Store) read(ctx context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	kept, ok := s.unsaved[name]
	s.mu.Unlock()
	if ok {
		return kept.value, nil
	}
	return s.values.load(ctx, name)
}

// takes returns an error if no value can be stored now.
func (s *Store) takes(ctx context.Context, name string) error {
	if _, err := s.read(ctx, name); IsAway(err) {
		return err
	}
	if files, ok := s.values.(*folder); ok {
		return files.takes()
	}
	return nil
}

// load reads a stored value, and reports whether there is one.
func (s *Store) load(ctx context.Context, name string, into any) (bool, error) {
	value, err := s.read(ctx, name)
	if err != nil || value == nil {
		return false, err
	}
	return true, decode(value, into)
}

// save stores a value.
func (s *Store) save(ctx context.Context, name string, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return storeError(err)
	}
	if err := s.values.save(ctx, name, value); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unsaved, name)
	return nil
}

// renew stores the value that follows old. The value is never lost: while it cannot be stored, it is kept in
// memory. The caller holds its lock.
func (s *Store) renew(ctx context.Context, name string, old []byte, v any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	failed := s.save(ctx, name, v)
	if failed == nil {
		return nil
	}
	value, err := json.Marshal(v)
	if err != nil {
		return storeError(err)
	}
	s.mu.Lock()
	if before, ok := s.unsaved[name]; ok {
		old = before.old
	}
	s.unsaved[name] = unsavedValue{old, value}
	s.mu.Unlock()
	select {
	case s.dirty <- struct{}{}:
	default:
	}
	s.failed(failed)
	return nil
}

// restore stores a value that could not be stored before. The caller holds its lock.
func (s *Store) restore(ctx context.Context, name string) error {
	s.mu.Lock()
	kept, ok := s.unsaved[name]
	s.mu.Unlock()
	if !ok {
		return nil
	}
	if err := s.values.replace(ctx, name, kept.old, kept.value); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unsaved, name)
	return nil
}

// remove removes a stored value, see values. The caller holds its lock.
func (s *Store) remove(ctx context.Context, name string, refused []byte) error {
	err := s.values.remove(ctx, name, refused)
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.unsaved, name)
	s.mu.Unlock()
	s.removeUse(ctx, name)
	if of := refusalName(name); of != "" {
		_ = s.values.remove(ctx, of, nil) // it is read only while there is no grant
	}
	return nil
}

// names returns the names of all stored grants.
func (s *Store) names(ctx context.Context) ([]string, error) { return s.values.names(ctx) }

const (
	// saveAgain is the pause after which Run tries again to store what could not be stored.
	saveAgain = 500 * time.Millisecond
	// lastSave bounds how long Run tries after the end of its context.
	lastSave = time.Second
)

// Run stores renewed grants that could not be stored when they were renewed, until ctx ends.
func (s *Store) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-s.dirty:
		case <-ctx.Done():
		}
		for s.saveUnsaved(ctx) > 0 && ctx.Err() == nil {
			select {
			case <-time.After(saveAgain):
			case <-ctx.Done():
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	s.saveUnsaved(last)
}

// saveUnsaved tries once to store everything that could not be stored. It returns how much is left.
func (s *Store) saveUnsaved(ctx context.Context) int {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.unsaved))
	s.mu.Unlock()
	for _, name := range names {
		if unlock, err := s.lock(ctx, name); err == nil { // which stores it
			unlock()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unsaved)
}

// lock gives the caller exclusive write access to a stored value; readers are not
// blocked. A refresh token may be used once, and an authorization server that sees it
// twice may revoke the grant. The lock holds for all processes that share what is stored. A renewed
// value that could not be stored before is stored now, if that is possible. The error is that of ctx, or
// an [*Error].
func (s *Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		s.mu.Lock()
		held, taken := s.locks[name]
		if !taken {
			held = make(chan struct{})
			s.locks[name] = held
		}
		s.mu.Unlock()
		if !taken {
			break
		}
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	releaseLocal := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.locks[name])
		delete(s.locks, name)
	}
	release, err := s.values.lock(ctx, name)
	if err != nil {
		releaseLocal()
		return nil, err
	}
	_ = s.restore(ctx, name) // otherwise the next time
	return func() {
		s.mu.Lock()
		_, unsaved := s.unsaved[name]
		s.mu.Unlock()
		release(!unsaved)
		releaseLocal()
	}, nil
}

func decode(plain []byte, into any) error {
	if err := json.Unmarshal(plain, into); err != nil {
		return storeError(err)
	}
	return nil
}

func storeError(err error) *Error {
	return failf("the gateway cannot read or store grants").because(err)
}

// memory keeps values in the memory of the process.
type memory struct {
	mu  sync.Mutex
	all map[string][]byte
}

// load implements values.
func (m *memory) load(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[name], nil
}

// save implements values.
func (m *memory) save(_ context.Context, name string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[name] = value
	return nil
}

// replace implements values.
func (m *memory) replace(_ context.Context, name string, old, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes.Equal(m.all[name], old) {
		m.all[name] = value
	}
	return nil
}

// remove implements values.
func (m *memory) remove(_ context.Context, name string, _ []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, name)
	return nil
}

// names implements values.
func (m *memory) names(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.all)), nil
}

// lock implements values. No other process has this memory.
func (m *memory) lock(context.Context, string) (func(bool), error) { return func(bool) {}, nil }
