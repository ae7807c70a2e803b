package gateway

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/router"
	"mcpgateway/internal/statedir"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// pause is the least time between two tables. Bursts of changes become one, and
// clients still hear of each within 200 ms.
const rebuildInterval = 50 * time.Millisecond

// freshFor is how long clients may take a merged list for current: as long as
// the gateway waits between two listings that nobody asked for.
const freshFor = 30 * time.Second

// wake has the control loop look at the upstreams.
func (g *Gateway) requestRebuild() {
	g.rebuildAll.Store(true)
	g.wakeControl()
}

// poke has the control loop look at what it was told of.
func (g *Gateway) wakeControl() {
	select {
	case g.wakeups <- struct{}{}:
	default: // the loop will see this one too
	}
}

func clip(s string) string {
	const most = 64
	return s[:min(len(s), most)]
}

// control is the control loop: each change of an upstream, and each configuration
// that is put in place, becomes a new table.
func (g *Gateway) controlLoop(ctx context.Context) error {
	look := time.NewTicker(pinsCheckInterval)
	defer look.Stop()
	defer close(g.controlEnded)
	for _, m := range g.generation.Load().entries {
		g.startConnection(ctx, m.conn)
	}
	g.rebuild(ctx, time.Now())
	for {
		var overdue <-chan time.Time
		if !g.waitUntil.IsZero() {
			overdue = time.After(time.Until(g.waitUntil))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-overdue:
			g.rebuildAll.Store(true)
		case <-g.wakeups:
		case <-look.C:
			if accepted := g.generation.Load().pins(); accepted == nil || !accepted.Changed() {
				continue
			}
			g.rebuildAll.Store(true)
		case r := <-g.reloads:
			changes, settled, err := g.applyConfig(ctx, r.cfg)
			if err != nil {
				g.logRefused(err)
			} else {
				g.logReloaded(changes)
			}
			r.finish(changes, settled, err)
			g.rebuildAll.Store(true)
		}
		if g.rebuildAll.Swap(false) {
			g.rebuild(ctx, time.Now())
		} else {
			g.rebuildPrincipals()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rebuildInterval):
		}
	}
}

// step builds and swaps in a table of what the upstreams offer now.
func (g *Gateway) rebuild(ctx context.Context, now time.Time) {
	l := g.generation.Load()
	snapshots := snapshotsOf(l.connections()) // of one moment: what is not waited for is in the table
	g.waitUntil = l.activate(now, snapshots)
	settled := g.waitUntil.IsZero()
	used := l.connections()
	maps.DeleteFunc(snapshots, func(of *connection, _ upstream.Snapshot) bool { return used[of] == nil })
	wanted := g.principals.takeRequests()
	routes := g.buildRoutes(l, snapshots, now)
	routes.Owners = g.newPrincipalTables(wanted)

	// What a server says has changed is news at once, for all who may see it.
	told := make(map[string]catalog.Changes)
	for link, s := range snapshots {
		g.logState(link.lastSeen, s)
		if m := used[link]; m.active.Load() == link {
			told[m.name] = changesSince(link.lastSeen, s)
		}
		link.lastSeen = s
	}
	// What there is to say of a table is said before anybody can be shown it.
	g.logFindings(routes.Table, settled)
	g.logPrincipalFindings(routes.Owners, wanted, settled)
	g.metrics.count(routes.Table)
	g.logUnmatchedGlobs(l, routes.Table, snapshots)
	awaited := !g.isStarted()
	if settled && awaited {
		g.logStarted(l, snapshots)
	}
	own := g.swap(routes, told, settled)
	g.retireConnections(ctx, used)
	if settled && awaited {
		close(g.started)
	}
	g.notifyClients(routes.Table, told, own, settled, awaited)
	wanted.done()
	if settled && !isClosed(l.settled) {
		close(l.settled)
	}
	g.rememberCatalogs(snapshots)
	select {
	case g.swapped <- struct{}{}:
	default:
	}
}

// sayStarted logs how the first attempts of the upstreams went, in file order.
func (g *Gateway) logStarted(l *generation, snapshots map[*connection]upstream.Snapshot) {
	ready, failed, starting := []string{}, []string{}, []string{}
	for _, m := range l.entries {
		switch s := snapshots[m.conn]; {
		case s.Up():
			ready = append(ready, m.name)
		case s.Settled:
			failed = append(failed, m.name)
		default:
			starting = append(starting, m.name)
		}
	}
	g.log.Info("upstreams have started", zap.Strings("ready", ready), zap.Strings("failed", failed), zap.Strings("starting", starting))
}

// follow moves subscriptions to where each new table leads.
func (g *Gateway) followSubscriptions(life context.Context) error {
	for {
		select {
		case <-life.Done():
			return nil
		case <-g.swapped:
			g.subscriptions.Follow(life)
		}
	}
}

// snapshotsOf is what is known of all links now.
func snapshotsOf(links map[*connection]*upstreamEntry) map[*connection]upstream.Snapshot {
	out := make(map[*connection]upstream.Snapshot, len(links))
	for l := range links {
		out[l] = l.snapshot()
	}
	return out
}

// spread tells clients what has changed since they were told last. settled says
// that nothing is waited for: what a reload changes is told once, when all of it
// is there. awaited says that the upstreams were still starting: then lists were shown to
// those alone who may see nothing of what was. own is what has changed for those who have a
// table of their own.
func (g *Gateway) notifyClients(table *catalog.Table, told map[string]catalog.Changes, own principalDiffs, settled, awaited bool) {
	said := false
	for _, c := range told {
		said = said || c.Any()
	}
	var diff *catalog.Diff
	outcome := "same"
	if settled || awaited || said {
		if diff = catalog.NewDiff(g.announced, table, told); diff.Any().Any() {
			outcome = "changed"
		} else {
			diff = nil
		}
	}
	if awaited {
		g.notifyEarlyClients(told)
	} else {
		g.notifyListChanges(diff, own)
	}
	if settled || awaited || said {
		g.announced = table
	}
	g.metrics.swaps.WithLabelValues(outcome).Inc()
}

// tellAll tells clients of what differs: all, nil for nothing, for those that have no
// table of their own; own for the others.
func (g *Gateway) notifyListChanges(all *catalog.Diff, own principalDiffs) {
	if all == nil && len(own) == 0 {
		return
	}
	g.front.ListChangedFor(func(who *call.Principal, client *call.Client) (tools, prompts, resources bool) {
		diff := all
		if len(own) > 0 {
			if d, ok := own[who.Key()]; ok {
				if d == nil {
					return false, false, false
				}
				diff = d()
			}
		}
		if diff == nil {
			return false, false, false
		}
		c := diff.For(who, client)
		return c.Tools, c.Prompts, c.Resources
	})
}

// tellEarly tells those who were shown lists while upstreams were starting of what
// differs from them now. To all others nothing of it is news. told is what upstreams said
// that has changed.
func (g *Gateway) notifyEarlyClients(told map[string]catalog.Changes) {
	shown := g.router.ShownEarly()
	if len(shown) == 0 {
		return
	}
	now := g.router.Routes()
	diffs := make(map[[2]*catalog.Table]*catalog.Diff)
	g.front.ListChangedFor(func(who *call.Principal, client *call.Client) (tools, prompts, resources bool) {
		before := shown[who.Key()]
		if before == nil || before == now {
			return false, false, false
		}
		tables := [2]*catalog.Table{before.TableFor(who), now.TableFor(who)}
		if diffs[tables] == nil {
			diffs[tables] = catalog.NewDiff(tables[0], tables[1], told)
		}
		c := diffs[tables].For(who, client)
		return c.Tools, c.Prompts, c.Resources
	})
}

// report logs a change of an upstream's state.
func (g *Gateway) logState(before, now upstream.Snapshot) {
	if before.State == now.State && before.Since.Equal(now.Since) {
		return
	}
	fields := []zap.Field{zap.String("upstream", now.Name), zap.Stringer("state", now.State)}
	if now.Up() {
		fields = append(fields,
			zap.Stringer("era", now.Era()), zap.String("revision", string(now.Revision)),
			zap.Int("tools", len(now.Catalog.Tools)), zap.Int("prompts", len(now.Catalog.Prompts)),
			zap.Int("resources", len(now.Catalog.Resources)), zap.Int("templates", len(now.Catalog.Templates)))
	}
	if now.Reason != "" {
		fields = append(fields, zap.String("reason", now.Reason))
	}
	if now.State == upstream.Ready || now.State == upstream.Connecting {
		g.log.Info("upstream", fields...)
		return
	}
	if now.State == upstream.Down {
		g.log.Debug("upstream", fields...) // the connector has told why, to those who can mend it
		return
	}
	g.log.Warn("upstream", fields...)
}

// newRoutes makes the routes of what the upstreams offer now.
func (g *Gateway) buildRoutes(l *generation, snapshots map[*connection]upstream.Snapshot, now time.Time) *router.Routes {
	late := func(of *connection) bool { return !now.Before(of.deadline) }
	g.inputs = tableInputs{generation: l, sources: g.catalogSources(l, snapshots, late)}
	routes := &router.Routes{
		Upstreams: make(map[string]router.Upstream), Subscribers: make(map[string]router.Subscriber), Terms: l.terms(),
		Table: catalog.Build(g.tableOptions(l, l.policy, &g.schemas), g.inputs.sources),
	}
	for _, m := range l.entries {
		serving := m.active.Load()
		routes.Upstreams[m.name], routes.Subscribers[m.name] = g.routedUpstream(m.name, serving), serving.sessions
	}
	return routes
}

// buildTable makes the table that there would be with this policy. late says whether
// the time to start is over for a link.
func (g *Gateway) buildTable(l *generation, p *policy.Policy, snapshots map[*connection]upstream.Snapshot, late func(*connection) bool) *catalog.Table {
	return catalog.Build(g.tableOptions(l, p, nil), g.catalogSources(l, snapshots, late))
}

// tableOptions say how a table is made. schemas are for one table after the other;
// nil for none.
func (g *Gateway) tableOptions(l *generation, p *policy.Policy, schemas *conform.Cache) catalog.Options {
	return catalog.Options{Policy: p, ServerInfo: g.info, Schemas: schemas, Enrich: l.cfg.Resources.Enrich}
}

// sources are what the table is to know of the upstreams.
func (g *Gateway) catalogSources(l *generation, snapshots map[*connection]upstream.Snapshot, late func(*connection) bool) []catalog.Source {
	sources := make([]catalog.Source, 0, len(l.entries))
	for _, m := range l.entries {
		s, ok := snapshots[m.active.Load()]
		if !ok { // it has begun to serve this very moment
			s = m.active.Load().snapshot()
		}
		sources = append(sources, g.catalogSource(m, s, late(m.conn), false))
	}
	return sources
}

// source is what the table is to know of one upstream. Before its first catalog of
// this run that of an earlier one says which names it has. When its time to start is
// over (late), that stands in for an upstream that is still on its first attempt. own
// says that s is what it lists for one principal, which was waited for.
func (g *Gateway) catalogSource(m *upstreamEntry, s upstream.Snapshot, late, own bool) catalog.Source {
	src := gatheredSource(m, s)
	if s.Revision == "" && !m.conn.fillRemembered(&src) {
		// What a reload adds has no names yet while it is waited for: those that clients
		// know stay. At the start nobody who may see something of it has a list, and calls
		// of names wait, too.
		src.Unlisted = own || s.Settled || late || !g.isStarted()
	}
	switch {
	case s.Up():
	case s.Lost && s.Revision != "":
		// The last catalog stays until an attempt has failed: hosts that see
		// tools go and come back for every crash lose them from their prompts.
	case !s.Settled && late && m.conn.remembered() != nil:
	case !s.Settled:
		src.Down = &catalog.Down{Since: s.Since, Reason: "starting", Starting: true}
	default:
		src.Down = &catalog.Down{Since: s.Since, Reason: s.Reason}
	}
	src.HeldTools = g.heldTools(m, src.Items[call.Tool], s)
	return src
}

// gatheredBy is what a snapshot says of an upstream.
func gatheredSource(m *upstreamEntry, s upstream.Snapshot) catalog.Source {
	return catalog.Source{
		Space: m.space, Revision: s.Revision, Capabilities: s.Capabilities, Instructions: s.Instructions,
		Items: [call.Kinds][]wire.Raw{
			call.Tool: s.Catalog.Tools, call.Resource: s.Catalog.Resources,
			call.Template: s.Catalog.Templates, call.Prompt: s.Catalog.Prompts,
		},
		Freshness: catalog.Freshness{At: time.Now(), TTL: freshFor, Private: m.options.Personal},
		Rules:     m.rules,
	}
}

// recall fills src with the catalog of an earlier run, if one was kept.
func (of *connection) fillRemembered(src *catalog.Source) bool {
	l := of.remembered()
	if l == nil {
		return false
	}
	src.Revision, src.Capabilities, src.Instructions = l.Revision, wire.Raw(l.Capabilities), l.Instructions
	src.Items = [call.Kinds][]wire.Raw{
		call.Tool: statedir.ToRaw(l.Tools), call.Resource: statedir.ToRaw(l.Resources),
		call.Template: statedir.ToRaw(l.Templates), call.Prompt: statedir.ToRaw(l.Prompts),
	}
	return true
}

// remember keeps the catalogs of upstreams that are ready, where they differ
// from what was kept before.
func (g *Gateway) rememberCatalogs(now map[*connection]upstream.Snapshot) {
	for l, s := range now {
		if s.State != upstream.Ready || l.key == "" || sameCatalog(l.lastRemembered, s.Catalog) {
			continue
		}
		l.lastRemembered = s.Catalog
		g.state.RememberCatalog(l.key, &statedir.Catalog{
			Revision: s.Revision, Instructions: s.Instructions, Capabilities: json.RawMessage(s.Capabilities),
			Tools: statedir.FromRaw(s.Catalog.Tools), Resources: statedir.FromRaw(s.Catalog.Resources),
			Templates: statedir.FromRaw(s.Catalog.Templates), Prompts: statedir.FromRaw(s.Catalog.Prompts),
		})
	}
}

func sameCatalog(a, b upstream.Catalog) bool {
	same := func(x, y []wire.Raw) bool {
		return slices.EqualFunc(x, y, func(p, q wire.Raw) bool { return string(p) == string(q) })
	}
	return same(a.Tools, b.Tools) && same(a.Resources, b.Resources) && same(a.Templates, b.Templates) && same(a.Prompts, b.Prompts)
}

// maxReported bounds the findings of one upstream that are remembered, and so logged:
// whoever makes up ever new ones keeps nothing of other upstreams out of the log.
const maxReported = 4096

// findingSeed makes digests of findings: what they hold may be large.
var findingSeed = maphash.MakeSeed()

// logFindings counts and logs each fault, clash and unusable item once. Until the
// upstreams have started (settled) names are kept for those that list nothing yet, so
// that what clashes then need not clash.
func (g *Gateway) logFindings(t *catalog.Table, settled bool) {
	for _, f := range t.Findings() {
		of, digest := g.loggedFindings[f.Upstream], maphash.Comparable(findingSeed, f)
		if of[digest] || len(of) >= maxReported || f.What == catalog.Clash && !settled && !g.isStarted() {
			continue
		}
		if of == nil {
			of = make(map[uint64]bool)
			g.loggedFindings[f.Upstream] = of
		}
		of[digest] = true
		if f.What == catalog.Held {
			g.metrics.held.WithLabelValues(f.Upstream).Inc()
		}
		g.router.Found(f)
	}
}

// pinsCheckInterval is how often the control loop checks whether another process has
// accepted tools.
const pinsCheckInterval = 2 * time.Second

// heldTools returns why tools of a list must not be published, nil if all may be.
func (g *Gateway) heldTools(m *upstreamEntry, tools []wire.Raw, s upstream.Snapshot) []string {
	if m.pins == nil {
		return nil
	}
	return m.pins.Held(m.name, tools, s.State == upstream.Ready)
}
