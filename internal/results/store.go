package results

import (
	"bytes"
	"container/list"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"
)

// Owner is the principal and profile that may read a document.
type Owner struct {
	// Identity identifies the principal in all profiles. The bound on the results of a principal is
	// for all profiles together.
	Identity string
	// Profile is the name of the profile.
	Profile string
}

// Store keeps documents for their owners. Its methods may be called concurrently.
type Store interface {
	// Put keeps a document and returns its id, which nobody can guess. An equal document of the
	// same owner keeps the id that it has. The error is ErrTooLarge, ErrUnread or that of the
	// store.
	Put(ctx context.Context, owner Owner, d *Document) (id string, err error)
	// Get returns a document. The error is ErrUnknown for an id that does not exist, has expired or
	// belongs to another owner: callers cannot distinguish these cases. Otherwise it is the error of
	// the store.
	Get(ctx context.Context, owner Owner, id string) (*Document, error)
}

// Errors of a [Store].
var (
	ErrTooLarge = errors.New("the result is larger than what one principal may keep")
	ErrUnknown  = errors.New("there is no such result")
	ErrUnread   = errors.New("the profile reads no results any more")
)

// Limits bound what a [Memory] keeps.
type Limits struct {
	TTL      time.Duration // how long a document is kept
	Total    int64         // bytes for all owners
	PerOwner int64         // bytes for one principal, in all profiles
}

// Memory is a Store in the memory of this process. If there is no room, the oldest documents go:
// those of the owner who keeps one if that owner holds more than what is free, else the oldest
// of all. Close ends it.
type Memory struct {
	metrics *Metrics
	seed    maphash.Seed

	mu     sync.Mutex
	limits Limits
	keep   func(profile string) bool // that was given to Retain, or nil
	owners map[string]*holdings      // by identity
	all    list.List                 // of *kept, the oldest first
	total  int64
	timer  *time.Timer // runs when the oldest expires; nil if nothing is kept
}

// holdings are the documents of one principal, in all profiles.
type holdings struct {
	docs   map[string]*kept // by id
	byHash map[uint64]*kept // the newest of those with a hash
	all    list.List        // of *kept, the oldest first
	total  int64
}

// kept is a kept document.
type kept struct {
	*Document
	id      string
	owner   Owner
	hash    uint64
	size    int64
	expires time.Time
	inAll   *list.Element
	inOwner *list.Element
}

// NewMemory returns an empty Memory. metrics may be nil.
func NewMemory(limits Limits, metrics *Metrics) *Memory {
	if metrics == nil {
		metrics = NewMetrics()
	}
	return &Memory{limits: limits, metrics: metrics, seed: maphash.MakeSeed(), owners: map[string]*holdings{}}
}

// Put implements Store.
func (m *Memory) Put(_ context.Context, owner Owner, d *Document) (string, error) {
	k := m.newKept(owner, d)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keep != nil && !m.keep(owner.Profile) { // the call began before a reload
		return "", ErrUnread
	}
	k.expires = time.Now().Add(m.limits.TTL)
	if same := m.same(k); same != nil {
		m.renew(same, k.expires)
		return same.id, nil
	}
	k.id = NewID()
	if err := m.add(k); err != nil {
		return "", err
	}
	return k.id, nil
}

// PutAs keeps a document of another store under the id that it has there, until it expires there. The
// error is one of Put.
func (m *Memory) PutAs(owner Owner, id string, d *Document, expires time.Time) error {
	k := m.newKept(owner, d)
	k.id, k.expires = id, expires
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keep != nil && !m.keep(owner.Profile) {
		return ErrUnread
	}
	if last := time.Now().Add(m.limits.TTL); k.expires.After(last) {
		k.expires = last
	}
	if h := m.owners[owner.Identity]; h != nil && h.docs[id] != nil {
		m.remove(h.docs[id])
	}
	err := m.add(k)
	if first := m.all.Front(); m.timer != nil && first == k.inAll && first != nil {
		m.timer.Stop()
		m.timer = nil // it waits for one that expires later
	}
	m.changed()
	return err
}

// Find returns the id of an equal document of the owner, "" for none.
func (m *Memory) Find(owner Owner, d *Document) string {
	k := m.newKept(owner, d)
	m.mu.Lock()
	defer m.mu.Unlock()
	if same := m.same(k); same != nil && time.Now().Before(same.expires) {
		return same.id
	}
	return ""
}

// Held returns a document and when it expires, nil if it is not kept.
func (m *Memory) Held(owner Owner, id string) (*Document, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.find(owner, id); k != nil {
		return k.Document, k.expires
	}
	return nil, time.Time{}
}

// Remove removes a document.
func (m *Memory) Remove(owner Owner, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.find(owner, id); k != nil {
		m.remove(k)
		m.changed()
	}
}

func (m *Memory) newKept(owner Owner, d *Document) *kept {
	return &kept{Document: d, owner: owner, hash: maphash.Bytes(m.seed, d.Text) ^ maphash.String(m.seed, owner.Profile), size: d.Size()}
}

// add makes room for a document and adds it. The caller holds mu.
func (m *Memory) add(k *kept) error {
	if k.size > min(m.limits.PerOwner, m.limits.Total) {
		return ErrTooLarge
	}
	m.makeRoom(k.owner.Identity, k.size)
	h := m.owners[k.owner.Identity]
	if h == nil {
		h = &holdings{docs: map[string]*kept{}, byHash: map[uint64]*kept{}}
		m.owners[k.owner.Identity] = h
	}
	h.docs[k.id], h.byHash[k.hash] = k, k
	k.inAll, k.inOwner = insert(&m.all, k), insert(&h.all, k)
	h.total += k.size
	m.total += k.size
	m.changed()
	return nil
}

// renew makes a document expire later than all others, so that both lists stay sorted by expiry.
func (m *Memory) renew(k *kept, expires time.Time) {
	k.expires = expires
	m.all.MoveToBack(k.inAll)
	m.owners[k.owner.Identity].all.MoveToBack(k.inOwner)
}

// insert adds a document to a list that is sorted by expiry.
func insert(l *list.List, k *kept) *list.Element {
	for e := l.Back(); e != nil; e = e.Prev() {
		if !e.Value.(*kept).expires.After(k.expires) {
			return l.InsertAfter(k, e)
		}
	}
	return l.PushFront(k)
}

// same returns an equal document that the owner keeps, nil for none.
func (m *Memory) same(k *kept) *kept {
	h := m.owners[k.owner.Identity]
	if h == nil {
		return nil
	}
	if other := h.byHash[k.hash]; other != nil && other.owner == k.owner && other.equals(k.Document) {
		return other
	}
	return nil
}

// equals reports whether two documents are the same.
func (d *Document) equals(other *Document) bool {
	return slices.Equal(d.Items, other.Items) && bytes.Equal(d.Text, other.Text) && slices.EqualFunc(d.Parts, other.Parts, func(a, b Part) bool {
		return a.Kind == b.Kind && a.URI == b.URI && a.MIMEType == b.MIMEType && a.Start == b.Start && a.End == b.End && bytes.Equal(a.Blob, b.Blob)
	})
}

// makeRoom removes documents until there is room for n bytes of an owner.
func (m *Memory) makeRoom(owner string, n int64) {
	for h := m.owners[owner]; h != nil && h.total > 0 && h.total+n > m.limits.PerOwner; {
		m.evict(h.all.Front())
	}
	for m.total > 0 && m.total+n > m.limits.Total {
		if h := m.owners[owner]; h != nil && h.total > m.limits.Total-m.total {
			m.evict(h.all.Front())
		} else {
			m.evict(m.all.Front())
		}
	}
}

func (m *Memory) evict(e *list.Element) {
	m.remove(e.Value.(*kept))
	m.metrics.evicted.Inc()
}

// remove removes a document.
func (m *Memory) remove(k *kept) {
	h := m.owners[k.owner.Identity]
	delete(h.docs, k.id)
	if h.byHash[k.hash] == k {
		delete(h.byHash, k.hash)
	}
	m.all.Remove(k.inAll)
	h.all.Remove(k.inOwner)
	h.total -= k.size
	m.total -= k.size
	if len(h.docs) == 0 {
		delete(m.owners, k.owner.Identity)
	}
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, owner Owner, id string) (*Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.find(owner, id); k != nil {
		return k.Document, nil
	}
	return nil, ErrUnknown
}

// find returns a document of the owner that has not expired, nil for none. The caller holds mu.
func (m *Memory) find(owner Owner, id string) *kept {
	h := m.owners[owner.Identity]
	if h == nil {
		return nil
	}
	if k := h.docs[id]; k != nil && k.owner == owner && time.Now().Before(k.expires) {
		return k
	}
	return nil
}

// SetLimits changes the limits. Documents that are kept expire when they would have, or earlier
// if the time to live is shorter now.
func (m *Memory) SetLimits(l Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l == m.limits {
		return
	}
	if l.TTL < m.limits.TTL {
		sooner := l.TTL - m.limits.TTL
		for e := m.all.Front(); e != nil; e = e.Next() {
			k := e.Value.(*kept)
			k.expires = k.expires.Add(sooner)
		}
	}
	m.limits = l
	m.expire()
	for _, h := range m.owners {
		for h.total > l.PerOwner {
			m.evict(h.all.Front())
		}
	}
	m.makeRoom("", 0)
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil // the first may expire sooner
	}
	m.changed()
}

// Retain removes the documents of all profiles but those that keep reports, and keeps no new ones of
// the others: nobody could read them any more. keep may be called until the next Retain,
// concurrently.
func (m *Memory) Retain(keep func(profile string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep = keep
	for e := m.all.Front(); e != nil; {
		k := e.Value.(*kept)
		e = e.Next()
		if !keep(k.owner.Profile) {
			m.remove(k)
		}
	}
	m.changed()
}

// expire removes the documents whose time is over.
func (m *Memory) expire() {
	now := time.Now()
	for e := m.all.Front(); e != nil && !now.Before(e.Value.(*kept).expires); e = m.all.Front() {
		m.remove(e.Value.(*kept))
	}
}

// changed sets the timer and the metrics to what is kept.
func (m *Memory) changed() {
	m.metrics.kept.Set(float64(m.all.Len()))
	m.metrics.bytes.Set(float64(m.total))
	switch first := m.all.Front(); {
	case first == nil && m.timer != nil:
		m.timer.Stop()
		m.timer = nil
	case first != nil && m.timer == nil:
		m.timer = time.AfterFunc(time.Until(first.Value.(*kept).expires), m.tick)
	}
}

// tick removes what has expired, and waits for the next document to expire.
func (m *Memory) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timer = nil
	m.expire()
	m.changed()
}

// Close removes all documents and keeps no new ones.
func (m *Memory) Close() { m.Retain(func(string) bool { return false }) }

// NewID returns an id that nobody can guess, in characters that no reader of URIs changes.
func NewID() string {
	var b [20]byte
	rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
