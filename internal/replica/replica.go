package replica

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/store"
)

// Errors of conversations. Other errors wrap [store.ErrUnavailable] or are that of the context.
var (
	// ErrGone means that the other replica had ended before the request was sent.
	ErrGone = errors.New("the replica has ended")
	// ErrRefused means that the other replica did not handle the request.
	ErrRefused = errors.New("the replica has refused the request")
	// ErrEnding is ErrRefused by a replica that drains. It gives up what it holds.
	ErrEnding = fmt.Errorf("%w: %s", ErrRefused, reasonEnding)
	// ErrLost means that the other replica has ended, or that messages were lost, while the
	// request ran. Nobody knows how far it came.
	ErrLost = errors.New("the connection with the replica was lost")
	// ErrFull means that too many messages wait to be sent.
	ErrFull = errors.New("too many messages wait for the replica")
	// ErrTooLong means that a message is longer than MaxMessage.
	ErrTooLong = errors.New("the message is too long for another replica")
)

// reasonEnding is the reason for which a replica refuses requests while it drains.
const reasonEnding = "it ends"

// Failed is the error that the handler of a request has returned.
type Failed struct{ Text string }

// Error returns the text of the handler's error.
func (f *Failed) Error() string { return f.Text }

// Options configure Replicas.
type Options struct {
	Store store.Store
	// Name is the name of this replica. No other process has it, not even a later one.
	Name    string
	Logger  *zap.Logger
	Metrics *Metrics // nil for none
	// Beat is the time between two signs of life, 1.5 s by default. A replica that shows none for
	// more than three beats counts as ended.
	Beat time.Duration
	// MaxMessage bounds requests, replies and messages, 64 MiB by default.
	MaxMessage int
	// MaxConversations bounds the requests of others that run at the same time, 4096 by default.
	MaxConversations int
	// DeadAfter is how long another replica shows no sign of life until it counts as dead, 3 minutes by default. It counts as ended long before,
	// and nothing is passed to it any more, but a replica that was paused, or that lost the store alone, still has what it had.
	DeadAfter time.Duration
	// Dead is called when another replica is dead, in a goroutine, by each replica that notices it; nil for nobody. It may be called several
	// times for one replica, and is not called for one that has ended in order. The context ends with Run.
	Dead func(ctx context.Context, name string)
	// Forgotten is called when the store had lost this replica's sign of life, so that others may have taken this replica for dead; nil for
	// nobody. It must not block.
	Forgotten func()
}

// Bounds of what is kept for others.
const (
	maxQueued      = 4096     // frames that wait for one replica, without replies
	maxQueuedBytes = 64 << 20 // their bodies
	keepInbox      = 8192     // entries in the store
	keepNotes      = 4096
	maxInline      = 8 << 10 // longer bodies are separate values
	frameTTL       = time.Minute
	maxPeers       = 4096
	goodbye        = time.Second // for the last words
)

// Kinds of keys in the store.
const (
	kindAlive   = "replica"  // shows that a replica is alive
	kindMembers = "replicas" // fields: the names of all replicas
	kindInbox   = "inbox"
	kindNotes   = "notes"
	kindBody    = "message" // the body of a frame
)

// Replicas is this replica among all that share a store. All methods may be called concurrently, but
// Handle and OnNote only before Run.
type Replicas struct {
	o        Options
	log      *ratelog.Logger
	instance []byte // tells two processes with one name apart
	handlers map[string]Handler
	onNote   map[string]func(from string, note []byte)
	notes    chan []byte
	first    chan struct{}  // closed after the first beat
	running  sync.WaitGroup // senders and handlers
	life     context.Context
	end      context.CancelFunc

	mu       sync.Mutex
	draining bool          // no new requests of others
	drained  chan struct{} // closed when no request of others runs any more, nil if nobody waits
	stopped  bool          // nothing is sent any more
	joined   bool
	rejoined chan struct{} // closed when joined becomes true
	storeUp  bool
	lastUp   time.Time
	// since is when this replica last found the store again after it was away, or after it had lost this replica's
	// sign of life. Until others had the time to show themselves again too, their absence proves nothing.
	since time.Time
	alive map[string]bool // other replicas, as of the last beat
	peers map[string]*peer
	// silent has replicas that the store knows and that show no sign of life, since when this replica knows it.
	silent  map[string]time.Time
	calls   map[uint64]*Conversation // of this replica as the caller
	handled map[handledKey]*Conversation
	// dropped remembers what was received from peers that were dropped.
	dropped  map[string]droppedPeer
	nextID   uint64
	lastLink uint64
	cursors  map[store.Key]cursor
}

type handledKey struct {
	from string
	id   uint64
}

// New returns a replica that takes part from Run on.
func New(o Options) *Replicas {
	o.Beat = cmp.Or(o.Beat, 1500*time.Millisecond)
	o.DeadAfter = cmp.Or(o.DeadAfter, 3*time.Minute)
	o.MaxMessage = cmp.Or(o.MaxMessage, 64<<20)
	o.MaxConversations = cmp.Or(o.MaxConversations, 4096)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	r := &Replicas{
		o: o, log: ratelog.New(o.Logger), instance: []byte(rand.Text()),
		handlers: map[string]Handler{}, onNote: map[string]func(string, []byte){},
		notes: make(chan []byte, 1024), first: make(chan struct{}), rejoined: make(chan struct{}),
		storeUp: true,
		alive:   map[string]bool{}, peers: map[string]*peer{}, silent: map[string]time.Time{}, dropped: map[string]droppedPeer{}, cursors: map[store.Key]cursor{}, calls: map[uint64]*Conversation{}, handled: map[handledKey]*Conversation{},
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.o.Metrics.replicas.Set(1)
	return r
}

// Name returns the name of this replica.
func (r *Replicas) Name() string { return r.o.Name }

// Others returns the names of the other replicas that this one sees.
func (r *Replicas) Others() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.alive))
}

// Handle sets the handler of requests of a kind.
func (r *Replicas) Handle(kind string, h Handler) {
	r.handlers[kind] = h
	r.o.Metrics.begin(kind)
}

// OnNote sets the function that gets the notes of a kind. It is called by one goroutine at a time and
// must not block. A note may come twice.
func (r *Replicas) OnNote(kind string, f func(from string, note []byte)) { r.onNote[kind] = f }

// Run takes part until ctx ends. Then running conversations end with ErrLost, and the other replicas
// learn that this one has ended. It returns when all handlers have.
func (r *Replicas) Run(ctx context.Context) {
	var loops sync.WaitGroup
	r.o.Logger.Info("a replica has started", zap.String("replica", r.o.Name)) // lines of other replicas have this name
	r.beat(ctx)
	close(r.first)
	for _, loop := range []func(context.Context){r.beatLoop, r.inboxLoop, r.notesLoop, r.tellLoop} {
		loops.Go(func() { loop(ctx) })
	}
	loops.Wait()
	r.leave()
	r.end()
	r.running.Wait()
}

// Shown waits until Run has shown this replica to the others, or found that the store does not answer. The
// error is that of ctx.
func (r *Replicas) Shown(ctx context.Context) error {
	select {
	case <-r.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Drain refuses new requests of other replicas, and waits until those that run have ended, or ctx has.
func (r *Replicas) Drain(ctx context.Context) {
	r.mu.Lock()
	r.draining = true
	if len(r.handled) == 0 {
		r.mu.Unlock()
		return
	}
	if r.drained == nil {
		r.drained = make(chan struct{})
	}
	drained := r.drained
	r.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
}

// leave sends what waits to be sent, ends all conversations, and tells the other replicas.
func (r *Replicas) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	r.flush(ctx)
	r.mu.Lock()
	r.stopped = true
	byes := map[string][]byte{}
	for name, p := range r.peers {
		if r.talksWith(name) {
			bye := p.stamp(&frame{kind: frameBye, from: r.o.Name, at: position{p.out.link, p.out.number + 1}})
			byes[name] = bye.encode()
		}
		r.drop(p, lostTo(r.o.Name, "has ended"))
	}
	joined := r.joined
	r.mu.Unlock()
	if !joined {
		return
	}
	// Errors do not matter: others notice the end by themselves, only later.
	_ = r.o.Store.DeleteField(ctx, membersKey, r.o.Name)
	_ = r.o.Store.Delete(ctx, aliveKey(r.o.Name))
	_ = Post(ctx, r.o.Store, r.o.Name, topicEnded, nil)
	for name, bye := range byes {
		_ = r.o.Store.Append(ctx, inboxKey(name), keepInbox, frameTTL, bye)
	}
}

// flush waits until all frames are sent, or ctx ends.
func (r *Replicas) flush(ctx context.Context) {
	r.mu.Lock()
	r.draining = true
	var idle []chan struct{}
	for _, p := range r.peers {
		if p.sending {
			p.idle = make(chan struct{})
			idle = append(idle, p.idle)
		}
	}
	r.mu.Unlock()
	for _, ch := range idle {
		select {
		case <-ch:
		case <-ctx.Done():
			return
		}
	}
}

var membersKey, notesKey = store.Key{Kind: kindMembers}, store.Key{Kind: kindNotes}

func aliveKey(name string) store.Key { return store.Key{Kind: kindAlive, Name: name} }
func inboxKey(name string) store.Key { return store.Key{Kind: kindInbox, Name: name} }

// count counts what was lost or could not be used.
func (r *Replicas) count(reason string) { r.o.Metrics.lost.WithLabelValues(reason).Inc() }

// pause waits before a failed operation is tried again. It reports false when ctx has ended.
func pause(ctx context.Context, failures int) bool {
	t := time.NewTimer(min(50*time.Millisecond<<min(failures, 10), time.Second))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// lostTo returns ErrLost with its reason.
func lostTo(name, reason string) error { return fmt.Errorf("%w: %s %s", ErrLost, name, reason) }
