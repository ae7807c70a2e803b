package connector

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
)

// Lifetime says when the connection of a catalog session opens and ends. The zero value
// opens it immediately and keeps it open.
type Lifetime struct {
	// Lazy opens the connection when a call, subscription or task needs it. An upstream
	// whose catalog is unknown is connected once to gather it.
	Lazy bool
	// IdleStop ends the connection when nothing has needed it for so long; 0: never.
	IdleStop time.Duration
}

// limited reports whether the connection may end before the connector does.
func (l *Lifetime) limited() bool { return l.Lazy || l.IdleStop > 0 }

// gatherGrace is how long a connection that was opened only to gather the catalog stays
// open after the last list came: many servers add tools a moment after the handshake.
const gatherGrace = 2 * time.Second

// errUnused ends a conversation that nothing needs.
var errUnused = errors.New("nothing needs the connection")

// GatherSlots bound how many lazy connectors connect at the same time only to gather their
// catalogs. Many connectors may share them.
type GatherSlots chan struct{}

// NewGatherSlots returns slots for n connectors.
func NewGatherSlots(n int) GatherSlots { return make(GatherSlots, n) }

// usage says what needs the connection. Its fields may be used concurrently.
type usage struct {
	users    atomic.Int64  // calls, subscriptions and waits for the connection
	lastUse  atomic.Int64  // when a use last ended, in Unix nanoseconds; kept for a limited lifetime
	tasks    heldTasks     // of clients; kept for a limited lifetime
	begun    chan struct{} // capacity 1: awaitNeed has to look again
	changed  chan struct{} // capacity 1: checkUnused has to look again
	used     atomic.Bool   // something has needed the connection since the last attempt began
	outdated atomic.Bool   // the catalog has to be gathered again
}

// beginUse says that something needs the connection, until endUse is called.
func (c *Connector) beginUse() {
	if c.usage.users.Add(1) == 1 {
		protocol.Poke(c.usage.begun)
	}
	if !c.usage.used.Load() {
		c.usage.used.Store(true)
	}
}

func (c *Connector) endUse() {
	if c.lifetime.Load().limited() {
		c.usage.lastUse.Store(time.Now().UnixNano())
	}
	if c.usage.users.Add(-1); c.moving.Load() {
		protocol.Poke(c.usage.changed)
	}
}

// Use has the connection opened, and keeps it open until the caller calls end. It does
// not block.
func (c *Connector) Use() (end func()) {
	c.beginUse()
	return c.endUse
}

// HeldUntil returns until when tasks of clients need the connection, the zero time if
// there are none.
func (c *Connector) HeldUntil(now time.Time) time.Time { return c.usage.tasks.until(now) }

// Lifetime returns the present lifetime.
func (c *Connector) Lifetime() Lifetime { return *c.lifetime.Load() }

// SetLifetime changes the lifetime of the connection. It does not block.
func (c *Connector) SetLifetime(l Lifetime) {
	if before := *c.lifetime.Swap(&l); before != l {
		if !before.limited() {
			c.usage.lastUse.Store(time.Now().UnixNano())
		}
		protocol.Poke(c.usage.begun)
		protocol.Poke(c.usage.changed)
	}
}

// Regather has a connection that rests opened once to gather the catalog, unless that was
// gathered by this connector less than maxAge ago. It does not block.
func (c *Connector) Regather(maxAge time.Duration) {
	if c.Snapshot().State != Idle || time.Since(time.Unix(0, c.gathered.Load())) < maxAge {
		return
	}
	c.usage.outdated.Store(true)
	protocol.Poke(c.usage.begun)
}

// beginAttempt says that an attempt to connect begins. The caller is Run.
func (c *Connector) beginAttempt() {
	c.began = time.Now()
	c.signals.forgetReached()
	c.usage.used.Store(false)
	if c.usage.users.Load() > 0 {
		c.usage.used.Store(true)
	}
}

// observeTasks keeps the connection for the tasks that the answer to a call is about.
func (c *Connector) observeTasks(cl *call.Call, res call.Result) {
	if c.lifetime.Load().limited() && c.usage.tasks.observe(cl, res, time.Now()) {
		protocol.Poke(c.usage.changed)
	}
}

// opening is the state before an attempt to connect.
type opening struct {
	known  bool // the catalog is known, and no attempt has failed since
	opened bool // there was a conversation before
	unused bool // the last conversation ended because nothing needed it
}

// mayRest reports whether the connection may stay closed.
func (c *Connector) mayRest(o opening) bool {
	switch l := c.lifetime.Load(); {
	case c.usage.users.Load() > 0:
		return false
	case !c.gathersLists():
		// A server may ask for roots immediately, and the calls that run say whose roots
		// those are, so a session that gathers no lists opens with its first call.
		return !o.opened
	case !c.isCatalogSession() || !o.known || c.usage.outdated.Load():
		return false
	default:
		return l.Lazy || o.unused && l.IdleStop > 0
	}
}

// awaitNeed waits until the connection has to be opened. It reports whether the connection
// rested, and returns false if ctx ends first.
func (c *Connector) awaitNeed(ctx context.Context, o opening) (rested, ok bool) {
	for c.mayRest(o) {
		if !rested {
			rested = true
			defer c.setIdle(ctx, o)()
		}
		select {
		case <-c.usage.begun:
		case <-ctx.Done():
			return rested, false
		}
	}
	return rested, c.takeGatherSlot(ctx)
}

// takeGatherSlot waits for a slot if the connection is opened only to gather the catalog.
// It returns false if ctx ends first.
func (c *Connector) takeGatherSlot(ctx context.Context) bool {
	for c.o.Start.GatherSlots != nil && c.isCatalogSession() && c.lifetime.Load().Lazy && c.usage.users.Load() == 0 {
		select {
		case c.o.Start.GatherSlots <- struct{}{}:
			c.hasGatherSlot = true
			return true
		case <-c.usage.begun:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// releaseGatherSlot gives the slot back, if the connector has one.
func (c *Connector) releaseGatherSlot() {
	if c.hasGatherSlot {
		<-c.o.Start.GatherSlots
		c.hasGatherSlot = false
	}
}

// setIdle publishes that the upstream is not connected because nothing needs it. The
// caller calls wake before the next attempt.
func (c *Connector) setIdle(ctx context.Context, o opening) (wake func()) {
	if !c.isCatalogSession() {
		return func() {}
	}
	c.leave()
	c.o.Metrics.rests(c.o.Name)
	c.update(func(s *state) {
		shot := &s.snapshot
		shot.State, shot.Since, shot.Settled, shot.Lost, shot.Advice = Idle, time.Now(), true, false, ""
		if !o.unused {
			shot.Reason = ""
		}
	})
	level := zap.DebugLevel // of an upstream that was not started yet
	if o.opened {
		level = zap.InfoLevel
	}
	began := time.Now()
	c.o.Logger.Log(level, "the upstream is idle: nothing needs it")
	return func() {
		c.o.Metrics.wakes(c.o.Name)
		if ctx.Err() != nil {
			return
		}
		c.o.Logger.Info("the upstream is started: it is needed", zap.Duration("idle", time.Since(began)))
		c.update(func(s *state) {
			s.snapshot.State, s.snapshot.Since, s.snapshot.Reason = Connecting, time.Now(), ""
		})
	}
}

// checkUnused returns after how long the conversation has to be checked again for whether
// anything needs it; ok is false if it stays open. If rest is set, nothing needs it now.
// gathered says when the last list came.
func (c *Connector) checkUnused(gathered, now time.Time) (after time.Duration, rest, ok bool) {
	l := c.lifetime.Load()
	if !c.isCatalogSession() || !l.limited() {
		return 0, false, false
	}
	busy, lastUse := c.usage.users.Load() > 0, time.Unix(0, c.usage.lastUse.Load())
	quiet, since := l.IdleStop, c.began
	if lastUse.After(since) {
		since = lastUse
	}
	if l.Lazy && !c.usage.used.Load() && c.Snapshot().State == Ready {
		quiet, since = gatherGrace, gathered // it was opened only to gather the catalog
	}
	switch end := since.Add(quiet); {
	case quiet == 0:
		return 0, false, false
	case busy:
		return quiet, false, true
	default:
		if held := c.HeldUntil(now); held.After(end) {
			end = held
		}
		return end.Sub(now), !now.Before(end), true
	}
}

// retire takes the conversation from calls to come if nothing needs it. It returns false
// if a call has begun meanwhile, which may have found the conversation.
func (c *Connector) retire(conn protocol.Conn) bool {
	c.set(nil)
	if c.usage.users.Load() == 0 {
		return true
	}
	c.set(conn)
	return false
}
