package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/credentials"
	"mcpgateway/internal/statedir"
	"mcpgateway/internal/upstream"
)

// link is the connection to one upstream. It serves one configuration after
// another, for as long as what they say of the connection is the same.
type connection struct {
	name     string // of the upstream
	key      string // digest of what is configured of the connection, which names what is remembered of it; "" for the demo
	sessions *upstream.Sessions
	source   *credentials.Source               // what proves the gateway to it; nil: headers alone
	latest   atomic.Pointer[upstream.Snapshot] // what the connector said last

	deadline    time.Time     // until then the first attempt is waited for
	begin       time.Time     // when it began to run
	attemptTook atomic.Int64  // the first attempt, in nanoseconds; 0 while that goes on
	attempted   chan struct{} // closed when the first attempt has ended

	// before returns the catalog of an earlier run, nil if none was kept.
	remembered func() *statedir.Catalog

	// The rest is the control loop's own.

	cancel         context.CancelFunc // nil before it was started
	ended          chan struct{}      // closed when nothing of it is left
	lastSeen       upstream.Snapshot  // as it was when the last table was made
	lastRemembered upstream.Catalog   // what was last remembered
}

// hearer hears what happens at a link.
type connectionObserver struct {
	*Gateway
	link *connection
}

// Changed implements upstream.Observer.
func (h connectionObserver) Changed(s upstream.Snapshot) {
	h.link.latest.Store(&s)
	h.observe(h.link, s)
	h.requestRebuild()
}

// newLink makes the connection that o describes. It does nothing before start.
func (g *Gateway) newConnection(key string, o upstream.Options) *connection {
	l := &connection{name: o.Name, key: key, ended: make(chan struct{}), attempted: make(chan struct{}), deadline: time.Now().Add(g.cfg.StartupWait)}
	l.remembered = sync.OnceValue(func() *statedir.Catalog { return g.state.Catalog(key) })
	o.Observer, o.Gathered = connectionObserver{g, l}, g.principalListsChanged
	l.sessions = upstream.NewSessions(o)
	if o.HTTP != nil {
		l.source, _ = o.HTTP.Credentials.(*credentials.Source)
	}
	l.sessions.SetLogLevel(g.currentLogLevel())
	return l
}

// snapshot is what is known of the upstream now.
func (l *connection) snapshot() upstream.Snapshot {
	if s := l.latest.Load(); s != nil {
		return *s
	}
	return l.sessions.Snapshot()
}

// serves reports whether an upstream of which that is known has a catalog that it can
// serve, or could a moment ago.
func hasCatalog(s upstream.Snapshot) bool {
	return s.Up() || s.Lost && s.Revision != ""
}

// start has the link work until life ends, or retire.
func (g *Gateway) startConnection(life context.Context, l *connection) {
	life, l.cancel = context.WithCancel(life)
	l.begin = time.Now()
	g.group.Go(func() error {
		defer close(l.ended)
		return l.sessions.Run(life)
	})
}
