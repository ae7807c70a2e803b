package gateway

import (
	"context"
	"errors"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/pins"
	"mcpgateway/internal/upstream/connector"
)

// InProcess is a running gateway that serves its own process and listens nowhere. Its methods may be called
// concurrently until [Gateway.RunInProcess] returns.
type InProcess struct {
	*inspect.Inspector
	g *Gateway
}

// RunInProcess runs the upstreams while use runs, and returns its error. It then remembers their items, as Run does.
// The context of use ends with ctx. The gateway must have been made with Options.InProcess.
func (g *Gateway) RunInProcess(ctx context.Context, use func(ctx context.Context, p *InProcess) error) error {
	defer g.Close()
	return g.runAll(ctx, func(life context.Context) error {
		both, cancel := context.WithCancelCause(life)
		defer cancel(nil)
		stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		defer stop()
		defer g.flush(both)
		return use(both, &InProcess{g.inspector, g})
	})
}

// WaitStarted waits until every upstream has ended its first attempt to connect, or ctx
// ends.
func (p *InProcess) WaitStarted(ctx context.Context) error {
	for _, e := range p.g.generation.Load().entries {
		select {
		case <-e.conn.attempted:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Call makes a call as if a client had sent it. The error is a *wire.Error or that of
// ctx.
func (p *InProcess) Call(ctx context.Context, c *call.Call) (call.Result, error) {
	return p.g.router.Handle(ctx, c)
}

// CallUpstream sends a request to an upstream and bypasses policy, naming and
// conformance: names are native.
func (p *InProcess) CallUpstream(ctx context.Context, upstream string, c *call.Call) (call.Result, error) {
	return p.g.router.Routes().Upstreams[upstream].Do(ctx, c)
}

// Pin accepts the tools that an upstream lists now without those that a person has refused, or only those named in
// only. With dryRun it only returns what that would change. The error says why the tools cannot be accepted. If the
// configuration has pin: true, the first list was accepted before.
func (p *InProcess) Pin(name string, only []string, dryRun bool) (pins.Change, error) {
	e := p.g.generation.Load().entry(name)
	if e == nil {
		return pins.Change{}, errors.New("there is no such upstream")
	}
	s := e.conn.snapshot()
	if s.State != connector.Ready {
		return pins.Change{}, errors.New(reasonForOperator(s))
	}
	accepted, err := pins.Open(p.g.state.Path(), p.g.log)
	if err != nil {
		return pins.Change{}, err
	}
	if e.bare {
		accepted.IgnoreDefaults(name)
	}
	return accepted.Accept(name, s.Catalog.Tools, only, dryRun)
}

// RememberedTable returns the table of what the upstreams offered in an earlier run in a
// profile, "" for the default one, as far as the state folder has it. It connects to nothing.
func (g *Gateway) RememberedTable(id string) *catalog.Table {
	gen := g.generation.Load()
	table := g.buildTable(gen, gen.Policy, snapshotsOf(gen.connections()), func(*connection) bool { return true })
	if in := gen.Profile(id); in != nil {
		table = table.ForProfile(in)
	}
	return table
}
