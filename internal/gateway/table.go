package gateway

import (
	"slices"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/personal"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/router"
	"mcpgateway/internal/statedir"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// freshFor is how long clients may treat a merged list as current. It equals the interval
// at which the gateway lists an upstream that announces no changes.
const freshFor = 30 * time.Second

// buildRoutes builds the tables of what the upstreams offer now, one for each profile and those of
// principals, and the routes to the upstreams.
func (g *Gateway) buildRoutes(gen *generation, gathered snapshots, now time.Time, principals *personal.Update) *router.Routes {
	defer g.control.schemas.Begin()() // for all profiles
	g.docs.Begin()
	overdue := func(c *connection) bool { return !now.Before(c.deadline) }
	sources := g.catalogSources(gen, gathered, overdue)
	routes := &router.Routes{
		Upstreams: make(map[string]router.Upstream), Subscribers: make(map[string]router.Subscriber), Bridge: gen.terms(), Results: gen.Results,
		Slow: gen.cfg.Telemetry.Slow, PrincipalTables: principals.Rebuild(g.personalInputs(gen, sources)),
	}
	ordinary := catalog.Build(g.tableOptions(gen, nil, gen.Policy, &g.control.schemas), sources)
	routes.Table = ordinary
	for id, p := range gen.Profiles() {
		if id == "" {
			routes.Table = ordinary.ForProfile(p)
			continue
		}
		if routes.Profiles == nil {
			routes.Profiles = make(map[string]*catalog.Table)
		}
		routes.Profiles[id] = ordinary.ForProfile(p)
	}
	for _, e := range gen.entries {
		active := e.active.Load()
		routes.Upstreams[e.name], routes.Subscribers[e.name] = g.routedUpstream(e.name, active), active.subscriber
	}
	return routes
}

// personalInputs returns what the tables of principals are made of. shared are the sources of the
// common tables.
func (g *Gateway) personalInputs(gen *generation, shared []catalog.Source) personal.Inputs {
	in := personal.Inputs{Policy: gen.Policy, HasProfile: gen.HasProfile}
	for _, e := range gen.entries {
		if e.options.Personal {
			in.Upstreams = append(in.Upstreams, e.active.Load())
		}
	}
	in.Build = func(profile string, lists personal.Snapshots) func(*conform.Cache) *catalog.Table {
		own := make(map[int]connector.Snapshot) // resolved now: other connections may be active when the table is built
		for i, e := range gen.entries {
			if s, ok := lists[e.active.Load()]; ok {
				own[i] = s
			}
		}
		return func(schemas *conform.Cache) *catalog.Table {
			sources := slices.Clone(shared)
			for i, s := range own {
				sources[i] = g.catalogSource(gen.entries[i], s, false, true)
			}
			return catalog.Build(g.tableOptions(gen, gen.Profile(profile), gen.Policy, schemas), sources)
		}
	}
	return in
}

// buildTable builds the table of everything as it would be under a policy. overdue reports whether a
// connection has used up its time to start.
func (g *Gateway) buildTable(gen *generation, p *policy.Policy, gathered snapshots, overdue func(*connection) bool) *catalog.Table {
	return catalog.Build(g.tableOptions(gen, nil, p, nil), g.catalogSources(gen, gathered, overdue))
}

// tableOptions returns the options of the table of a profile, nil for everything. schemas, which may
// be nil, reuses compiled schemas of other tables.
func (g *Gateway) tableOptions(gen *generation, selects *profile.Profile, p *policy.Policy, schemas *conform.Cache) catalog.Options {
	return catalog.Options{Policy: p, Profile: selects, ServerInfo: g.info, Schemas: schemas, Docs: &g.docs, Enrich: gen.cfg.Resources.Enrich}
}

// catalogSources returns a source for each entry of the generation.
func (g *Gateway) catalogSources(gen *generation, gathered snapshots, overdue func(*connection) bool) []catalog.Source {
	sources := make([]catalog.Source, 0, len(gen.entries))
	for _, e := range gen.entries {
		s, ok := gathered[e.active.Load()]
		if !ok { // the connection became active after the snapshots were taken
			s = e.active.Load().snapshot()
		}
		sources = append(sources, g.catalogSource(e, s, overdue(e.conn), false))
	}
	return sources
}

// catalogSource returns what the table contains of one upstream.
//
// Before the first catalog of this run, the remembered catalog of an earlier run supplies
// the names. If the upstream is overdue on its first attempt, the remembered catalog
// stands in for it. personal says that the snapshot is what the upstream lists for one
// principal, whose request waited for it.
func (g *Gateway) catalogSource(e *upstreamEntry, s connector.Snapshot, overdue, personal bool) catalog.Source {
	src := gatheredSource(e, s)
	if s.Revision == "" && !e.conn.fillRemembered(&src) {
		// An upstream that a reload adds has no names while it is awaited: the names that
		// clients know stay. At the start no client that may see its items has a list yet,
		// and calls of unknown names wait.
		src.NeverListed = personal || s.Settled || overdue || !g.isStarted()
	}
	switch {
	case s.Available():
	case s.Lost && s.Revision != "":
		// The last catalog stays until an attempt to reconnect has failed: a host that sees
		// tools come and go with every crash loses them from its prompts.
	case !s.Settled && overdue && e.conn.standsIn():
	case !s.Settled:
		src.Down = &catalog.Down{Since: s.Since, Reason: "starting", Starting: true}
	default:
		src.Down = &catalog.Down{Since: s.Since, Reason: s.Reason, Detail: s.Advice}
	}
	if s.Revision != "" {
		e.conn.setFailedLists(&src, &s.Failed, personal)
	}
	src.HeldTools = e.heldTools(src.Items[call.Tool], s)
	return src
}

// setFailedLists marks the lists that could not be gathered. A list that was never gathered in
// this run has the items of an earlier run, if there are any, unless it is personal: the items
// of an earlier run are for everybody.
func (c *connection) setFailedLists(src *catalog.Source, lists *connector.FailedLists, personal bool) {
	for kind, f := range [call.Kinds]connector.FailedList{
		call.Tool: lists.Tools, call.Resource: lists.Resources, call.Template: lists.Templates, call.Prompt: lists.Prompts,
	} {
		if f.Reason == "" {
			continue
		}
		src.Failed[kind] = &catalog.Down{Since: f.Since, Reason: f.Reason, Detail: f.Detail}
		if len(src.Items[kind]) > 0 || personal {
			continue
		}
		if r := c.remembered(); r != nil {
			src.Items[kind] = rememberedItems(r)[kind]
		}
	}
}

// rememberedItems returns the items of an earlier run.
func rememberedItems(r *statedir.Catalog) [call.Kinds][]wire.Raw {
	return [call.Kinds][]wire.Raw{
		call.Tool: statedir.ToRaw(r.Tools), call.Resource: statedir.ToRaw(r.Resources),
		call.Template: statedir.ToRaw(r.Templates), call.Prompt: statedir.ToRaw(r.Prompts),
	}
}

// gatheredSource translates a snapshot.
func gatheredSource(e *upstreamEntry, s connector.Snapshot) catalog.Source {
	return catalog.Source{
		Naming: e.space, Revision: s.Revision, Capabilities: s.Capabilities, Instructions: s.Instructions,
		Items: [call.Kinds][]wire.Raw{
			call.Tool: s.Catalog.Tools, call.Resource: s.Catalog.Resources,
			call.Template: s.Catalog.Templates, call.Prompt: s.Catalog.Prompts,
		},
		Freshness: catalog.Freshness{At: time.Now(), TTL: freshFor, Private: e.options.Personal},
		Rules:     e.rules,
	}
}

// heldTools returns why tools of a list must not be published, nil if all may be.
func (e *upstreamEntry) heldTools(tools []wire.Raw, s connector.Snapshot) []string {
	if e.pins == nil {
		return nil
	}
	// The list of an idle upstream was gathered as a whole, and is what clients see.
	return e.pins.Held(e.name, tools, s.State == connector.Ready || s.State == connector.Idle)
}

// fillRemembered fills a source with the catalog of an earlier run. It reports whether
// there is one.
func (c *connection) fillRemembered(src *catalog.Source) bool {
	r := c.remembered()
	if r == nil {
		return false
	}
	src.Revision, src.Capabilities, src.Instructions = r.Revision, wire.Raw(r.Capabilities), r.Instructions
	src.Items = rememberedItems(r)
	return true
}

// standsIn reports whether the catalog of an earlier run may stand in for that of this run: it
// is complete.
func (c *connection) standsIn() bool {
	r := c.remembered()
	return r != nil && !r.Partial
}
