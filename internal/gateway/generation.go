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
	"mcpgateway/internal/router"
	"mcpgateway/internal/ruleset"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/upstream/connector"
)

// generation is one configuration in force. It is immutable, except for the connections
// that are active.
type generation struct {
	cfg *config.Config
	*ruleset.Rules
	entries []*upstreamEntry // in the order of the configuration

	// settled is closed by the control loop when no new connection is awaited:
	// each has ended its first attempt or used up its time to start. It is closed as well
	// when another generation replaces this one.
	settled chan struct{}

	// See logUnmatchedGlobs; used by the control loop only.
	globsListed map[string]bool // the upstreams that had listed their items at a check
	globsLogged map[string]bool // the places of the globs that were logged
}

// upstreamEntry is one upstream in a generation.
type upstreamEntry struct {
	name     string
	space    *namespace.Naming
	required bool
	rules    catalog.Rules
	options  upstream.Options
	lifetime connector.Lifetime
	health   connector.HealthSettings
	unset    []config.UnsetVariable // why it cannot be connected to
	pins     *pins.Store            // the accepted tools, nil if the upstream is not pinned
	bare     bool                   // tools are pinned without default values

	// conn is the connection that the configuration asks for.
	conn *connection
	// active is the connection that calls use. While conn makes its first attempt, the
	// connection of the generation before stays active if it works: an upstream does not
	// disappear because its configuration has changed.
	active atomic.Pointer[connection]
}

// pins returns the accepted tools of pinned upstreams, nil if no upstream is pinned.
func (gen *generation) pins() *pins.Store {
	for _, e := range gen.entries {
		if e.pins != nil {
			return e.pins
		}
	}
	return nil
}

// entry returns the upstream with this name, nil if there is none. gen may be nil.
func (gen *generation) entry(name string) *upstreamEntry {
	if gen != nil {
		for _, e := range gen.entries {
			if e.name == name {
				return e
			}
		}
	}
	return nil
}

// connections returns every connection that is in use, with its entry.
func (gen *generation) connections() map[*connection]*upstreamEntry {
	out := make(map[*connection]*upstreamEntry, len(gen.entries))
	for _, e := range gen.entries {
		out[e.conn], out[e.active.Load()] = e, e
	}
	return out
}

// newGeneration makes a generation of a configuration. It reuses the connections of the
// generation before, which may be nil. New connections are not started. If it fails,
// nothing has changed.
func (g *Gateway) newGeneration(cfg *config.Config, before *generation) (*generation, error) {
	if !g.stdio {
		if err := cfg.CheckLoops(); err != nil {
			return nil, err
		}
	}
	gen := &generation{cfg: cfg, settled: make(chan struct{})}
	var err error
	if gen.entries, err = g.newEntries(cfg); err != nil {
		return nil, err
	}
	if gen.Rules, err = ruleset.New(cfg); err != nil {
		return nil, err
	}
	for _, e := range gen.entries {
		g.bindConnection(e, before.entry(e.name))
	}
	return gen, nil
}

// bindConnection finds the connections of an entry: those of the entry before, which may
// be nil, where the configuration of the connection is the same.
func (g *Gateway) bindConnection(e, before *upstreamEntry) {
	key := e.options.EraKey
	var active *connection
	if before != nil {
		active = before.active.Load()
		for _, c := range []*connection{before.conn, active} {
			if c.key == key && e.conn == nil {
				e.conn = c
			}
		}
	}
	if e.conn == nil {
		e.conn = g.newConnection(key, e.options, e.lifetime, e.health)
	}
	if active == nil {
		active = e.conn
	}
	e.active.Store(active)
}

// activate makes the connections active that need not be awaited. It returns when
// the wait for the next one ends, zero if none is awaited.
func (gen *generation) activate(now time.Time, gathered snapshots) (waitUntil time.Time) {
	for _, e := range gen.entries {
		awaited := !gathered[e.conn].Settled && now.Before(e.conn.deadline)
		if awaited && (waitUntil.IsZero() || e.conn.deadline.Before(waitUntil)) {
			waitUntil = e.conn.deadline
		}
		if active := e.active.Load(); active != e.conn && (!awaited || !hasCatalog(gathered[active])) {
			e.active.Store(e.conn)
		}
	}
	return waitUntil
}

// terms returns the settings of asks and request states.
func (gen *generation) terms() router.BridgeSettings {
	return router.BridgeSettings{
		StateTTL: gen.cfg.Bridge.StateTTL, AskTimeout: gen.cfg.Bridge.AskTimeout, Unlabeled: !gen.cfg.Asks.Label,
	}
}

// newEntries translates the upstreams of a configuration, or of the demo. The entries have
// no connections yet.
func (g *Gateway) newEntries(cfg *config.Config) (entries []*upstreamEntry, err error) {
	add := func(e *upstreamEntry, prefix string) {
		if err == nil {
			e.space, err = namespace.New(e.name, prefix, cfg.Namespace.Separator)
		}
		entries = append(entries, e)
	}
	if g.demo {
		for _, s := range demo.Servers() {
			add(&upstreamEntry{name: s.Name, options: g.demoOptions(s)}, s.Name)
		}
		return entries, err
	}
	var accepted *pins.Store // shared by all pinned upstreams
	for _, u := range cfg.Upstreams {
		if u.Disabled {
			g.log.Info("upstream is disabled", zap.String("upstream", u.Name))
			continue
		}
		o, optionsErr := g.optionsOf(u)
		if optionsErr != nil {
			return nil, optionsErr
		}
		e := &upstreamEntry{name: u.Name, required: u.Required, rules: ruleset.Items(u), options: o, lifetime: lifetimeOf(u), health: healthOf(u), unset: u.Unset, bare: !u.PinDefaults}
		if u.Pin {
			if accepted == nil {
				if accepted, optionsErr = pins.Open(g.state.Path(), g.log); optionsErr != nil {
					return nil, optionsErr
				}
			}
			e.pins = accepted
			if e.bare {
				accepted.IgnoreDefaults(u.Name)
			}
			g.metrics.held.WithLabelValues(u.Name) // counted from 0, see newMetrics
		}
		add(e, u.EffectivePrefix())
	}
	return entries, err
}
