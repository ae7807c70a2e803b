package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/router"
	"mcpgateway/internal/statedir"
	"mcpgateway/internal/tlsfiles"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/upstream/connector"
)

// connection is the connection to one upstream, with all its sessions. It outlives a
// generation if the next one configures the connection in the same way.
type connection struct {
	name        string // of the upstream
	key         string // digest of the connection's configuration, which names the remembered state; "" for the demo
	sessions    *upstream.Sessions
	subscriber  router.Subscriber                  // sessions, or that of all replicas
	health      *connector.Health                  // of the sessions
	credentials *credentials.Source                // the credentials that depend on the principal, nil for static headers
	tls         *tlsfiles.Files                    // toward the upstream, nil without files of its own
	latest      atomic.Pointer[connector.Snapshot] // the latest from the connector

	deadline    time.Time     // the end of the wait for the first attempt
	begin       time.Time     // when the connection was started
	attemptTook atomic.Int64  // duration of the first attempt in nanoseconds, 0 while it goes on
	attempted   chan struct{} // closed when the first attempt has ended

	lastTrouble atomic.Pointer[inspect.Trouble]    // nil before the first error
	lastFailed  atomic.Pointer[inspect.FailedCall] // nil before the first one

	// remembered returns the catalog of an earlier run, nil if there is none.
	remembered func() *statedir.Catalog

	// The control loop alone uses the fields below.

	cancel         context.CancelFunc  // nil before the start
	ended          chan struct{}       // closed when all goroutines of the connection have ended
	lastSeen       connector.Snapshot  // the snapshot in the last table
	lastRemembered *connector.Snapshot // what was last remembered, nil for nothing in this run
}

// connectionObserver receives the events of a connection.
type connectionObserver struct {
	*Gateway
	conn *connection
}

// Changed implements upstream.Observer.
func (o connectionObserver) Changed(s connector.Snapshot) {
	o.conn.latest.Store(&s)
	o.observe(o.conn, s)
	o.requestRebuild()
}

// newConnection makes a connection, which does nothing before startConnection.
func (g *Gateway) newConnection(key string, o upstream.Options, l connector.Lifetime, health connector.HealthSettings) *connection {
	c := &connection{
		name: o.Name, key: key, health: connector.NewHealth(health),
		ended: make(chan struct{}), attempted: make(chan struct{}), deadline: time.Now().Add(g.cfg.StartupWait),
	}
	c.remembered = sync.OnceValue(func() *statedir.Catalog { return g.state.Catalog(key) })
	o.Lifetime, o.GatherSlots = l, g.gatherSlots
	if l.Lazy {
		o.Remembered = c.rememberedSnapshot()
	}
	o.Observer, o.Gathered = connectionObserver{g, c}, g.principals.ListsChanged
	o.Health = c.health
	c.sessions = upstream.NewSessions(o)
	c.subscriber = c.sessions
	if g.sharing != nil {
		c.subscriber = g.sharing.held.Subscriber(o.Name, c.sessions)
	}
	if o.HTTP != nil {
		c.credentials, _ = o.HTTP.Credentials.(*credentials.Source)
		c.tls, _ = o.HTTP.TLS.(*tlsfiles.Files)
	}
	c.sessions.SetLogLevel(g.currentLogLevel())
	return c
}

// snapshot returns the latest snapshot of the upstream.
func (c *connection) snapshot() connector.Snapshot {
	if s := c.latest.Load(); s != nil {
		return *s
	}
	return c.sessions.Snapshot()
}

// Name implements personal.Upstream.
func (c *connection) Name() string { return c.name }

// Gather implements personal.Upstream.
func (c *connection) Gather(ctx context.Context, on *call.Call) {
	if c.credentials == nil || !on.WithoutGrants && !c.credentials.NeedsGrant(on.Principal) {
		c.sessions.Gather(ctx, on)
	}
}

// Own implements personal.Upstream.
func (c *connection) Own(key string) (connector.Snapshot, *call.Principal, bool) {
	return c.sessions.Own(key)
}

// NeedsGrant implements personal.Upstream.
func (c *connection) NeedsGrant(p *call.Principal) bool {
	return c.credentials != nil && c.credentials.NeedsGrant(p)
}

// hasCatalog reports whether an upstream has a catalog that it can serve, or could serve
// until it was lost a moment ago.
func hasCatalog(s connector.Snapshot) bool {
	return s.Available() || s.Lost && s.Revision != ""
}

// startConnection runs a connection until life ends or retireConnections cancels it.
func (g *Gateway) startConnection(life context.Context, c *connection) {
	life, c.cancel = context.WithCancel(life)
	c.begin = time.Now()
	g.group.Go(func() error {
		defer close(c.ended)
		return c.sessions.Run(life)
	})
}
