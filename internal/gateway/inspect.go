package gateway

import (
	"context"
	"fmt"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// inspected is the gateway as an inspector reads it. It implements inspect.Gateway.
type inspected struct{ g *Gateway }

// Upstreams implements inspect.Gateway.
func (i inspected) Upstreams() []inspect.Upstream { return i.g.Upstreams() }

// ListedTools implements inspect.Gateway.
func (i inspected) ListedTools(name string) []wire.Raw {
	e := i.g.generation.Load().entry(name)
	if e == nil {
		return nil
	}
	return e.active.Load().snapshot().Catalog.Tools
}

// Policy implements inspect.Gateway.
func (i inspected) Policy() *policy.Policy { return i.g.generation.Load().Policy }

// Profile implements inspect.Gateway.
func (i inspected) Profile(id string) *profile.Profile { return i.g.generation.Load().Profile(id) }

// Profiles implements inspect.Gateway.
func (i inspected) Profiles() (all []inspect.Profile) {
	routes := i.g.router.Routes()
	for _, name := range i.g.generation.Load().Endpoints.Names() {
		p, table := inspect.Profile{Name: name}, routes.Table
		if id := endpoint.IDOf(name); id != "" {
			table = routes.Profiles[id]
		}
		if table != nil { // else a reload has added it just now
			p.Items = table.Shown()
		}
		all = append(all, p)
	}
	return all
}

// Current implements inspect.Gateway.
func (i inspected) Current(id string) *catalog.Table {
	routes := i.g.router.Routes()
	if id == "" {
		return routes.Table
	}
	return routes.Profiles[id]
}

// TableUnder implements inspect.Gateway.
func (i inspected) TableUnder(p *policy.Policy, in *profile.Profile) *catalog.Table {
	gen := i.g.generation.Load()
	table := i.g.buildTable(gen, p, snapshotsOf(gen.connections()), func(*connection) bool { return false })
	if in != nil {
		table = table.ForProfile(in)
	}
	return table
}

// Handle implements inspect.Gateway.
func (i inspected) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	return i.g.router.Handle(ctx, c)
}

// Upstreams returns how the upstreams are now, in the order of the configuration.
func (g *Gateway) Upstreams() []inspect.Upstream {
	var all []inspect.Upstream
	held := g.heldTools()
	gen := g.generation.Load()
	for _, e := range gen.entries {
		s := e.conn.snapshot()
		u := e.status(s, gen.Policy)
		if len(u.Server) > 0 { // what a server says of itself may have what it was given
			u.Server = wire.Raw(g.secrets.Mask(string(u.Server)))
		}
		n := held[e.name]
		u.Items[call.Tool], u.HeldTools = max(0, u.Items[call.Tool]-n.all), n.waiting
		u.Hidden[call.Tool] = min(max(0, u.Hidden[call.Tool]-n.byLists), u.Items[call.Tool])
		u.Reason += e.conn.usersConnected(s)
		if u.Reason == "" && s.State == connector.Connecting && e.active.Load() != e.conn {
			u.Reason = "its configuration has changed; until this connection has been tried, the one before answers calls"
		}
		all = append(all, u)
	}
	return all
}

// hidden counts the items that the lists of an upstream in a policy and its overrides hide from all clients.
func (e *upstreamEntry) hidden(s connector.Snapshot, lists *policy.Policy) (n [call.Kinds]int) {
	overrides := [call.Kinds]bool{call.Tool: len(e.rules.ToolOverride) > 0, call.Prompt: len(e.rules.PromptOverride) > 0}
	for k, items := range gatheredSource(e, s).Items {
		kind := call.Kind(k)
		if !overrides[kind] && !lists.HasLists(e.name, kind) {
			continue // nothing is hidden, and no name has to be read
		}
		for _, raw := range items {
			native := wire.ValueOf(raw).Get(namespace.NameMember(kind)).Str()
			if e.rules.Hides(kind, native) || !lists.Selects(policy.Item{Kind: kind, Upstream: e.name, Native: native}) {
				n[kind]++
			}
		}
	}
	return n
}

// status translates a snapshot. The advice of the connector replaces the reason. lists is the policy that has the lists of the upstream.
func (e *upstreamEntry) status(s connector.Snapshot, lists *policy.Policy) inspect.Upstream {
	u := inspect.Upstream{
		Name: e.name, State: s.State, Revision: s.Revision, Transport: string(e.conn.sessions.Transport()), Server: s.Info, Required: e.required, Reason: reasonForOperator(s),
		Took: time.Duration(e.conn.attemptTook.Load()), Since: s.Since, LastError: e.conn.lastTrouble.Load(), LastFailed: e.conn.lastFailed.Load(),
		Items: [call.Kinds]int{
			call.Tool: len(s.Catalog.Tools), call.Resource: len(s.Catalog.Resources),
			call.Template: len(s.Catalog.Templates), call.Prompt: len(s.Catalog.Prompts),
		},
		Hidden: e.hidden(s, lists),
	}
	u.OpenBreakers, u.HalfOpenBreakers = e.conn.health.Breakers()
	if s.Available() {
		u.Skipped = e.conn.health.Skipped()
	}
	for _, v := range e.unset {
		u.Unset = append(u.Unset, inspect.UnsetVariable{
			Name: v.Name, File: v.Place.File, Line: v.Place.Line, Column: v.Place.Col, Path: v.Place.Path, Message: v.Place.Msg,
		})
	}
	for _, at := range e.conn.sessions.URLs() {
		u.URLs = append(u.URLs, inspect.URL(at))
	}
	return u
}

// usersConnected says how many sessions of users are connected to an upstream with grants of users that is down, as the
// end of the reason; "" for none. Its state is that of the session that gathers the shared lists with the gateway's
// own grant.
func (c *connection) usersConnected(s connector.Snapshot) string {
	if s.State != connector.Down || c.credentials == nil || !c.credentials.TakesGrants() {
		return ""
	}
	switch n := c.sessions.ConnectedPrincipals(c.credentials.LacksGrant); n {
	case 0:
		return ""
	case 1:
		return "; 1 session of a user with a grant is connected"
	default:
		return fmt.Sprintf("; %d sessions of users with a grant are connected", n)
	}
}

// observe records the end of an upstream's first attempt, and reports its status to
// Options.Watch. Snapshots of one upstream arrive one at a time.
func (g *Gateway) observe(c *connection, s connector.Snapshot) {
	if s.Settled && c.attemptTook.Load() == 0 {
		c.attemptTook.Store(int64(max(1, time.Since(c.begin))))
		close(c.attempted)
	}
	gen := g.generation.Load()
	e := gen.entry(s.Name)
	if e == nil || e.conn != c {
		return
	}
	u := e.status(s, gen.Policy)
	if u.Reason != "" && s.State != connector.Connecting {
		c.lastTrouble.Store(&inspect.Trouble{Reason: u.Reason, At: time.Now()})
	}
	if g.watch != nil {
		g.watch(u)
	}
}

// nonconforming hands a verdict of the router to the inspector.
func (g *Gateway) nonconforming(n router.Nonconforming) {
	g.inspector.Nonconforming(n.Upstream, n.Method, n.Native, n.Verdict)
}

// callFailed keeps the last failed call of an upstream for the status.
func (g *Gateway) callFailed(f router.FailedCall) {
	if e := g.generation.Load().entry(f.Upstream); e != nil {
		e.conn.lastFailed.Store(&inspect.FailedCall{At: time.Now(), Method: f.Method, Item: f.Item, Request: f.Request, Reason: f.Reason})
	}
}
