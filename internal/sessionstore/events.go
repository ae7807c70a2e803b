package sessionstore

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/store"
)

const (
	// maxStreamEntries and maxStreamBytes bound the copies of one stream: beyond them the oldest
	// are dropped. maxSessionBytes bounds those of one session: beyond it the newest are.
	maxStreamEntries = 1000
	maxStreamBytes   = 4 << 20
	maxSessionBytes  = 8 << 20
	// maxQueued bounds the bytes that one writer has not written yet.
	maxQueued = 8 << 20
	// maxBatch bounds the bytes that one access writes, unless a single entry is larger.
	maxBatch = 1 << 20

	// completeLife is how long the copies of a complete stream are kept: its client reconnects
	// within seconds, or not at all.
	completeLife = 5 * time.Minute
	// retryAfter is the pause of a writer after the store has not answered.
	retryAfter = 250 * time.Millisecond
	// sweepAfter is how often a writer forgets streams whose copies have ended.
	sweepAfter = 10 * time.Second

	writers = 8
)

// Events keeps copies of the events of streams in a store, for the replicas that continue when this one
// has ended. Run writes them in the background: the last ones before the end of a replica may be missing,
// and readers notice it.
type Events struct {
	store  store.Logs
	life   time.Duration
	budget *fairshare.Budget
	seed   maphash.Seed
	shards [writers]*writer
}

// NewEvents returns Events in a store, which is not written to before Run. Copies of a stream without
// events for idle are forgotten. All copies of this replica together are bounded by maxBytes, shared
// fairly by the clients.
func NewEvents(s store.Logs, idle time.Duration, maxBytes int64) *Events {
	e := &Events{store: s, life: max(idle, completeLife), budget: fairshare.New(maxBytes, 0), seed: maphash.MakeSeed()}
	for i := range e.shards {
		e.shards[i] = &writer{events: e, wake: make(chan struct{}, 1), sessions: make(map[string]*copiedSession)}
	}
	return e
}

func logKey(session, id string) store.Key { return store.Key{Kind: "events", Name: session + " " + id} }

// Run writes copies until ctx ends, and then those that are left, for as long as that takes at most.
func (e *Events) Run(ctx context.Context, left time.Duration) {
	var running sync.WaitGroup
	for _, w := range e.shards {
		running.Go(func() { w.run(ctx, left) })
	}
	running.Wait()
}

// Of returns where the events of a session's streams are copied to. They count for a share.
func (e *Events) Of(session string, share fairshare.Share) stream.Copies {
	return &sessionCopies{e, session, share}
}

type sessionCopies struct {
	events  *Events
	session string
	share   fairshare.Share
}

// Copy implements stream.Copies.
func (c *sessionCopies) Copy(id string, entry stream.Entry) {
	c.events.shards[maphash.String(c.events.seed, c.session)%writers].add(c, id, entry)
}

// Read returns the copies of a stream's events, in their order, none of them twice.
func (e *Events) Read(ctx context.Context, session, id string) ([]stream.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	kept, err := e.store.Read(ctx, logKey(session, id), "", 2*maxStreamEntries, 0)
	if err != nil {
		return nil, err
	}
	var out []stream.Entry
	last := 0
	for _, k := range kept {
		entry, ok := parseEntry(k.Data)
		if !ok || entry.MovedTo == "" && entry.Number <= last { // poisoned, or written twice
			continue
		}
		out = append(out, entry)
		last = max(last, entry.Number)
	}
	return out, nil
}

// Moved records that a stream of a replica that has ended continues as another stream.
func (e *Events) Moved(ctx context.Context, session, id string, m stream.Moved) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	entry := stream.Entry{Number: m.After, MovedTo: m.To}
	return e.store.Append(ctx, logKey(session, id), maxStreamEntries, e.life, appendEntry(nil, entry))
}
