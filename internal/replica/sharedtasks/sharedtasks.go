package sharedtasks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/store"
)

const (
	// maxOwn bounds the tasks of one principal in all profiles.
	maxOwn = 1024
	// maxID bounds the public ids that are taken from the store, in bytes.
	maxID = 8 << 10
	// life is how long the store has a task whose upstream keeps it for longer, or does not say how long.
	life = 7 * 24 * time.Hour
	// grace is how much longer than its upstream the store has a task: clocks differ.
	grace = time.Minute
	// timeout bounds each access to the store, for as long as a request waits for it.
	timeout = 500 * time.Millisecond
	// maxUnwritten bounds the changes that wait for the store. Further ones are lost: the task is then in
	// no list of another replica, or is asked for in vain.
	maxUnwritten = 4096
	// retryEvery is the time between two attempts to write what waits.
	retryEvery = time.Second
)

var errFull = errors.New("the principal has too many tasks")

// Book has the tasks of all replicas. Any number of goroutines may use it.
type Book struct {
	store   store.Fields
	replica string

	mu        sync.Mutex
	unwritten map[place]*entry // what the store does not have yet; nil for a removal
}

// place is where the store has a task.
type place struct{ identity, field string }

// entry is a task in the store.
type entry struct {
	ID      string `json:"id"`
	Profile string `json:"profile,omitempty"`
	Seq     int64  `json:"seq"`
	Expires int64  `json:"expires"` // in seconds since 1970
}

func (e *entry) live(now time.Time) bool { return now.Unix() < e.Expires }

// New returns the Book of the replica with this name.
func New(s store.Fields, replica string) *Book {
	return &Book{store: s, replica: replica, unwritten: make(map[place]*entry)}
}

// Replica is the name of this replica.
func (b *Book) Replica() string { return b.replica }

func keyOf(identity string) store.Key { return store.Key{Kind: "task", Name: identity} }

// placeOf returns the place of a task of a principal. Names of fields are not secret, so they are digests.
func placeOf(who *call.Principal, key string) place {
	sum := sha256.Sum256([]byte(key))
	return place{who.Identity(), base64.RawURLEncoding.EncodeToString(sum[:16])}
}

// Add adds a task of a principal, or replaces the one with the same key. seq orders the tasks of a
// principal; ttl is how long the upstream keeps the task, 0 if it does not say.
func (b *Book) Add(ctx context.Context, who *call.Principal, key, id string, seq int64, ttl time.Duration) {
	if ttl <= 0 || ttl > life {
		ttl = life
	}
	e := &entry{ID: id, Profile: who.Profile, Seq: seq, Expires: time.Now().Add(ttl + grace).Unix()}
	b.change(ctx, placeOf(who, key), e)
}

// Remove removes the task with this key.
func (b *Book) Remove(ctx context.Context, who *call.Principal, key string) {
	b.change(ctx, placeOf(who, key), nil)
}

// change writes a change now, or later.
func (b *Book) change(ctx context.Context, at place, e *entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // a client that has gone has still begun the task
	defer cancel()
	err := b.write(ctx, at, e)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || errors.Is(err, errFull) {
		delete(b.unwritten, at)
	} else if _, waits := b.unwritten[at]; waits || len(b.unwritten) < maxUnwritten {
		b.unwritten[at] = e
	}
}

// write writes a change. If the principal has too many tasks the oldest go.
func (b *Book) write(ctx context.Context, at place, e *entry) error {
	key := keyOf(at.identity)
	if e == nil {
		return b.store.DeleteField(ctx, key, at.field)
	}
	value, err := json.Marshal(e)
	if err != nil {
		return err
	}
	for range 2 {
		ok, err := b.store.PutField(ctx, key, at.field, value, maxOwn, life+grace)
		if err != nil || ok {
			return err
		}
		if err := b.makeRoom(ctx, at.identity); err != nil {
			return err
		}
	}
	return errFull
}

// makeRoom removes the expired tasks of a principal, or the oldest ones if none has expired.
func (b *Book) makeRoom(ctx context.Context, identity string) error {
	entries, err := b.entries(ctx, identity)
	if err != nil {
		return err
	}
	oldest := slices.SortedFunc(maps.Keys(entries), func(a, b string) int { return cmp.Compare(entries[a].Seq, entries[b].Seq) })
	now := time.Now()
	over := slices.DeleteFunc(slices.Clone(oldest), func(field string) bool { return entries[field].live(now) })
	if len(over) == 0 {
		over = oldest[:min(len(oldest), maxOwn/64)]
	}
	for _, field := range over {
		if err := b.store.DeleteField(ctx, keyOf(identity), field); err != nil {
			return err
		}
	}
	return nil
}

// entries returns what the store has of a principal. Entries that no gateway has written are ignored.
func (b *Book) entries(ctx context.Context, identity string) (map[string]*entry, error) {
	fields, err := b.store.Fields(ctx, keyOf(identity))
	if err != nil {
		return nil, err
	}
	out := make(map[string]*entry, len(fields))
	for field, value := range fields {
		var e entry
		if json.Unmarshal(value, &e) == nil && e.ID != "" && len(e.ID) <= maxID {
			out[field] = &e
		}
	}
	return out, nil
}

// Of returns the public ids of the tasks of a principal, in its profile, that come after a number, by their
// number. Several tasks have the same number only if they were begun at different replicas.
func (b *Book) Of(ctx context.Context, who *call.Principal, after int64) (seqs []int64, ids []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	identity := who.Identity()
	entries, err := b.entries(ctx, identity)
	if err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	for at, e := range b.unwritten {
		if at.identity != identity {
			continue
		}
		if delete(entries, at.field); e != nil {
			entries[at.field] = e
		}
	}
	b.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(entries, func(_ string, e *entry) bool {
		return e.Profile != who.Profile || e.Seq <= after || !e.live(now)
	})
	sorted := slices.SortedFunc(maps.Values(entries), func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.ID, b.ID))
	})
	for _, e := range sorted {
		seqs, ids = append(seqs, e.Seq), append(ids, e.ID)
	}
	return seqs, ids, nil
}

// Run writes what the store did not take, until ctx ends.
func (b *Book) Run(ctx context.Context) {
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.writeRest(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// writeRest writes what waits, until the store fails.
func (b *Book) writeRest(ctx context.Context) {
	b.mu.Lock()
	rest := maps.Clone(b.unwritten)
	b.mu.Unlock()
	for at, e := range rest {
		if e != nil && !e.live(time.Now()) {
			e = nil
		}
		bounded, cancel := context.WithTimeout(ctx, timeout)
		err := b.write(bounded, at, e)
		cancel()
		if err != nil && !errors.Is(err, errFull) {
			return
		}
		b.mu.Lock()
		if now, waits := b.unwritten[at]; waits && now == rest[at] { // it has not changed meanwhile
			delete(b.unwritten, at)
		}
		b.mu.Unlock()
	}
}
