package connector

import (
	"context"
	"time"

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

// Retry has the next attempt made soon, if there is no conversation. It does not block.
func (c *Connector) Retry() { protocol.Poke(c.signals.attempt) }

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
