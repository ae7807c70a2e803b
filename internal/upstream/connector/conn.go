package connector

import (
	"context"
	"fmt"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
)

// Notify sends a notification without params in the present conversation, if there is
// one. It does not block.
func (c *Connector) Notify(method string) {
	if conn := c.current(); conn != nil {
		conn.Notify(method)
	}
}

// Probe has the conversation check whether the server is alive, if there is a
// conversation. It does not block.
func (c *Connector) Probe(why protocol.Suspicion) {
	if conn := c.current(); conn != nil {
		conn.Probe(why)
	}
}

// probe has this session and those that depend on the same server check whether it is
// alive.
func (c *Connector) probe(why protocol.Suspicion) {
	c.Probe(why)
	c.o.Session.Suspect(why)
}

// SessionKind returns the kind of an additional session with the server, as the last
// conversation showed.
func (c *Connector) SessionKind() protocol.SessionKind {
	return protocol.SessionKind(c.sessionKind.Load())
}

// Retry has the next attempt made soon if an attempt is due later: to connect, or to gather the lists that have failed.
// It does not block.
func (c *Connector) Retry() {
	if c.current() == nil || c.isDegraded() {
		protocol.Poke(c.signals.attempt)
	}
}

// retryCatalogSession has the session that gathers the catalog connect soon if it rests after a failure, or gather the
// lists that have failed, since this session with the same server works.
func (c *Connector) retryCatalogSession() {
	if b := c.o.Beside; b != nil && (b.current() == nil || b.isDegraded()) {
		protocol.Poke(b.signals.reached)
	}
}

// Refuses reports whether the circuit breaker of the session refuses calls now.
func (c *Connector) Refuses() bool { return c.breaker.refuses(time.Now()) }

// isDegraded reports whether a list of the connector has failed.
func (c *Connector) isDegraded() bool { return c.published.Load().State == Degraded }

// AwaitSettled waits until the first attempt to gather lists has ended, at most
// StartupWait.
func (c *Connector) AwaitSettled(ctx context.Context) {
	timer := time.NewTimer(c.o.Limits.StartupWait)
	defer timer.Stop()
	for {
		var settled bool
		var changed chan struct{}
		c.view(func(s *state) { settled, changed = s.snapshot.Settled, c.changed })
		if settled {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Reconnect has an attempt to connect made for a call whose item is not known yet, because the
// lists of the server are not. The call is not sent. Reconnect waits until the attempt has failed, or
// StartupWait is over: the caller ends ctx when it sees the lists. The attempts are as limited as
// those for calls that are sent: the call takes a slot meanwhile, its failure counts for the
// breaker, and an open breaker refuses it. The error is that of [Connector.Do].
func (c *Connector) Reconnect(ctx context.Context, cl *call.Call) error {
	_, err := c.do(ctx, cl, c.awaitLists)
	return err
}

// awaitLists acquires a slot, and waits for the connection and then for the end of the call, at most
// StartupWait in all.
func (c *Connector) awaitLists(g *callGuard, cl *call.Call, _ bool) (call.Result, error) {
	ctx := context.Context(&g.Scope)
	if err := c.acquireSlot(g, c.slots, cl); err != nil {
		return call.Result{}, err
	}
	g.holdSlot(c.slots)
	limit := time.NewTimer(c.o.Limits.StartupWait)
	defer limit.Stop()
	conn, err := c.awaitFor(ctx, g, cl, nil)
	if err != nil {
		return call.Result{}, err
	}
	for c.current() == conn {
		var changed chan struct{}
		c.view(func(*state) { changed = c.changed })
		if c.current() != conn {
			break
		}
		select {
		case <-changed:
		case <-limit.C:
			return call.Result{}, &protocol.CallError{Reason: fmt.Sprintf("the server has not answered its lists after %s", c.o.Limits.StartupWait), NotSent: true}
		case <-ctx.Done():
			return call.Result{}, c.expiredWaiting(ctx)
		}
	}
	return call.Result{}, c.unavailable(protocol.ReasonConnectionLost)
}
