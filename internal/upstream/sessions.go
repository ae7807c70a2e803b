package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport"
	"mcpgateway/internal/wire"
)

// Sharing says which clients share a session with an upstream.
type Sharing uint8

const (
	// Shared is one session for all clients. Over streamable HTTP, where sessions
	// are cheap, it is one session for each set of capabilities of legacy clients, so
	// that the server learns what its client can do.
	Shared Sharing = iota
	// PerClient is one session for each session of a legacy client. Clients without a
	// session use the session of their principal.
	PerClient
	// PerPrincipal is one session for each principal.
	PerPrincipal
)

// maxSets bounds the sessions for sets of capabilities. Further clients use the
// catalog session: they are still asked nothing that they cannot answer.
const maxSets = 16

// catalogMaxAge is the age at which the catalog of an idle upstream is gathered again when
// a session with its own server process opens.
const catalogMaxAge = time.Hour

// setsRetryAfter is when a further shared session is tried with a server that refused one.
const setsRetryAfter = 5 * time.Minute

// Sessions are all sessions with one upstream: the catalog session, which gathers the catalog and determines
// the state of the upstream, and the sessions of clients, principals and sets of capabilities. The first
// call that needs a session opens it. It ends with its client, after Options.SessionIdle without use, and
// with Run. A lost session is opened again. Sessions of principals gather their own lists if
// Options.Personal is set.
//
// All sessions share one limit of calls, the facts about tools that the catalog session
// knows, and one set of metrics. All methods may be called concurrently.
type Sessions struct {
	o              *Options // of the catalog session
	catalogSession *connector.Connector
	// opens is set when a server that speaks both eras has opened a legacy session.
	opensLegacySessions atomic.Bool

	mu          sync.Mutex
	runContext  context.Context // of sessions beside the catalog session; nil before and after Run
	running     chan struct{}   // closed when there is a runContext
	adjusted    chan struct{}   // capacity 1: the lifetime has changed
	logLevel    wire.Level
	open        map[string]*openSession // by name
	setNames    map[string]string       // names of the sessions for sets, by the key of a legacy client; see setName
	budget      *fairshare.Budget       // sessions of clients and principals that are open
	noSetsUntil time.Time               // until then no session for a set is opened, because the server refused one
	wg          sync.WaitGroup
}

// openSession is a session beside the catalog session.
type openSession struct {
	*connector.Connector
	scope *sessionScope
	share fairshare.Share // that the session counts for
	end   context.CancelFunc
	users int       // calls and subscriptions
	calls int       // of them
	used  time.Time // when a use last began or ended
}

// NewSessions returns sessions that do nothing yet: see [Sessions.Run].
func NewSessions(o Options) *Sessions {
	s := &Sessions{o: o.withDefaults(), open: make(map[string]*openSession), setNames: make(map[string]string), running: make(chan struct{}), adjusted: make(chan struct{}, 1)}
	if o.OnlyClient != nil {
		s.o.scope = newOnlyClientScope(s.o)
	}
	s.catalogSession = s.o.newConnector(nil)
	s.budget = fairshare.New(int64(s.o.MaxSessions)+1, 0) // so that a single client may use the last one
	return s
}

// Snapshot returns what is known of the upstream now.
func (s *Sessions) Snapshot() connector.Snapshot { return s.catalogSession.Snapshot() }

// Running returns the number of calls that run or wait in all sessions.
func (s *Sessions) Running() int { return s.catalogSession.Running() }

// ConnectedPrincipals returns the number of sessions of principals that have a conversation with the server and
// gather their own lists. Those of principals for which without is true do not count.
func (s *Sessions) ConnectedPrincipals(without func(*call.Principal) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.open {
		if shot := b.Snapshot(); b.scope.gathers && shot.Up() && !without(b.scope.principal()) {
			n++
		}
	}
	return n
}

// Transport returns the transport of the connection that gathers the lists, or the configured one while there
// is none.
func (s *Sessions) Transport() transport.Kind {
	now, way := s.Snapshot(), s.catalogSession.SessionKind()
	switch {
	case s.o.Stdio != nil:
		return transport.Stdio
	case s.o.Pipe != nil:
		return transport.InProcess
	case s.o.Transport != transport.Auto && s.o.Transport != "" || !now.Up():
		return s.o.Transport
	case way == protocol.SessionStream:
		return transport.SSE
	default:
		return transport.Streamable
	}
}

// Run keeps the sessions open until ctx ends. It returns when every goroutine, process
// and connection has ended: nil after ctx ended, or immediately an error about the options.
// Call it once.
func (s *Sessions) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.runContext = ctx
	close(s.running)
	s.mu.Unlock()
	interval := func() time.Duration { return max(min(s.idleTime()/4, time.Minute), time.Millisecond) }
	idle := time.NewTicker(interval())
	defer idle.Stop()
	done := make(chan error, 1)
	go func() { done <- s.catalogSession.Run(ctx) }()
	for {
		select {
		case <-idle.C:
			s.mu.Lock()
			s.closeIdle()
			s.mu.Unlock()
		case <-s.adjusted:
			idle.Reset(interval())
		case err := <-done:
			s.mu.Lock()
			s.runContext = nil
			for name := range s.open {
				s.close(name)
			}
			s.mu.Unlock()
			s.wg.Wait()
			s.o.LoopDetector.forget(s.o.instance) // other sessions may have observed gateways after the catalog session ended
			return err
		}
	}
}

// Session returns the name of the session for the calls of c's client, for
// [call.Call.Session]; "" is the catalog session. It opens the session if need be, and
// may wait for the server. The error is one of [connector.Connector.Do]: the upstream has not
// connected yet, or has as many sessions as it may.
func (s *Sessions) Session(ctx context.Context, c *call.Call) (string, error) {
	kind, name, err := s.resolve(ctx, c)
	if err != nil || name == "" {
		return "", err
	}
	b, err := s.findSession(kind, name, c)
	switch {
	case err != nil || b == nil:
		return "", err
	case kind == ofSet && b.SessionKind() == protocol.SessionUnknown:
		return s.awaitFirst(ctx, c, name, b)
	}
	return name, nil
}

// awaitFirst waits for the first attempt of a session. It returns the name of the
// session, or that of the catalog session if the attempt failed, or while the circuit breaker of the catalog session
// refuses calls: no call waits for such a server. If the server refused the session, it opens only one, as some do.
func (s *Sessions) awaitFirst(ctx context.Context, c *call.Call, name string, b *openSession) (string, error) {
	if s.catalogSession.Refuses() {
		return "", nil
	}
	s.mu.Lock()
	b.users++ // or it would be closed as idle if the server is slow
	s.mu.Unlock()
	defer s.release(b, 0)
	_, err := b.Await(ctx, c)
	head := s.catalogSession.Snapshot()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil || b.SessionKind() != protocol.SessionUnknown || !head.Up():
		return name, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := time.Now(); {
	case s.open[name] != b && !now.Before(s.noSetsUntil):
		return name, nil // the server has not refused it: the gateway has closed it
	case s.open[name] == b && b.Refused():
		s.noSetsUntil = now.Add(setsRetryAfter)
		s.close(name)
		s.o.Logger.Info("the server opens only one session: all clients share it, whatever they can do",
			zap.String("error", plaintext.Truncate(s.o.Mask(err.Error()), protocol.MaxReason)))
	}
	return "", nil // if the server was only away or slow, for this call: the session is tried again
}

// findSession returns the session with this name, and opens it if need be. It returns
// nil if the catalog session is to be used. The error is that of [Sessions.Session].
func (s *Sessions) findSession(kind byte, name string, c *call.Call) (*openSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.open[name]; b != nil {
		b.used = time.Now()
		if b.scope.renewPrincipal(c.Principal) {
			b.Retry() // what the former credentials did not allow may succeed now
		}
		return b, nil
	}
	if s.runContext == nil {
		return nil, s.catalogSession.Failure(connector.ReasonEnded, time.Now(), false, 0)
	}
	if kind == ofSet && time.Now().Before(s.noSetsUntil) {
		return nil, nil
	}
	if err := s.reserve(kind, c); err != nil {
		if kind == ofSet || s.stateless(c) {
			return nil, nil
		}
		return nil, s.catalogSession.Failure(err.Error()+"; end clients that are not needed, or raise max_sessions of the upstream",
			time.Now(), true, protocol.RetryOverloaded)
	}
	b := s.begin(s.newScope(kind, name, c))
	b.share = fairshare.ShareOf(c.ShareKey)
	s.open[name] = b
	return b, nil
}

// reserve takes a place for one more session, after sessions that nobody uses have
// made room if need be. The error is for clients. The caller holds mu.
func (s *Sessions) reserve(kind byte, c *call.Call) error {
	if kind == ofSet {
		if len(s.open) >= maxSets {
			s.closeIdle()
		}
		if len(s.open) >= maxSets {
			return errors.New("overloaded: there are as many shared sessions as there may be")
		}
		return nil
	}
	share := fairshare.ShareOf(c.ShareKey)
	err := s.budget.Acquire(share, 1)
	if err != nil {
		s.closeIdle()
		err = s.budget.Acquire(share, 1)
	}
	switch {
	case err == fairshare.ErrShareExceeded:
		return errors.New("overloaded: you have as many sessions with it as one principal, or one address, may have beside others")
	case err != nil:
		return fmt.Errorf("overloaded: clients have opened as many sessions with it as they may (%d)", s.budget.Held())
	}
	return nil
}

// begin opens a session. The caller holds mu.
func (s *Sessions) begin(p *sessionScope) *openSession {
	ctx, cancel := context.WithCancel(s.runContext)
	o := *s.o
	o.scope, o.Logger = p, o.Logger.With(zap.String("session", p.origin.Session))
	if head := s.catalogSession.Snapshot(); head.Era() != wire.EraUnknown {
		o.Era = head.Era()
	}
	switch way := s.catalogSession.SessionKind(); way {
	case protocol.SessionDual:
		if p.gathers { // clients of both eras use it, like the catalog session
			o.Era, p.catalogSession = s.o.Era, s.catalogSession
			break
		}
		fallthrough
	case protocol.SessionHTTP, protocol.SessionStream:
		o.Transport, o.Era = transport.Streamable, wire.EraLegacy
		if way == protocol.SessionStream {
			o.Transport = transport.SSE
		}
		p.catalogSession = s.catalogSession
	}
	b := &openSession{Connector: o.newConnector(s.catalogSession), scope: p, end: cancel, used: time.Now()}
	p.announceRoots = func() { b.Notify(wire.NoteRootsChanged) }
	b.SetLogLevel(s.logLevel)
	b.SetLifetime(s.catalogSession.Lifetime())
	if p.catalogSession == nil {
		s.catalogSession.Regather(catalogMaxAge) // its own server does not say what has changed
	}
	s.wg.Go(func() { _ = b.Run(ctx) }) // the catalog session reports errors in the options
	return b
}

// close ends a session. The caller holds mu.
func (s *Sessions) close(name string) {
	b := s.open[name]
	b.end()
	delete(s.open, name)
	if name[0] != ofSet {
		s.budget.Release(b.share, 1)
	}
	if b.scope.gathers && s.o.Gathered != nil {
		s.o.Gathered(b.scope.origin.Principal)
	}
}

// idleTime is how long an unused session is kept.
func (s *Sessions) idleTime() time.Duration {
	if l := s.catalogSession.Lifetime(); l.IdleStop > 0 {
		return min(l.IdleStop, s.o.SessionIdle)
	}
	return s.o.SessionIdle
}

// closeIdle ends sessions that were not used for too long. The caller holds mu.
func (s *Sessions) closeIdle() {
	now := time.Now()
	since := now.Add(-s.idleTime())
	for name, b := range s.open {
		if b.users == 0 && b.used.Before(since) && b.HeldUntil(now).IsZero() {
			s.close(name)
		}
	}
}

// Do sends a call through the session that it names, see [connector.Connector.Do]. A call of the
// session's client opens the session again if it has ended; another call fails.
func (s *Sessions) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	to, leave, err := s.use(ctx, c, 1)
	if err != nil {
		return call.Result{}, err
	}
	defer leave()
	return to.Do(ctx, c)
}

// Subscribe subscribes to a resource in the session that c names, see
// [connector.Connector.Subscribe]. cancel ends the subscription; it does not block, and may be
// called more than once.
func (s *Sessions) Subscribe(ctx context.Context, c *call.Call, uri string) (cancel func(), err error) {
	to, leave, err := s.use(ctx, c, 0)
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

// use returns the session that a call names, in which so many calls begin. The session
// stays open until the caller calls leave.
func (s *Sessions) use(ctx context.Context, c *call.Call, calls int) (to *connector.Connector, leave func(), err error) {
	if c.Session == "" {
		return s.catalogSession, func() {}, nil
	}
	b := s.retain(c.Session, calls)
	if b == nil {
		name, err := s.Session(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		if name == c.Session {
			b = s.retain(name, calls)
		}
	}
	if b == nil {
		return nil, nil, s.catalogSession.Failure("the session in which this was begun has ended", time.Now(), false, 0)
	}
	if b.scope.catalogSession == nil {
		return b.Connector, func() { s.release(b, calls) }, nil
	}
	end := b.scope.catalogSession.Use() // which is told of changed lists
	return b.Connector, func() {
		end()
		s.release(b, calls)
	}, nil
}

// release counts one user less, and so many calls.
func (s *Sessions) release(b *openSession, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.users--
	b.calls -= calls
	b.used = time.Now()
}

// retain returns the session with this name, or nil, and counts one more user, and so many calls.
func (s *Sessions) retain(name string, calls int) *openSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.open[name]
	if b != nil {
		b.users++
		b.calls += calls
	}
	return b
}

// EndClient ends the session of a client whose own session has ended. key is the Key
// of the [call.Client]. It does not block.
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
			b.scope.forgetClient(key)
		}
	default:
		delete(s.setNames, key)
	}
}

// RootsChanged tells the server that the roots of a client have changed, if the server
// uses them. It does not block.
func (s *Sessions) RootsChanged(c *call.Client, principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.scope.relaysRoots() {
		s.catalogSession.Notify(wire.NoteRootsChanged)
	}
	if b := s.open[nameOf(ofClient, c.Key)]; b != nil && b.scope.relaysRoots() {
		b.Notify(wire.NoteRootsChanged)
	}
	if b := s.open[nameOf(ofPrincipal, principal)]; b != nil && s.o.Sharing == PerPrincipal && c.Can("roots") {
		b.scope.setRootsClient(c)
		b.Notify(wire.NoteRootsChanged)
	}
}

// SetLifetime is [connector.Connector.SetLifetime] for the catalog session. The sessions of
// clients and principals open when they are needed in any case; IdleStop ends them if it is
// shorter than Options.SessionIdle.
func (s *Sessions) SetLifetime(l connector.Lifetime) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalogSession.SetLifetime(l)
	for _, b := range s.open {
		b.SetLifetime(l)
	}
	protocol.Poke(s.adjusted)
}

// Retry is [connector.Connector.Retry] for all sessions.
func (s *Sessions) Retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalogSession.Retry()
	for _, b := range s.open {
		b.Retry()
	}
}

// SetLogLevel is [connector.Connector.SetLogLevel] for all sessions.
func (s *Sessions) SetLogLevel(level wire.Level) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLevel = level
	s.catalogSession.SetLogLevel(level)
	for _, b := range s.open {
		b.SetLogLevel(level)
	}
}

// refusal returns the error of a call for an error of the catalog session.
func (s *Sessions) refusal(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.catalogSession.FailureOf(err, connector.ReasonFor(err), s.catalogSession.Snapshot().Since, true, "")
}
