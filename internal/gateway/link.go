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
type link struct {
	name     string // of the upstream
	key      string // digest of what is configured of the connection, which names what is remembered of it; "" for the demo
	sessions *upstream.Sessions
	source   *credentials.Source               // what proves the gateway to it; nil: headers alone
	last     atomic.Pointer[upstream.Snapshot] // what the connector said last

	deadline time.Time     // until then the first attempt is waited for
	begun    time.Time     // when it began to run
	took     atomic.Int64  // the first attempt, in nanoseconds; 0 while that goes on
	started  chan struct{} // closed when the first attempt has ended

	// before returns the catalog of an earlier run, nil if none was kept.
	before func() *statedir.Catalog

	// The rest is the control loop's own.

	end   context.CancelFunc // nil before it was started
	ended chan struct{}      // closed when nothing of it is left
	seen  upstream.Snapshot  // as it was when the last table was made
	kept  upstream.Catalog   // what was last remembered
}

// hearer hears what happens at a link.
type hearer struct {
	*Gateway
	link *link
}

// Changed implements upstream.Observer.
func (h hearer) Changed(s upstream.Snapshot) {
	h.link.last.Store(&s)
	h.observe(h.link, s)
	h.wake()
}

// newLink makes the connection that o describes. It does nothing before start.
func (g *Gateway) newLink(key string, o upstream.Options) *link {
	l := &link{name: o.Name, key: key, ended: make(chan struct{}), started: make(chan struct{}), deadline: time.Now().Add(g.cfg.StartupWait)}
	l.before = sync.OnceValue(func() *statedir.Catalog { return g.state.Catalog(key) })
	o.Observer, o.Gathered = hearer{g, l}, g.ownChanged
	l.sessions = upstream.NewSessions(o)
	if o.HTTP != nil {
		l.source, _ = o.HTTP.Credentials.(*credentials.Source)
	}
	l.sessions.SetLogLevel(g.loudest())
	return l
}

// snapshot is what is known of the upstream now.
func (l *link) snapshot() upstream.Snapshot {
	if s := l.last.Load(); s != nil {
		return *s
	}
	return l.sessions.Snapshot()
}

// serves reports whether an upstream of which that is known has a catalog that it can
// serve, or could a moment ago.
func serves(s upstream.Snapshot) bool {
	return s.Up() || s.Lost && s.Revision != ""
}

// start has the link work until life ends, or retire.
func (g *Gateway) start(life context.Context, l *link) {
	life, l.end = context.WithCancel(life)
	l.begun = time.Now()
	g.group.Go(func() error {
		defer close(l.ended)
		return l.sessions.Run(life)
	})
}
