package opensessions

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/store"
)

// Session is a session that is open at a server.
type Session struct {
	Upstream string `json:"upstream"`
	URL      string `json:"url"` // without secrets
	ID       string `json:"id"`
	Revision string `json:"revision"`
}

// The numbers of a Book.
const (
	// TTL is how long the store remembers sessions without their replica. After that the servers end them by themselves.
	TTL         = 10 * time.Minute
	maxSessions = 10_000           // of one replica; the store remembers no more
	endings     = 8                // at the same time
	lastWrites  = time.Second      // when the gateway stops
	claimTTL    = 5 * time.Minute  // of the claim of a replica that dies while it ends the sessions of another one
	retryAfter  = 10 * time.Second // after the store did not take a change
)

// Book has the open sessions of one replica. Opened and Closed do not block; all methods may be called concurrently.
type Book struct {
	store   store.Store
	replica string
	changed chan struct{}

	mu    sync.Mutex
	open  map[string]Session // by their field
	dirty map[string]bool    // fields that the store does not have as they are
}

// New returns the book of a replica.
func New(s store.Store, replica string) *Book {
	return &Book{store: s, replica: replica, changed: make(chan struct{}, 1), open: map[string]Session{}, dirty: map[string]bool{}}
}

func sessionsOf(replica string) store.Key { return store.Key{Kind: "open-sessions", Name: replica} }

// field names a session among those of a replica. Ids are secrets, and names of fields are not.
func field(s Session) string {
	sum := sha256.Sum256([]byte(s.Upstream + "\x00" + s.ID))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Opened notes that a session is open.
func (b *Book) Opened(s Session) {
	b.change(s, func(f string) {
		if len(b.open) < maxSessions {
			b.open[f] = s
		}
	})
}

// Closed notes that a session has ended.
func (b *Book) Closed(s Session) { b.change(s, func(f string) { delete(b.open, f) }) }

func (b *Book) change(s Session, do func(field string)) {
	f := field(s)
	b.mu.Lock()
	do(f)
	b.dirty[f] = true
	b.mu.Unlock()
	b.wake()
}

// wake has Run write what has changed.
func (b *Book) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// Rewrite has all open sessions written again, because the store may have lost them, or another replica has taken this one for dead.
func (b *Book) Rewrite() {
	b.mu.Lock()
	for f := range b.open {
		b.dirty[f] = true
	}
	b.mu.Unlock()
	b.wake()
}

// Clear removes the book from the store. It is called after Run, when this replica has ended its sessions itself. If the store does not answer, the
// book ends by itself.
func (b *Book) Clear() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWrites)
	defer cancel()
	_ = b.store.Delete(ctx, sessionsOf(b.replica))
}

// Run writes what changes to the store, and all again now and then, until ctx ends. The sessions that are still open then stay in the store until
// Clear.
func (b *Book) Run(ctx context.Context) {
	renew := time.NewTicker(TTL / 3)
	defer renew.Stop()
	for {
		var again <-chan time.Time
		if !b.write(ctx) {
			again = time.After(retryAfter)
		}
		select {
		case <-b.changed:
		case <-again:
		case <-renew.C:
			b.Rewrite()
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
			defer cancel()
			b.write(last)
			return
		}
	}
}

// write writes what has changed. It reports false if the store did not take it all.
func (b *Book) write(ctx context.Context) bool {
	b.mu.Lock()
	changes := make(map[string]*Session, len(b.dirty))
	for f := range b.dirty {
		changes[f] = nil
		if s, ok := b.open[f]; ok {
			changes[f] = &s
		}
	}
	clear(b.dirty)
	b.mu.Unlock()
	for f, s := range changes {
		if err := b.writeOne(ctx, f, s); err != nil {
			b.mu.Lock()
			for f := range changes {
				b.dirty[f] = true
			}
			b.mu.Unlock()
			return false
		}
		delete(changes, f)
	}
	return true
}

func (b *Book) writeOne(ctx context.Context, f string, s *Session) error {
	if s == nil {
		return b.store.DeleteField(ctx, sessionsOf(b.replica), f)
	}
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = b.store.PutField(ctx, sessionsOf(b.replica), f, value, maxSessions, TTL)
	return err
}

// EndAll ends the sessions of a replica that has died. Of several replicas that call it at once, one does it. Only what it has ended leaves the book:
// if the replica is alive after all, it goes on with that. EndAll returns how many sessions end was called for.
func (b *Book) EndAll(ctx context.Context, dead string, end func(ctx context.Context, s Session)) (int, error) {
	key, claim := sessionsOf(dead), store.Key{Kind: "open-sessions-end", Name: dead}
	if fields, err := b.store.Fields(ctx, key); err != nil || len(fields) == 0 {
		return 0, err
	}
	first, err := b.store.PutNew(ctx, claim, []byte(b.replica), claimTTL)
	if err != nil || !first {
		return 0, err
	}
	defer func() { _ = b.store.Delete(context.WithoutCancel(ctx), claim) }() // the replica may live, open others and die
	fields, err := b.store.Fields(ctx, key)                                  // another replica may have just ended them
	if err != nil {
		return 0, err
	}
	n := 0
	var group errgroup.Group
	group.SetLimit(endings)
	for field, value := range fields {
		if ctx.Err() != nil {
			break
		}
		var s Session
		isSession := json.Unmarshal(value, &s) == nil
		if isSession {
			n++
		}
		group.Go(func() error {
			if isSession {
				end(ctx, s)
			}
			return b.store.DeleteField(ctx, key, field)
		})
	}
	return n, group.Wait()
}
