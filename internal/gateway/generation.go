package gateway

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/demo"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/pins"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
)

// lineup is a configuration at work. It is immutable but for which links serve.
type generation struct {
	cfg     *config.Config
	policy  *policy.Policy
	entries []*upstreamEntry // in file order

	// settled is closed when the first attempts of all links that are new have
	// ended or were waited for long enough, or another lineup is in its place. The
	// control loop closes it.
	settled chan struct{}

	globsChecked bool // see logIdle; of the control loop
}

// member is one upstream as a lineup holds it.
type upstreamEntry struct {
	name     string
	space    *namespace.Space
	required bool
	filter   policy.Upstream
	rules    catalog.Rules
	options  upstream.Options
	pins     *pins.Store // its tools are published as they were accepted; nil: as they are

	conn *connection
	// serving is the link that calls go to. While link makes its first attempt it
	// is that of the lineup before, if there is one that serves, so that an
	// upstream does not go for a moment because its configuration has changed.
	active atomic.Pointer[connection]
}

// pins returns what is accepted of pinned upstreams, nil when none is pinned.
func (l *generation) pins() *pins.Store {
	for _, m := range l.entries {
		if m.pins != nil {
			return m.pins
		}
	}
	return nil
}

// member returns the member with this name, nil when there is none.
func (l *generation) entry(name string) *upstreamEntry {
	if l != nil {
		for _, m := range l.entries {
			if m.name == name {
				return m
			}
		}
	}
	return nil
}

// links returns every link that is in use, each once.
func (l *generation) connections() map[*connection]*upstreamEntry {
	out := make(map[*connection]*upstreamEntry, len(l.entries))
	for _, m := range l.entries {
		out[m.conn], out[m.active.Load()] = m, m
	}
	return out
}

// plan makes of a configuration what takes the place of was, which may be nil. The
// links that are new do nothing yet. Nothing has changed when there is an error.
func (g *Gateway) newGeneration(cfg *config.Config, was *generation) (*generation, error) {
	if !g.stdio {
		if err := cfg.CheckLoops(); err != nil {
			return nil, err
		}
	}
	next := &generation{cfg: cfg, settled: make(chan struct{})}
	var err error
	if next.entries, err = g.newEntries(cfg); err != nil {
		return nil, err
	}
	if next.policy, err = newPolicy(cfg, next.entries); err != nil {
		return nil, err
	}
	for _, m := range next.entries {
		m.bindConnection(g, was.entry(m.name))
	}
	return next, nil
}

// connect finds the links of a member: what the member had that was here before,
// if that is still right.
func (m *upstreamEntry) bindConnection(g *Gateway, before *upstreamEntry) {
	key := m.options.EraKey
	var serving *connection
	if before != nil {
		serving = before.active.Load()
		for _, l := range []*connection{before.conn, serving} {
			if l.key == key && m.conn == nil {
				m.conn = l
			}
		}
	}
	if m.conn == nil {
		m.conn = g.newConnection(key, m.options)
	}
	if serving == nil {
		serving = m.conn
	}
	m.active.Store(serving)
}

// takeOver lets the links serve that need not be waited for any more, by what is known
// of all of them. It returns until when the next one is waited for, zero when there is
// none.
func (l *generation) activate(now time.Time, snapshots map[*connection]upstream.Snapshot) (until time.Time) {
	for _, m := range l.entries {
		waits := !snapshots[m.conn].Settled && now.Before(m.conn.deadline)
		if waits && (until.IsZero() || m.conn.deadline.Before(until)) {
			until = m.conn.deadline
		}
		if serving := m.active.Load(); serving != m.conn && (!waits || !hasCatalog(snapshots[serving])) {
			m.active.Store(m.conn)
		}
	}
	return until
}

// terms are what the configuration says of questions and states.
func (l *generation) terms() router.Terms {
	return router.Terms{
		StateTTL: l.cfg.Bridge.StateTTL, AskTimeout: l.cfg.Bridge.AskTimeout, Unlabelled: !l.cfg.Asks.Label,
	}
}

// members translates the upstreams of a configuration, or of the demo. They have
// no links yet.
func (g *Gateway) newEntries(cfg *config.Config) (members []*upstreamEntry, err error) {
	add := func(m *upstreamEntry, prefix string) {
		if err == nil {
			m.space, err = namespace.New(m.name, prefix, cfg.Namespace.Separator)
		}
		members = append(members, m)
	}
	if g.demo {
		for _, s := range demo.Servers() {
			add(&upstreamEntry{name: s.Name, options: g.demoOptions(s)}, s.Name)
		}
		return members, err
	}
	var accepted *pins.Store // of all upstreams
	for _, u := range cfg.Upstreams {
		if u.Disabled {
			g.log.Info("upstream is disabled", zap.String("upstream", u.Name))
			continue
		}
		o, wrong := g.options(u)
		if wrong != nil {
			return nil, wrong
		}
		m := &upstreamEntry{name: u.Name, required: u.Required, filter: filterOf(u), rules: rulesOf(u), options: o}
		if u.Pin && accepted == nil {
			if accepted, wrong = pins.Open(g.state.Path(), g.log); wrong != nil {
				return nil, wrong
			}
		}
		if u.Pin {
			m.pins = accepted
			g.metrics.held.WithLabelValues(u.Name) // counted from 0 on, as reloads are
		}
		add(m, u.EffectivePrefix())
	}
	return members, err
}
