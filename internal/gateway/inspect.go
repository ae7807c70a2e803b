package gateway

import (
	"context"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// inspected is the gateway as an inspector reads it. It implements inspect.Gateway.
type inspected struct{ g *Gateway }

// Upstreams implements inspect.Gateway.
func (i inspected) Upstreams() []inspect.Upstream { return i.g.Upstreams() }

// ListedTools implements inspect.Gateway.
func (i inspected) ListedTools(name string) []wire.Raw {
	m := i.g.generation.Load().entry(name)
	if m == nil {
		return nil
	}
	return m.active.Load().snapshot().Catalog.Tools
}

// Policy implements inspect.Gateway.
func (i inspected) Policy() *policy.Policy { return i.g.generation.Load().policy }

// TableUnder implements inspect.Gateway.
func (i inspected) TableUnder(p *policy.Policy) *catalog.Table {
	l := i.g.generation.Load()
	return i.g.buildTable(l, p, snapshotsOf(l.connections()), func(*connection) bool { return false })
}

// Handle implements inspect.Gateway.
func (i inspected) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	return i.g.router.Handle(ctx, c)
}

// Upstreams returns how the upstreams are now, in the order of the configuration.
func (g *Gateway) Upstreams() []inspect.Upstream {
	var all []inspect.Upstream
	for _, m := range g.generation.Load().entries {
		all = append(all, m.status(m.conn.snapshot()))
	}
	return all
}

// status translates what the connector knows.
func (m *upstreamEntry) status(s upstream.Snapshot) inspect.Upstream {
	u := inspect.Upstream{
		Name: m.name, State: s.State, Revision: s.Revision, Server: s.Info, Required: m.required, Reason: s.Reason,
		Took: time.Duration(m.conn.attemptTook.Load()),
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

// observe records the end of an upstream's first attempt, and reports its status to
// Options.Watch. Snapshots of one upstream arrive one at a time.
func (g *Gateway) observe(l *connection, s upstream.Snapshot) {
	if s.Settled && l.attemptTook.Load() == 0 {
		l.attemptTook.Store(int64(max(1, time.Since(l.begin))))
		close(l.attempted)
	}
	if m := g.generation.Load().entry(s.Name); g.watch != nil && m != nil && m.conn == l {
		g.watch(m.status(s))
	}
}

// nonconforming hands a verdict of the router to the inspector.
func (g *Gateway) nonconforming(n router.Nonconforming) {
	g.inspector.Nonconforming(n.Upstream, n.Method, n.Native, n.Verdict)
}
