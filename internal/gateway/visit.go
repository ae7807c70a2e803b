package gateway

import (
	"context"
	"errors"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/pins"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// UpstreamStatus is how an upstream is, for those who run the gateway.
type UpstreamStatus struct {
	Name     string
	State    upstream.State
	Revision wire.Revision   // "" before the first conversation
	Server   wire.Raw        // serverInfo, nil when the server gave none
	Items    [call.Kinds]int // that it lists
	Reason   string          // why it is degraded or down, or seems to come to nothing, and what to do about it
	Took     time.Duration   // its first attempt; 0 while that goes on
	Required bool
}

// Visit is a gateway that serves one visitor in the process, and nobody else. Its
// methods may be called by many goroutines at once, as long as [Gateway.Visit]
// has not returned.
type Visit struct{ g *Gateway }

// Visit runs the upstreams while visit does, and returns its error. The context
// of visit ends with ctx. A gateway that is made for a visit is one with
// Options.Stdio, so that it listens nowhere.
func (g *Gateway) Visit(ctx context.Context, visit func(ctx context.Context, v *Visit) error) error {
	defer g.Close()
	return g.runAll(ctx, func(life context.Context) error {
		both, cancel := context.WithCancelCause(life)
		defer cancel(nil)
		stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		defer stop()
		return visit(both, &Visit{g})
	})
}

// Started waits until every upstream has ended its first attempt, or ctx ends.
func (v *Visit) Started(ctx context.Context) error {
	for _, m := range v.g.lineup.Load().members {
		select {
		case <-m.link.started:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Upstreams says how the upstreams are now, in file order.
func (v *Visit) Upstreams() []UpstreamStatus { return v.g.Upstreams() }

// Upstreams says how the upstreams are now, in file order.
func (g *Gateway) Upstreams() []UpstreamStatus {
	var out []UpstreamStatus
	for _, m := range g.lineup.Load().members {
		out = append(out, m.status(m.link.snapshot()))
	}
	return out
}

// Table is what the upstreams offer now.
func (v *Visit) Table() *catalog.Table { return v.g.tableNow(false) }

// Call makes a call as if a client had. The error is a *wire.Error or that of ctx.
func (v *Visit) Call(ctx context.Context, c *call.Call) (call.Result, error) {
	return v.g.router.Handle(ctx, c)
}

// Direct sends a request to an upstream, past everything that stands between it
// and clients: names are native.
func (v *Visit) Direct(ctx context.Context, upstream string, c *call.Call) (call.Result, error) {
	return v.g.router.Routes().Upstreams[upstream].Do(ctx, c)
}

// status translates what the connector knows.
func (m *member) status(s upstream.Snapshot) UpstreamStatus {
	u := UpstreamStatus{
		Name: m.name, State: s.State, Revision: s.Revision, Server: s.Info, Required: m.required, Reason: s.Reason,
		Took: time.Duration(m.link.took.Load()),
		Items: [call.Kinds]int{
			call.Tool: len(s.Catalog.Tools), call.Resource: len(s.Catalog.Resources),
			call.Template: len(s.Catalog.Templates), call.Prompt: len(s.Catalog.Prompts),
		},
	}
	if (s.State == upstream.Down || s.State == upstream.Connecting) && s.Reason != "" && s.Advice != "" {
		u.Reason = s.Advice
	}
	return u
}

// note remembers when an upstream has ended its first attempt, and tells whoever
// wants to know how it is. The snapshots of one upstream come one after the other.
func (g *Gateway) note(l *link, s upstream.Snapshot) {
	if s.Settled && l.took.Load() == 0 {
		l.took.Store(int64(max(1, time.Since(l.begun))))
		close(l.started)
	}
	if m := g.lineup.Load().member(s.Name); g.watch != nil && m != nil && m.link == l {
		g.watch(m.status(s))
	}
}

// Remembered is the table of what the upstreams offered when they were last
// connected to, as far as that was kept. Nothing is connected.
func (g *Gateway) Remembered() *catalog.Table { return g.tableNow(true) }

// tableNow makes a table of what the upstreams offer now, for late ones as if the
// time to start were over.
func (g *Gateway) tableNow(late bool) *catalog.Table {
	l := g.lineup.Load()
	return g.buildTable(l, l.policy, snapshotsOf(l.links()), func(*link) bool { return late })
}

// Pin accepts the tools that an upstream lists now. With dryRun it only returns what that
// would change. The error says why the tools cannot be accepted. If the configuration has
// pin: true, the first list was accepted before.
func (v *Visit) Pin(name string, dryRun bool) (pins.Change, error) {
	m := v.g.lineup.Load().member(name)
	if m == nil {
		return pins.Change{}, errors.New("there is no such upstream")
	}
	s := m.link.snapshot()
	if s.State != upstream.Ready {
		return pins.Change{}, errors.New(m.status(s).Reason)
	}
	accepted, err := pins.Open(v.g.state.Path(), v.g.log)
	if err != nil {
		return pins.Change{}, err
	}
	return accepted.Accept(name, s.Catalog.Tools, dryRun)
}
