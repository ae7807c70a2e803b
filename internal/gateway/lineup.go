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
type lineup struct {
	cfg     *config.Config
	policy  *policy.Policy
	members []*member // in file order

	// settled is closed when the first attempts of all links that are new have
	// ended or were waited for long enough, or another lineup is in its place. The
	// control loop closes it.
	settled chan struct{}

	surveyed bool // see logIdle; of the control loop
}

// member is one upstream as a lineup holds it.
type member struct {
	name     string
	space    *namespace.Space
	required bool
	filter   policy.Upstream
	rules    catalog.Rules
	options  upstream.Options
	pins     *pins.Store // its tools are published as they were accepted; nil: as they are

	link *link
	// serving is the link that calls go to. While link makes its first attempt it
	// is that of the lineup before, if there is one that serves, so that an
	// upstream does not go for a moment because its configuration has changed.
	serving atomic.Pointer[link]
}

// pins returns what is accepted of pinned upstreams, nil when none is pinned.
func (l *lineup) pins() *pins.Store {
	for _, m := range l.members {
		if m.pins != nil {
			return m.pins
		}
	}
	return nil
}

// member returns the member with this name, nil when there is none.
func (l *lineup) member(name string) *member {
	if l != nil {
		for _, m := range l.members {
			if m.name == name {
				return m
			}
		}
	}
	return nil
}

// links returns every link that is in use, each once.
func (l *lineup) links() map[*link]*member {
	out := make(map[*link]*member, len(l.members))
	for _, m := range l.members {
		out[m.link], out[m.serving.Load()] = m, m
	}
	return out
}

// plan makes of a configuration what takes the place of was, which may be nil. The
// links that are new do nothing yet. Nothing has changed when there is an error.
func (g *Gateway) plan(cfg *config.Config, was *lineup) (*lineup, error) {
	if !g.stdio {
		if err := cfg.CheckLoops(); err != nil {
			return nil, err
		}
	}
	next := &lineup{cfg: cfg, settled: make(chan struct{})}
	var err error
	if next.members, err = g.members(cfg); err != nil {
		return nil, err
	}
	if next.policy, err = newPolicy(cfg, next.members); err != nil {
		return nil, err
	}
	for _, m := range next.members {
		m.connect(g, was.member(m.name))
	}
	return next, nil
}

// connect finds the links of a member: what the member had that was here before,
// if that is still right.
func (m *member) connect(g *Gateway, before *member) {
	key := m.options.EraKey
	var serving *link
	if before != nil {
		serving = before.serving.Load()
		for _, l := range []*link{before.link, serving} {
			if l.key == key && m.link == nil {
				m.link = l
			}
		}
	}
	if m.link == nil {
		m.link = g.newLink(key, m.options)
	}
	if serving == nil {
		serving = m.link
	}
	m.serving.Store(serving)
}

// takeOver lets the links serve that need not be waited for any more, by what is known
// of all of them. It returns until when the next one is waited for, zero when there is
// none.
func (l *lineup) takeOver(now time.Time, snapshots map[*link]upstream.Snapshot) (until time.Time) {
	for _, m := range l.members {
		waits := !snapshots[m.link].Settled && now.Before(m.link.deadline)
		if waits && (until.IsZero() || m.link.deadline.Before(until)) {
			until = m.link.deadline
		}
		if serving := m.serving.Load(); serving != m.link && (!waits || !serves(snapshots[serving])) {
			m.serving.Store(m.link)
		}
	}
	return until
}

// terms are what the configuration says of questions and states.
func (l *lineup) terms() router.Terms {
	return router.Terms{
		StateTTL: l.cfg.Bridge.StateTTL, AskTimeout: l.cfg.Bridge.AskTimeout, Unlabelled: !l.cfg.Asks.Label,
	}
}

// members translates the upstreams of a configuration, or of the demo. They have
// no links yet.
func (g *Gateway) members(cfg *config.Config) (members []*member, err error) {
	add := func(m *member, prefix string) {
		if err == nil {
			m.space, err = namespace.New(m.name, prefix, cfg.Namespace.Separator)
		}
		members = append(members, m)
	}
	if g.demo {
		for _, s := range demo.Servers() {
			add(&member{name: s.Name, options: g.demoOptions(s)}, s.Name)
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
		m := &member{name: u.Name, required: u.Required, filter: filterOf(u), rules: rulesOf(u), options: o}
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
