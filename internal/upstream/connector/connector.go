package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Connector keeps a conversation with one upstream open, and opens another one when it
// is lost. The goroutine of [Connector.Run] opens and ends conversations; all other
// methods may be called concurrently, at any time.
type Connector struct {
	o      *Options
	slots  *fairLimiter // slots of calls, shared by all sessions with the upstream
	single *fairLimiter // the slot for the only call in this session; nil: any number may run

	running      *atomic.Int64                    // calls in all sessions with the upstream
	inflight     atomic.Pointer[prometheus.Gauge] // looked up once, not for each call
	sessionKind  atomic.Uint32                    // a SessionKind, that of the last conversation
	tools        *atomic.Pointer[toolFacts]       // of the session that gathers the catalog
	logLevelSync atomic.Pointer[logLevelSync]     // nil if no request sets the log level
	present      atomic.Pointer[currentConn]      // state.conn; nil if there is none
	published    atomic.Pointer[Snapshot]         // state.snapshot
	draft        draft
	breaker      breaker
	moving       atomic.Bool              // the next conversation is to use another address
	tasks        protocol.BackgroundTasks // pings for the breaker
	notes        *noteLimiter
	listTurns    *rate.Limiter // of lists that are gathered because they changed
	floodLogs    sync.Map      // *rate.Sometimes by kind of excess messages, of which the source code bounds the number
	signals      signals
	lifetime     atomic.Pointer[Lifetime]
	usage        usage
	gathered     atomic.Int64 // when the catalog was last gathered by this connector, in Unix nanoseconds

	// The goroutine of Run alone uses the fields below.

	began         time.Time // when the last attempt began
	prompted      bool      // the last rest ended because another session works
	address       int       // the one of the last conversation
	hasGatherSlot bool

	publish sync.Mutex // held by update, so that the observer hears of changes in order
	mu      sync.Mutex // guards what follows; taken after publish
	state   state
	changed chan struct{} // closed and renewed when conn, failures, ended or the snapshot change
}

// New returns a connector that does nothing before [Connector.Run].
func New(o Options) *Connector {
	c := &Connector{o: o.withDefaults(), changed: make(chan struct{}), signals: newSignals()}
	c.lifetime.Store(&o.Start.Lifetime)
	c.usage.begun, c.usage.changed = make(chan struct{}, 1), make(chan struct{}, 1)
	if o.Beside != nil && !c.gathersLists() {
		c.tools = o.Beside.tools
	} else {
		c.tools = new(atomic.Pointer[toolFacts])
		c.tools.Store(&toolFacts{})
	}
	if o.Beside != nil {
		c.slots, c.running = o.Beside.slots, o.Beside.running
	} else {
		c.slots, c.running = newFairLimiter(c.o.Limits.MaxConcurrent, newLimiterQueue(c.o.Limits.MaxQueue)), new(atomic.Int64)
	}
	if c.o.Serialize {
		c.single = newFairLimiter(1, c.slots.queue)
		c.single.bound = "the server gets one call at a time"
	}
	c.notes, c.listTurns = newNoteLimiter(c), rate.NewLimiter(listsPerSecond, listsBurst)
	c.breaker.health, c.breaker.metrics, c.breaker.name, c.breaker.own = o.Health, c.o.Metrics, o.Name, o.OnePrincipal
	c.measure()
	c.state.subscriptions = make(map[string]*resourceSubscription)
	c.state.snapshot = Snapshot{Name: o.Name, State: Connecting, Since: time.Now()}
	if known := o.Start.Remembered; known != nil {
		c.remember(known)
	}
	first := c.state.snapshot
	c.published.Store(&first)
	return c
}

// isCatalogSession reports whether this connector determines the state of the upstream.
func (c *Connector) isCatalogSession() bool { return c.o.Role == GathersCatalog }

// gathersLists reports whether this connector gathers lists.
func (c *Connector) gathersLists() bool { return c.o.Role != OnlyCalls }

// Snapshot returns the present snapshot.
func (c *Connector) Snapshot() Snapshot { return *c.published.Load() }

// Running returns the number of calls that run or wait in this session and those beside it.
func (c *Connector) Running() int { return int(c.running.Load()) }

// isEnding reports whether Run is to return, so that there is no further conversation.
func (c *Connector) isEnding() bool {
	var ending <-chan struct{}
	c.view(func(s *state) { ending = s.ending })
	select {
	case <-ending:
		return true
	default:
		return false
	}
}

// measure looks up the gauges of running and waiting calls.
func (c *Connector) measure() {
	c.slots.queue.measure(c.o.Metrics.queued.WithLabelValues(c.o.Name))
	c.o.Metrics.limit.WithLabelValues(c.o.Name).Set(float64(c.slots.size))
	gauge := c.o.Metrics.inflight.WithLabelValues(c.o.Name)
	c.inflight.Store(&gauge)
}

// Run connects, and connects again after a loss, until ctx ends. It returns when every
// goroutine, process and connection of the connector has ended: nil after ctx ended, or
// immediately an error about the options. Calls fail from then on. Call it once.
func (c *Connector) Run(ctx context.Context) error {
	c.view(func(s *state) { s.ending = ctx.Done() })
	c.o.Metrics.began(c.o.Name)
	c.measure() // a former connector of the upstream may have deleted the series since New
	defer c.finish()
	dialer, err := c.o.Dialer(c)
	if err != nil {
		return err
	}
	defer c.releaseGatherSlot()
	var pause protocol.Backoff
	for o := (opening{known: c.o.Start.Remembered != nil}); ; {
		rested, ok := c.awaitNeed(ctx, o)
		if !ok {
			return nil
		}
		c.beginAttempt()
		conn, h, err := c.connect(ctx, dialer)
		failed := err != nil
		if !failed {
			again := o.opened && !o.unused && !rested
			if again {
				c.o.Metrics.restarts.WithLabelValues(c.o.Name).Inc()
			}
			err = c.converse(ctx, conn, h, again)
			o.opened = true
			if time.Since(c.began) >= protocol.SteadyAfter {
				pause.Reset()
			}
		}
		c.releaseGatherSlot()
		if ctx.Err() != nil {
			return nil
		}
		if err == errMoving {
			continue
		}
		o.unused = err == errUnused
		if o.known = o.unused || !failed && c.Snapshot().State == Ready; o.unused {
			continue
		}
		c.down(err, failed)
		if !c.rest(ctx, pause.Next(time.Now()), err) {
			return nil
		}
	}
}

// connect makes one attempt, which takes at most the timeout of calls.
func (c *Connector) connect(ctx context.Context, d protocol.Dialer) (protocol.Conn, protocol.Hello, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Limits.Timeout,
		fmt.Errorf("%w within %s", diagnose.ErrHandshakeTimeout, c.o.Limits.Timeout))
	defer cancel()
	c.o.Session.Declare(ctx)
	conn, h, err := d.Dial(ctx, notificationSink{c})
	if err == nil {
		if err = c.o.Loops.Check(h.Via); err != nil {
			over, end := context.WithCancel(ctx)
			end()
			conn.Run(over) // ends it; the error is known
		}
	}
	if f, ok := errors.AsType[*protocol.CallError](err); ok && f.NoCredentials {
		return conn, h, err
	}
	if err != nil && ctx.Err() != nil {
		cause := context.Cause(ctx)
		if s, ok := errors.AsType[*diagnose.HandshakeError](err); ok {
			cause = &diagnose.HandshakeError{Err: cause, Words: s.Words, NonProtocolOutput: s.NonProtocolOutput}
		}
		err = cause
	}
	return conn, h, err
}

// converse lets calls use a conversation until it ends, and returns why it ended:
// errUnused if nothing needed it any more. again says that a former one was lost.
func (c *Connector) converse(ctx context.Context, conn protocol.Conn, h protocol.Hello, again bool) error {
	_, _, forget := c.takeLists()
	forget() // the new conversation gathers all lists
	c.signals.clear()
	if h.Revision.Era() == wire.EraLegacy && protocol.Declares(h.Capabilities, "logging") {
		c.logLevelSync.Store(newLogLevelSync(c.o, conn))
	}
	c.sessionKind.Store(uint32(conn.Traits().Sessions))
	alive, over := context.WithCancelCause(ctx)
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		over(conn.Run(running))
	}()
	settled := make(chan struct{})
	settle := func() {
		defer close(settled)
		c.o.Session.AwaitSettled(alive, conn)
		c.set(conn)
	}
	if c.isCatalogSession() {
		go settle() // the catalog is gathered meanwhile
	} else {
		settle()
	}
	c.countUp(c.o.Metrics.opened)
	c.retryCatalogSession()
	c.o.Logger.Debug("connected", zap.String("revision", string(h.Revision)))
	c.reportExtensions(h)
	if c.breaker.connected(c.noteAddress(conn)) {
		c.logBreakerClosed()
	}
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		c.syncSubscriptions(alive, conn, h)
	}()
	left := c.refreshCatalog(alive, conn, h, again)
	if left != nil {
		stop()
	}
	<-done
	<-synced
	<-settled
	c.logLevelSync.Store(nil)
	c.countUp(c.o.Metrics.closed)
	c.set(nil)
	c.usage.tasks.forget()
	why := context.Cause(alive)
	if protocol.IsHung(why) {
		c.o.Metrics.hung.WithLabelValues(c.o.Name).Inc()
	}
	return cmp.Or(left, why)
}

// reportExtensions counts and logs the extensions of the server that are not declared to
// clients.
func (c *Connector) reportExtensions(h protocol.Hello) {
	names := protocol.UnrelayedExtensions(wire.ValueOf(h.Capabilities).Get("extensions"))
	if !c.isCatalogSession() || len(names) == 0 {
		return
	}
	c.o.Metrics.left.WithLabelValues(c.o.Name).Add(float64(len(names)))
	c.o.Logger.Info("extensions of the server are not relayed, and not declared to clients", zap.Int("extensions", len(names)),
		zap.String("first", plaintext.Truncate(names[0], diagnose.MaxExcerpt)))
}

// countUp notes that the upstream is up, or not anymore, if the state of this session
// says so.
func (c *Connector) countUp(note func(upstream string)) {
	if c.isCatalogSession() {
		note(c.o.Name)
	}
}

// set changes the conversation that calls find, and wakes the calls that wait for one.
func (c *Connector) set(conn protocol.Conn) {
	c.update(func(s *state) { s.conn = conn })
}

// retryAfter returns how long to leave a server alone that has failed with err: as long as
// it asks for, and protocol.MaxPause at most.
func retryAfter(err error) time.Duration {
	return min(protocol.RetryAfterOf(err), protocol.MaxPause)
}

// down publishes that there is no conversation. If an attempt failed, the calls that
// waited for it fail.
func (c *Connector) down(why error, attempted bool) {
	c.leave()
	reason := c.o.reason(ReasonFor(why))
	level := zap.WarnLevel
	if s := c.Snapshot(); s.State == Down && s.Reason == reason {
		level = zap.DebugLevel // the same reason at every attempt is logged once
	}
	advice := c.advice(why)
	c.o.Logger.Log(level, "no connection", zap.String("why", advice))
	c.update(func(s *state) {
		if attempted {
			select {
			case <-c.signals.attempt: // the calls that wanted this attempt have its outcome
			default:
			}
			s.failures++
			s.refused = isRefusal(why)
		}
		if later := retryAfter(why); later > 0 {
			s.retryAt = time.Now().Add(later)
		}
		shot := &s.snapshot
		shot.Settled, shot.Reason, shot.Advice, shot.Lost = true, reason, advice, !attempted && shot.Up()
		if shot.State != Down {
			shot.State, shot.Since = Down, time.Now()
		}
	})
}

// passingCheck is how often a connector at rest asks whether an error has passed.
const passingCheck = time.Second

// rest waits between two attempts. It ends early when a call wants an attempt, another session works or the
// cause of err has passed, but not before protocol.AttemptGap has passed since the last one began, and never
// before the time that the server asks for. It returns false if ctx ends.
func (c *Connector) rest(ctx context.Context, pause time.Duration, err error) bool {
	later := retryAfter(err)
	asked := time.Now().Add(later)
	timer := time.NewTimer(max(pause, later))
	defer timer.Stop()
	var checks <-chan time.Time
	passed := c.passed(err)
	if passed != nil {
		ticker := time.NewTicker(passingCheck)
		defer ticker.Stop()
		checks = ticker.C
	}
	reached := c.signals.reached
	if c.prompted || lacksCredentials(err) {
		// The server may refuse only this session: it has one attempt more for each pause, not one for each
		// call. Another session may also have credentials that this one lacks.
		reached = nil
	}
	c.prompted = false
	for early := false; !early; {
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		case <-c.signals.attempt:
			early = true
		case <-reached:
			early, c.prompted = true, true
		case <-checks:
			early = passed()
		}
	}
	timer.Reset(max(time.Until(c.began.Add(protocol.AttemptGap)), time.Until(asked)))
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// passed returns a function that reports whether the cause of err may have passed. It is nil if only another attempt can tell.
func (c *Connector) passed(err error) func() bool {
	passed, renewed := protocol.PassedOf(err), c.o.Start.NewCredentials
	switch {
	case passed == nil:
		return renewed
	case renewed == nil:
		return passed
	}
	return func() bool { return passed() || renewed() }
}

// lacksCredentials reports whether err says that the gateway has no credentials for the session. Sessions of principals
// may have some.
func lacksCredentials(err error) bool {
	f, ok := errors.AsType[*protocol.CallError](err)
	return ok && f.NoCredentials && !f.Temporary
}

// finish fails all calls to come.
func (c *Connector) finish() {
	c.update(func(s *state) {
		s.ended = true
		shot := &s.snapshot
		shot.State, shot.Since, shot.Reason, shot.Settled, shot.Lost = Down, time.Now(), ReasonEnded, true, false
	})
	c.leave()
	c.tasks.Finish()
	c.notes.end()
	c.breaker.end()
	c.o.Metrics.ended(c.o.Name)
}

// leave forgets the gateways behind the upstream. Only the catalog session does, since
// all sessions lead to the same server.
func (c *Connector) leave() {
	if c.isCatalogSession() {
		c.o.Loops.Forget()
	}
}

// ReasonEnded is the reason of calls after the end of Run.
const ReasonEnded = "the gateway is no longer connected to this server"

// ReasonFor returns the reason for users why there is no conversation. It hides what a
// [protocol.CallError] hides from clients.
func ReasonFor(err error) string {
	if f, ok := errors.AsType[*protocol.CallError](err); ok {
		return f.Reason
	}
	return err.Error()
}
