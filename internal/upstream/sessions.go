package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

// Sharing says who shares a session with an upstream.
type Sharing uint8

const (
	// Shared is one session for everybody. Over streamable HTTP, where sessions
	// are cheap, it is one for all legacy clients that can do the same, so that the
	// server learns what that is.
	Shared Sharing = iota
	// PerClient is one session for each session of a legacy client. Clients
	// without a session use that of their principal.
	PerClient
	// PerPrincipal is one session for each principal.
	PerPrincipal
)

// maxSets bounds the shared sessions beside the head. Clients that find no place
// use the head: they are still asked nothing that they cannot answer.
const maxSets = 16

// aloneFor is how long no further shared session is tried with a server that has
// refused one.
const aloneFor = 5 * time.Minute

// Sessions are all sessions with one upstream: the head, which gathers the
// catalog and says how the upstream is, and those of single clients, principals
// or kinds of clients, which are opened by the first call that needs them. They
// end with their client, when nobody has used them for Options.SessionIdle, and
// with Run. A session that is lost is opened again, like the head's. Those of
// principals gather lists of their own where Options.Personal says so.
//
// All share one allowance of calls, the facts about tools that the head knows,
// and one set of metrics. All methods may be called by many goroutines at once.
type Sessions struct {
	o    Options
	head *Connector
	// opens is set when a server that speaks both eras has opened a legacy session.
	opens atomic.Bool

	mu    sync.Mutex
	life  context.Context // of sessions beside the head; nil before Run and after
	began chan struct{}   // closed when there is one
	level wire.Level
	open  map[string]*branch // by name
	sets  map[string]string  // by the key of a legacy client what its set is called; see setOf
	held  *fairshare.Budget  // sessions of clients and principals that are open
	alone time.Time          // until then no set is opened, since the server has refused one
	wg    sync.WaitGroup
}

// branch is a session beside the head.
type branch struct {
	*Connector
	persona *persona
	share   fairshare.Share // that the session counts for
	end     context.CancelFunc
	users   int       // calls and subscriptions
	used    time.Time // when somebody last began or ended to use it
}

// NewSessions returns sessions that do nothing yet: see [Sessions.Run].
func NewSessions(o Options) *Sessions {
	head := o
	if o.OnlyClient != nil {
		head.persona = newOnlyPersona(&o)
	}
	s := &Sessions{head: New(head), open: make(map[string]*branch), sets: make(map[string]string), began: make(chan struct{})}
	s.o = *s.head.o
	s.o.persona = nil
	s.held = fairshare.New(int64(s.o.MaxSessions)+1, 0) // so that a single client may use the last one
	s.o.Logger = o.Logger                               // connectors put the upstream's name in by themselves
	return s
}

// Snapshot returns what is known of the upstream now.
func (s *Sessions) Snapshot() Snapshot { return s.head.Snapshot() }

// Run keeps the sessions until ctx ends. It returns when every goroutine, process
// and connection of theirs has ended: nil after ctx ended, an error at once when
// the options make no sense. It must be called once.
func (s *Sessions) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.life = ctx
	close(s.began)
	s.mu.Unlock()
	idle := time.NewTicker(max(min(s.o.SessionIdle/4, time.Minute), time.Millisecond))
	defer idle.Stop()
	done := make(chan error, 1)
	go func() { done <- s.head.Run(ctx) }()
	for {
		select {
		case <-idle.C:
			s.mu.Lock()
			s.reap()
			s.mu.Unlock()
		case err := <-done:
			s.mu.Lock()
			s.life = nil
			for name := range s.open {
				s.close(name)
			}
			s.mu.Unlock()
			s.wg.Wait()
			s.head.leave() // others may have heard of who is behind after it had ended
			return err
		}
	}
}

// Session names the session that the calls of c's client go through, for
// [call.Call.Session], and sees to it that there is one, for which it may wait; ""
// is the head. The
// error is that of [Connector.Do]: the upstream has not said yet what it is, or
// there are as many sessions as there may be.
func (s *Sessions) Session(ctx context.Context, c *call.Call) (string, error) {
	kind, name, err := s.place(ctx, c)
	if err != nil || name == "" {
		return "", err
	}
	b, err := s.find(kind, name, c)
	switch {
	case err != nil || b == nil:
		return "", err
	case kind == ofSet && channel(b.channel.Load()) == channelUnknown:
		return s.settled(ctx, name, b)
	}
	return name, nil
}

// settled returns the name of a session that is being opened, or that of the head
// if the server opens no more than one: there are such.
func (s *Sessions) settled(ctx context.Context, name string, b *branch) (string, error) {
	_, err := b.await(ctx, nil)
	head := s.head.Snapshot()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil || channel(b.channel.Load()) != channelUnknown || !head.Up():
		return name, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alone = time.Now().Add(aloneFor)
	if s.open[name] == b {
		s.close(name)
	}
	s.head.o.Logger.Info("the server opens no further session, so that one is for all clients, whatever they can do", s.o.why(err))
	return "", nil
}

// find returns the session with this name, which it opens if there is none, or nil
// when the head is to be used instead. The error is that of [Sessions.Session].
func (s *Sessions) find(kind byte, name string, c *call.Call) (*branch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.open[name]; b != nil {
		b.used = time.Now()
		if b.persona.renew(c.Principal) {
			poke(b.wanted) // what failed for the proof before may get through now
		}
		return b, nil
	}
	if s.life == nil {
		return nil, s.head.failure(reasonEnded, time.Now(), false, 0)
	}
	if kind == ofSet && time.Now().Before(s.alone) {
		return nil, nil
	}
	if err := s.reserve(kind, c); err != nil {
		if kind == ofSet || s.stateless(c) {
			return nil, nil
		}
		return nil, s.head.failure(err.Error()+"; end clients that are not needed, or raise max_sessions of the upstream",
			time.Now(), true, overloaded)
	}
	b := s.begin(s.newPersona(kind, name, c))
	b.share = fairshare.ShareOf(c.ShareKey)
	s.open[name] = b
	return b, nil
}

// reserve takes a place for one more session, after sessions that nobody uses have
// made room if need be. The error is for clients. The caller holds mu.
func (s *Sessions) reserve(kind byte, c *call.Call) error {
	if kind == ofSet {
		if len(s.open) >= maxSets {
			s.reap()
		}
		if len(s.open) >= maxSets {
			return errors.New("overloaded: there are as many shared sessions as there may be")
		}
		return nil
	}
	share := fairshare.ShareOf(c.ShareKey)
	err := s.held.Acquire(share, 1)
	if err != nil {
		s.reap()
		err = s.held.Acquire(share, 1)
	}
	switch {
	case err == fairshare.ErrShareExceeded:
		return errors.New("overloaded: you have as many sessions with it as one principal, or one address, may have beside others")
	case err != nil:
		return fmt.Errorf("overloaded: there are %d sessions of clients with it, which leaves none for you", s.held.Held())
	}
	return nil
}

// begin opens a session. The caller holds mu.
func (s *Sessions) begin(p *persona) *branch {
	ctx, cancel := context.WithCancel(s.life)
	o := s.o
	o.persona, o.Logger = p, cmp.Or(o.Logger, zap.NewNop()).With(zap.String("session", p.origin.Session))
	if head := s.head.Snapshot(); head.Era() != wire.EraUnknown {
		o.Era = head.Era()
	}
	switch way := channel(s.head.channel.Load()); way {
	case channelDual:
		if p.gathers { // it takes clients of both eras, as the head does
			o.Era, p.head = s.o.Era, s.head
			break
		}
		fallthrough
	case channelSessions, channelSSE:
		web := *o.HTTP
		web.Transport = TransportStreamable
		if way == channelSSE {
			web.Transport = TransportSSE
		}
		o.HTTP, o.Era = &web, wire.EraLegacy
		p.head = s.head
	}
	b := &branch{Connector: New(o), persona: p, end: cancel, used: time.Now()}
	if !p.gathers {
		b.tools = s.head.tools
	}
	b.bound(s.head.slots)
	p.retell = func() { b.tell(wire.NoteRootsChanged) }
	b.SetLogLevel(s.level)
	s.wg.Go(func() { _ = b.Run(ctx) }) // an error in the options would be the head's too
	return b
}

// close ends a session. The caller holds mu.
func (s *Sessions) close(name string) {
	b := s.open[name]
	b.end()
	delete(s.open, name)
	if name[0] != ofSet {
		s.held.Release(b.share, 1)
	}
	if b.persona.gathers && s.o.Gathered != nil {
		s.o.Gathered(b.persona.origin.Principal)
	}
}

// reap ends the sessions that nobody has used for too long. The caller holds mu.
func (s *Sessions) reap() {
	since := time.Now().Add(-s.o.SessionIdle)
	for name, b := range s.open {
		if b.users == 0 && b.used.Before(since) {
			s.close(name)
		}
	}
}

// Do sends a call through the session that it names, see [Connector.Do]. When
// that has ended meanwhile, a call of the same client opens it again; any other
// call fails.
func (s *Sessions) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	to, leave, err := s.use(ctx, c)
	if err != nil {
		return call.Result{}, err
	}
	defer leave()
	return to.Do(ctx, c)
}

// Subscribe has the server tell of updates of a resource in the session that c
// names, see [Connector.Subscribe]. cancel takes it back; it does not block, and
// may be called more than once.
func (s *Sessions) Subscribe(ctx context.Context, c *call.Call, uri string) (cancel func(), err error) {
	to, leave, err := s.use(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := to.Subscribe(ctx, uri); err != nil {
		leave()
		return nil, err
	}
	return sync.OnceFunc(func() {
		to.Unsubscribe(uri)
		leave()
	}), nil
}

// use returns the session that a call names. It is kept until leave is called.
func (s *Sessions) use(ctx context.Context, c *call.Call) (to *Connector, leave func(), err error) {
	if c.Session == "" {
		return s.head, func() {}, nil
	}
	b := s.hold(c.Session)
	if b == nil {
		name, err := s.Session(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		if name == c.Session {
			b = s.hold(name)
		}
	}
	if b == nil {
		return nil, nil, s.head.failure("the session in which this was begun has ended", time.Now(), false, 0)
	}
	return b.Connector, func() { s.leave(b) }, nil
}

// leave counts one user less.
func (s *Sessions) leave(b *branch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.users--
	b.used = time.Now()
}

// hold returns the session with this name, and counts one more user, or nil.
func (s *Sessions) hold(name string) *branch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.open[name]
	if b != nil {
		b.users++
	}
	return b
}

// EndClient ends what there is for a client alone, whose session has ended: key
// is that of [call.Client]. It does not block.
func (s *Sessions) EndClient(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.o.Sharing {
	case PerClient:
		if name := nameOf(ofClient, key); s.open[name] != nil {
			s.close(name)
		}
	case PerPrincipal:
		for _, b := range s.open {
			b.persona.forget(key)
		}
	default:
		delete(s.sets, key)
	}
}

// RootsChanged tells the server that a client's roots have changed, if it has
// been told that client's. It does not block.
func (s *Sessions) RootsChanged(c *call.Client, principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head.o.persona.relaysRoots() {
		s.head.tell(wire.NoteRootsChanged)
	}
	if b := s.open[nameOf(ofClient, c.Key)]; b != nil && b.persona.relaysRoots() {
		b.tell(wire.NoteRootsChanged)
	}
	if b := s.open[nameOf(ofPrincipal, principal)]; b != nil && s.o.Sharing == PerPrincipal && c.Can("roots") {
		b.persona.root(c)
		b.tell(wire.NoteRootsChanged)
	}
}

// SetLogLevel is [Connector.SetLogLevel] for all sessions.
func (s *Sessions) SetLogLevel(level wire.Level) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
	s.head.SetLogLevel(level)
	for _, b := range s.open {
		b.SetLogLevel(level)
	}
}

// refusal makes the error of a call of one of the head's.
func (s *Sessions) refusal(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.head.failure(downReason(err), s.head.Snapshot().Since, true, laterOf(err))
}
