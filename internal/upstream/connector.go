package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Connector holds the conversation with one upstream and opens it again when it
// is lost. One goroutine, that of [Connector.Run], opens and ends
// conversations; all other methods may be called by many goroutines at once, at
// any time.
type Connector struct {
	o      *Options
	slots  *fairLimiter // one for each call that may run, of all sessions with the upstream, which wait in one line
	single *fairLimiter // the one for the call that may run in this session; nil: any number may

	inflight    atomic.Pointer[prometheus.Gauge] // looked up once, not for each call
	sessionKind atomic.Uint32                    // a SessionKind, that of the last conversation

	snap     atomic.Pointer[Snapshot]
	publish  sync.Mutex                 // held to change snap, so that observers see changes in order
	news     chan struct{}              // closed and renewed when snap changes; guarded by publish
	tools    *atomic.Pointer[toolFacts] // of the session that gathers the catalog
	box      *mailbox
	wants    *wants
	loudness loudness
	volume   atomic.Pointer[volume] // nil where the log level is not set by a request of its own
	draft    draft

	mu       sync.Mutex
	conn     protocol.Conn // nil when there is no conversation
	attempts int           // that have ended
	turn     chan struct{} // closed and renewed when conn or attempts change
	ended    bool          // Run has returned
	wanted   chan struct{} // capacity 1: a call waits for an attempt

	needed chan struct{} // closed by need, for sessions that only begin then
	once   sync.Once     // closes needed
}

// New returns a connector that does nothing yet: see [Connector.Run].
func New(o Options) *Connector {
	c := &Connector{
		o:        o.withDefaults(),
		turn:     make(chan struct{}),
		news:     make(chan struct{}),
		wanted:   make(chan struct{}, 1),
		needed:   make(chan struct{}),
		wants:    newWants(),
		loudness: loudness{changed: make(chan struct{}, 1)},
	}
	c.o.babble = c.babbles
	c.tools = new(atomic.Pointer[toolFacts])
	c.bound(newFairLimiter(c.o.MaxConcurrent, newLimiterQueue(c.o.MaxQueue)))
	c.measure()
	c.box = newMailbox(c.o)
	c.tools.Store(&toolFacts{})
	c.snap.Store(&Snapshot{Name: o.Name, State: Connecting, Since: time.Now()})
	return c
}

// bound sets how many calls may run. It is called before any does.
func (c *Connector) bound(slots *fairLimiter) {
	c.slots = slots
	if c.o.Serialize {
		c.single = newFairLimiter(1, slots.queue)
	}
}

// Snapshot returns what is known of the upstream now.
func (c *Connector) Snapshot() Snapshot { return *c.snap.Load() }

// SetLogLevel tells the server, now and after each reconnection, which log
// messages are wanted at least. It is for legacy servers; to modern ones each
// call says so itself. LevelNone leaves the server to its own judgement.
func (c *Connector) SetLogLevel(level wire.Level) { c.loudness.set(level) }

// measure looks up where calls are counted.
func (c *Connector) measure() {
	gauge := c.o.Metrics.inflight.WithLabelValues(c.o.Name)
	c.inflight.Store(&gauge)
}

// Run connects, and connects again when the conversation is lost, until ctx
// ends. It returns when every goroutine, process and connection of the
// connector has ended: nil after ctx ended, an error at once when the options
// make no sense. Calls fail from then on. It must be called once.
func (c *Connector) Run(ctx context.Context) error {
	c.o.Metrics.began(c.o.Name)
	c.measure() // since New the series may have gone with the connector that was here before
	defer c.finish()
	dialer, err := c.o.dialer(c)
	if err != nil {
		return err
	}
	if !c.untilNeeded(ctx) {
		return nil
	}
	var pause protocol.Backoff
	for opened := false; ; {
		began := time.Now()
		conn, h, err := c.connect(ctx, dialer)
		failed := err != nil
		if !failed {
			if opened {
				c.o.Metrics.restarts.WithLabelValues(c.o.Name).Inc()
			}
			err = c.converse(ctx, conn, h, opened)
			opened = true
			if time.Since(began) >= protocol.SteadyAfter {
				pause.Reset()
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		c.down(err, failed)
		if !c.rest(ctx, began, pause.Next(time.Now())) {
			return nil
		}
	}
}

// need says that a call, or whoever else is there, waits for the conversation.
func (c *Connector) need() { c.once.Do(func() { close(c.needed) }) }

// untilNeeded keeps the session of a client or a principal from opening before the
// call for which it is there has said so: a server may ask for roots first of all,
// and whose they are is told by the calls that are under way. One that gathers
// lists is needed from its beginning. It reports whether ctx has not ended.
func (c *Connector) untilNeeded(ctx context.Context) bool {
	if c.o.persona.gatherer() {
		return true
	}
	select {
	case <-c.needed:
		return true
	case <-ctx.Done():
		return false
	}
}

// connect makes one attempt, no longer than a call may be silent.
func (c *Connector) connect(ctx context.Context, d protocol.Dialer) (protocol.Conn, protocol.Hello, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout,
		fmt.Errorf("%w within %s", diagnose.ErrHandshakeTimeout, c.o.Timeout))
	defer cancel()
	c.o.persona.declareFor(ctx, c.o)
	conn, h, err := d.Dial(ctx, c.box)
	if err == nil {
		if err = c.o.Trail.met(c.o.life, h.Via); err != nil {
			over, end := context.WithCancel(ctx)
			end()
			conn.Run(over) // which ends it, and why is known
		}
	}
	if err != nil && ctx.Err() != nil {
		cause := context.Cause(ctx)
		if s, ok := errors.AsType[*diagnose.HandshakeError](err); ok {
			cause = &diagnose.HandshakeError{Err: cause, LastLine: s.LastLine, NonProtocolOutput: s.NonProtocolOutput}
		}
		err = cause
	}
	return conn, h, err
}

// converse lets calls through to a conversation, which may be another one after
// the first, until it is over, and returns why it is.
func (c *Connector) converse(ctx context.Context, conn protocol.Conn, h protocol.Hello, again bool) error {
	c.box.clear()
	if h.Revision.Era() == wire.EraLegacy && protocol.Declares(h.Capabilities, "logging") {
		c.volume.Store(newVolume(c.o, conn))
	}
	c.sessionKind.Store(uint32(conn.Traits().Sessions))
	alive, over := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		over(conn.Run(ctx))
	}()
	settled := make(chan struct{})
	settle := func() {
		defer close(settled)
		c.o.persona.settleIn(alive, conn)
		c.set(conn)
	}
	if c.o.persona.isHead() {
		go settle() // the catalog is gathered meanwhile
	} else {
		settle()
	}
	c.countUp(c.o.Metrics.opened)
	level := zap.InfoLevel
	if !c.o.persona.isHead() {
		level = zap.DebugLevel
	}
	c.o.Logger.Log(level, "connected", zap.String("revision", string(h.Revision)))
	c.leaveOut(h)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		c.keep(alive, conn, h)
	}()
	c.tend(alive, conn, h, again)
	<-done
	<-kept
	<-settled
	c.volume.Store(nil)
	c.countUp(c.o.Metrics.closed)
	c.set(nil)
	return context.Cause(alive)
}

// leaveOut tells which extensions of the server clients do not learn of.
func (c *Connector) leaveOut(h protocol.Hello) {
	names := protocol.UnrelayedExtensions(wire.ValueOf(h.Capabilities).Get("extensions"))
	if !c.o.persona.isHead() || len(names) == 0 {
		return
	}
	c.o.Metrics.left.WithLabelValues(c.o.Name).Add(float64(len(names)))
	c.o.Logger.Info("extensions of the server are not relayed, and not declared to clients", zap.Int("extensions", len(names)),
		zap.String("first", plaintext.Truncate(names[0], diagnose.MaxExcerpt)))
}

// countUp notes that there is a conversation, or none any more, where that counts
// as the upstream being up.
func (c *Connector) countUp(note func(upstream string)) {
	if c.o.persona.isHead() {
		note(c.o.Name)
	}
}

// set changes the conversation that calls find, and wakes those that wait for
// one.
func (c *Connector) set(conn protocol.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	if conn != nil {
		c.attempts++
	}
	c.wakeAll()
}

// down publishes that there is no conversation. If that is because an attempt
// failed, the calls that waited for it fail.
func (c *Connector) down(why error, attempted bool) {
	c.leave()
	reason := c.o.reason(downReason(why))
	level := zap.WarnLevel
	if s := c.Snapshot(); s.State == Down && s.Reason == reason {
		level = zap.DebugLevel // the same again at every attempt is no news
	}
	advice := plaintext.Truncate(c.o.Mask(c.o.advice(why)), diagnose.MaxText)
	c.o.Logger.Log(level, "no connection", zap.String("why", advice))
	if attempted { // before anybody hears of it: a call that comes then wants another attempt
		select {
		case <-c.wanted: // who wanted this attempt has its outcome
		default:
		}
		c.mu.Lock()
		c.attempts++
		c.mu.Unlock()
	}
	c.update(func(s *Snapshot) {
		s.Settled, s.Reason, s.Advice, s.Lost = true, reason, advice, !attempted && s.Up()
		if s.State != Down {
			s.State, s.Since = Down, time.Now()
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakeAll()
}

// wakeAll makes the calls that wait look again. The caller holds mu.
func (c *Connector) wakeAll() {
	close(c.turn)
	c.turn = make(chan struct{})
}

// rest waits between two attempts. It ends early when a call wants one, but
// never less than attemptGap after the last one began. It reports whether to go
// on.
func (c *Connector) rest(ctx context.Context, began time.Time, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-c.wanted:
	}
	timer.Reset(time.Until(began.Add(protocol.AttemptGap)))
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Connector) finish() {
	c.mu.Lock()
	c.ended = true
	c.wakeAll()
	c.mu.Unlock()
	c.update(func(s *Snapshot) {
		s.State, s.Since, s.Reason, s.Settled, s.Lost = Down, time.Now(), reasonEnded, true, false
	})
	c.leave()
	c.o.Metrics.ended(c.o.Name)
}

// leave forgets who is behind the upstream. It is the head's to say: all sessions
// lead to the same.
func (c *Connector) leave() {
	if c.o.persona.isHead() {
		c.o.Trail.left(c.o.life)
	}
}

// update is the one door through which the snapshot changes. The observer hears
// of it when it did.
func (c *Connector) update(change func(*Snapshot)) {
	c.publish.Lock()
	defer c.publish.Unlock()
	old := c.snap.Load()
	s := *old
	change(&s)
	if s.Same(old) {
		return
	}
	c.snap.Store(&s)
	close(c.news)
	c.news = make(chan struct{})
	switch p := c.o.persona; {
	case p.isHead() && c.o.Observer != nil:
		c.o.Observer.Changed(s)
	case !p.isHead() && p.gathers && c.o.Gathered != nil:
		c.o.Gathered(p.origin.Principal)
	}
}

// reasonEnded is what calls get after the connector's life.
const reasonEnded = "the gateway is no longer connected to this server"

// downReason tells users why there is no conversation. What a fault hides from
// clients stays hidden.
func downReason(err error) string {
	if f, ok := errors.AsType[*protocol.CallError](err); ok {
		return f.Reason
	}
	return err.Error()
}
