package sharedresults

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcpgateway/internal/results"
	"mcpgateway/internal/store"
)

const (
	// maxOwn bounds the results of one principal in the store.
	maxOwn = 512
	// putTime and readTime bound the accesses to the store in one call.
	putTime, readTime = 3 * time.Second, 5 * time.Second
	// maxReads bounds the results that are read from the store at the same time: each takes memory.
	maxReads = 4
	// retryEvery is the time between two attempts to put into the store what it does not have yet.
	retryEvery = time.Second
	// maxUnshared bounds the results that wait for the store. Further ones stay here alone.
	maxUnshared = 4096
)

// Values has the operations of a store that a Store needs.
type Values interface {
	store.Values
	store.Fields
}

// Options configure a Store.
type Options struct {
	Values  Values
	Local   *results.Memory
	Limits  results.Limits
	Metrics *Metrics
	// Unshared is called when a result is kept by this replica alone for now.
	Unshared func(error)
	// Troubled reports whether the store did not work now or just before. Another replica may then have a result which it
	// could not put into the store yet.
	Troubled func() bool
}

// Store is a results.Store of several replicas.
type Store struct {
	o     Options
	reads chan struct{}

	mu       sync.Mutex
	limits   results.Limits
	unshared map[string]results.Owner // by id: what the store does not have yet
	written  list.List                // of *written, the oldest first: what this replica has put into the store
	byID     map[string]*list.Element
	total    int64
}

// written is a result that this replica has put into the store.
type written struct {
	id      string
	owner   results.Owner
	size    int64
	bytes   int
	expires time.Time
}

// New returns a Store.
func New(o Options) *Store {
	return &Store{o: o, reads: make(chan struct{}, maxReads), limits: o.Limits, unshared: make(map[string]results.Owner), byID: make(map[string]*list.Element)}
}

// Put implements [results.Store]. If the store does not take the result, this replica keeps it alone
// until the store does.
func (s *Store) Put(ctx context.Context, owner results.Owner, d *results.Document) (string, error) {
	limits := s.limitsNow()
	expires := time.Now().Add(limits.TTL)
	id := s.o.Local.Find(owner, d)
	known := id != ""
	if !known {
		id = results.NewID()
	}
	if err := s.o.Local.PutAs(owner, id, d, expires); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, putTime)
	defer cancel()
	shared, err := s.share(ctx, owner, id, d, expires, limits, known)
	if err != nil {
		s.keepLocal(id, owner, err)
		return id, nil
	}
	if shared != id {
		s.o.Local.Remove(owner, id)
		id = shared
		return id, s.o.Local.PutAs(owner, id, d, expires)
	}
	return id, nil
}

func (s *Store) limitsNow() results.Limits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits
}

// keepLocal notes that the store does not have a result yet.
func (s *Store) keepLocal(id string, owner results.Owner, err error) {
	s.mu.Lock()
	if len(s.unshared) < maxUnshared {
		s.unshared[id] = owner
	}
	s.o.Metrics.unshared.Set(float64(len(s.unshared)))
	s.mu.Unlock()
	s.o.Unshared(err)
}

// share puts a result into the store, and returns the id that it has there. It is another one if the
// principal keeps an equal result, unless a client knows the id already.
func (s *Store) share(ctx context.Context, owner results.Owner, id string, d *results.Document, expires time.Time, limits results.Limits, known bool) (string, error) {
	encoded := d.Append(nil)
	own := field{Profile: owner.Profile, Expires: expires.Unix() + 1, Size: d.Size(), Bytes: len(encoded), Sum: sum(encoded)}
	ttl := max(time.Until(expires), time.Second)
	// The result is in the index before others are counted, so that several replicas at the same time
	// do not exceed the bound.
	if err := s.claim(ctx, owner.Identity, id, own, ttl); err != nil {
		return "", err
	}
	index, err := s.index(ctx, owner.Identity)
	if err != nil {
		return "", err
	}
	if equal := oldestEqual(index, own); equal != id && equal != "" && !known {
		if err := s.o.Values.DeleteField(ctx, indexKey(owner.Identity), id); err != nil {
			return "", err
		}
		delete(index, id)
		id = equal
		if err := s.claim(ctx, owner.Identity, id, own, ttl); err != nil {
			return "", err
		}
	}
	index[id] = own
	if err := s.makeRoom(ctx, owner.Identity, index, id, limits.PerOwner); err != nil {
		return "", err
	}
	h := header{Identity: owner.Identity, Profile: owner.Profile, Expires: own.Expires, Size: len(encoded), Sum: own.Sum}
	for i, key := range valueKeys(id, len(encoded)) {
		value := encoded[i*maxValue : min((i+1)*maxValue, len(encoded))]
		if i == 0 {
			value = first(h, encoded)
		}
		if err := s.o.Values.Put(ctx, key, value, ttl); err != nil {
			return "", err
		}
	}
	return id, s.count(ctx, &written{id, owner, own.Size, len(encoded), expires}, limits.Total)
}

// claim adds a result to the index of a principal. If the index is full, older results go.
func (s *Store) claim(ctx context.Context, identity, id string, own field, ttl time.Duration) error {
	value, err := json.Marshal(own)
	if err != nil {
		return err
	}
	for range 2 {
		ok, err := s.o.Values.PutField(ctx, indexKey(identity), id, value, maxOwn, ttl)
		if err != nil || ok {
			return err
		}
		index, err := s.index(ctx, identity)
		if err != nil {
			return err
		}
		for _, oldest := range oldestFirst(index)[:min(len(index), maxOwn/8)] {
			if err := s.drop(ctx, identity, oldest, index[oldest].Bytes); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the principal keeps %d results", maxOwn)
}

// index returns the results of a principal by their id. Expired ones are among them; those that no
// gateway has written are ignored.
func (s *Store) index(ctx context.Context, identity string) (map[string]field, error) {
	fields, err := s.o.Values.Fields(ctx, indexKey(identity))
	if err != nil {
		return nil, err
	}
	index := make(map[string]field, len(fields))
	for id, value := range fields {
		var f field
		if isID(id) && json.Unmarshal(value, &f) == nil && f.Size >= 0 && f.Bytes >= 0 {
			index[id] = f
		}
	}
	return index, nil
}

// oldestFirst returns the ids of an index in the order in which they expire.
func oldestFirst(index map[string]field) []string {
	ids := make([]string, 0, len(index))
	for id := range index {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(index[a].Expires, index[b].Expires), cmp.Compare(a, b))
	})
	return ids
}

// oldestEqual returns the oldest result that is equal and has not expired, "" for none.
func oldestEqual(index map[string]field, own field) string {
	now := time.Now().Unix()
	for _, id := range oldestFirst(index) {
		if f := index[id]; f.Profile == own.Profile && f.Expires > now && bytes.Equal(f.Sum, own.Sum) {
			return id
		}
	}
	return ""
}

// makeRoom removes expired results of a principal, and the oldest ones until all others have room
// beside the one with this id.
func (s *Store) makeRoom(ctx context.Context, identity string, index map[string]field, id string, limit int64) error {
	total, now := int64(0), time.Now().Unix()
	for _, f := range index {
		total += f.Size
	}
	for _, old := range oldestFirst(index) {
		if old == id || total <= limit && index[old].Expires > now {
			continue
		}
		if err := s.drop(ctx, identity, old, index[old].Bytes); err != nil {
			return err
		}
		if total -= index[old].Size; index[old].Expires > now {
			s.o.Metrics.evicted.Inc()
		}
	}
	return nil
}

// drop removes a result from the store.
func (s *Store) drop(ctx context.Context, identity, id string, size int) error {
	if err := s.o.Values.Delete(ctx, valueKeys(id, size)...); err != nil {
		return err
	}
	return s.o.Values.DeleteField(ctx, indexKey(identity), id)
}

// count notes that this replica has put a result into the store. It removes the oldest ones that it has
// put there if they are too many together.
func (s *Store) count(ctx context.Context, w *written, limit int64) error {
	var over []*written
	now := time.Now()
	s.mu.Lock()
	s.forget(s.byID[w.id])
	s.byID[w.id] = s.written.PushBack(w)
	s.total += w.size
	for e := s.written.Front(); e != s.written.Back(); e = s.written.Front() {
		oldest := e.Value.(*written)
		if live := now.Before(oldest.expires); live && s.total <= limit {
			break
		} else if live {
			over = append(over, oldest)
		}
		s.forget(e)
	}
	s.mu.Unlock()
	for _, old := range over {
		s.o.Metrics.evicted.Inc()
		if err := s.drop(ctx, old.owner.Identity, old.id, old.bytes); err != nil {
			return err // it expires by itself
		}
	}
	return nil
}

// forget removes an entry of written, which may be nil. The caller holds mu.
func (s *Store) forget(e *list.Element) {
	if e != nil {
		w := s.written.Remove(e).(*written)
		delete(s.byID, w.id)
		s.total -= w.size
	}
}
