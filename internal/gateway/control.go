package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// pause is the least time between two tables. Bursts of changes become one, and
// clients still hear of each within 200 ms.
const pause = 50 * time.Millisecond

// freshFor is how long clients may take a merged list for current: as long as
// the gateway waits between two listings that nobody asked for.
const freshFor = 30 * time.Second

// Changed implements upstream.Observer.
func (g *Gateway) Changed(s upstream.Snapshot) {
	g.mu.Lock()
	g.snapshots[s.Name] = s
	g.mu.Unlock()
	g.note(s)
	select {
	case g.changed <- struct{}{}:
	default: // the loop will see this one too
	}
}

func clip(s string) string {
	const most = 64
	return s[:min(len(s), most)]
}

// control is the control loop: each change of an upstream becomes a new table.
func (g *Gateway) control(ctx context.Context) error {
	timer := time.NewTimer(g.cfg.StartupWait)
	defer timer.Stop()
	var look <-chan time.Time
	if g.pins != nil {
		ticker := time.NewTicker(pinLook)
		defer ticker.Stop()
		look = ticker.C
	}
	seen := map[string]upstream.Snapshot{}
	late := false // startup_wait is over
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			late = true
		case <-g.changed:
		case <-look:
			if !g.pins.changed() {
				continue
			}
		}
		g.step(seen, late)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// step builds and swaps in a table of what the upstreams offer now. seen holds
// the snapshots of the table before.
func (g *Gateway) step(seen map[string]upstream.Snapshot, late bool) {
	now := g.current()
	routes := g.newRoutes(late)
	old := g.router.Swap(routes)
	g.metrics.count(routes.Table)

	// Before the upstreams have started no client has got a list: lists wait for
	// that. What changes until then is news to nobody.
	awaited := !g.isSettled()
	settled, told := true, make(map[string]catalog.Changes)
	for name, s := range now {
		before := seen[name]
		g.report(before, s)
		told[name] = catalog.Changes{
			Tools:     s.Changes.Tools > before.Changes.Tools,
			Prompts:   s.Changes.Prompts > before.Changes.Prompts,
			Resources: s.Changes.Resources > before.Changes.Resources,
		}
		seen[name] = s
	}
	for _, m := range g.upstreams {
		settled = settled && now[m.name].Settled
	}
	if (settled || late) && !g.isSettled() {
		close(g.settled)
		g.log.Info("upstreams have started", zap.Bool("all", settled))
	}
	outcome := "same"
	if diff := catalog.NewDiff(old.Table, routes.Table, told); diff.Any().Any() {
		outcome = "changed"
		if !awaited {
			g.front.ListChangedFor(func(who *call.Principal, client *call.Client) (tools, prompts, resources bool) {
				c := diff.For(who, client)
				return c.Tools, c.Prompts, c.Resources
			})
		}
	}
	g.metrics.swaps.WithLabelValues(outcome).Inc()
	g.remember(now)
}

// current returns the last snapshot of every upstream that has one.
func (g *Gateway) current() map[string]upstream.Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[string]upstream.Snapshot, len(g.snapshots))
	for name, s := range g.snapshots {
		out[name] = s
	}
	return out
}

// report logs a change of an upstream's state.
func (g *Gateway) report(before, now upstream.Snapshot) {
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

// newRoutes makes the routes of what the upstreams offer now. When the time to
// start is over (late), the last catalog of an earlier run stands in for an
// upstream that is still on its first attempt.
func (g *Gateway) newRoutes(late bool) *router.Routes {
	table := g.newTable(late, &g.schemas)
	if len(g.current()) > 0 {
		g.logFindings(table)
	}
	return &router.Routes{Table: table, Upstreams: g.routes, Subscribers: g.tellers}
}

// newTable makes the table for newRoutes. schemas are for one table after the
// other; nil for none.
func (g *Gateway) newTable(late bool, schemas *conform.Schemas) *catalog.Table {
	return g.buildTable(g.policy, late, schemas)
}

// buildTable makes the table that there would be with this policy.
func (g *Gateway) buildTable(p *policy.Policy, late bool, schemas *conform.Schemas) *catalog.Table {
	now := g.current()
	sources := make([]catalog.Source, 0, len(g.upstreams))
	for _, m := range g.upstreams {
		s, ok := now[m.name]
		if !ok {
			s = m.sessions.Snapshot()
		}
		sources = append(sources, g.source(m, s, late))
	}
	return catalog.Build(catalog.Options{Policy: p, ServerInfo: g.info, Schemas: schemas, Enrich: g.cfg.Resources.Enrich}, sources)
}

// source is what the table is to know of one upstream.
func (g *Gateway) source(m *member, s upstream.Snapshot, late bool) catalog.Source {
	src := catalog.Source{
		Space: m.space, Revision: s.Revision, Capabilities: s.Capabilities, Instructions: s.Instructions,
		Items: [call.Kinds][]wire.Raw{
			call.Tool: s.Catalog.Tools, call.Resource: s.Catalog.Resources,
			call.Template: s.Catalog.Templates, call.Prompt: s.Catalog.Prompts,
		},
		Freshness: catalog.Freshness{At: time.Now(), TTL: freshFor},
		Rules:     m.rules,
	}
	switch {
	case s.Up():
	case s.Lost && s.Revision != "":
		// The last catalog stays until an attempt has failed: hosts that see
		// tools go and come back for every crash lose them from their prompts.
	case !s.Settled && late && g.standIn(m, &src):
	case !s.Settled:
		src.Down = &catalog.Down{Since: s.Since, Reason: "starting", Starting: true}
	default:
		src.Down = &catalog.Down{Since: s.Since, Reason: s.Reason}
	}
	src.HeldTools = g.heldTools(m, src.Items[call.Tool], s)
	return src
}

// standIn fills src with the catalog of an earlier run, if one was kept.
func (g *Gateway) standIn(m *member, src *catalog.Source) bool {
	l := g.state.catalog(m.key)
	if l == nil {
		return false
	}
	src.Revision, src.Capabilities, src.Instructions = l.Revision, wire.Raw(l.Capabilities), l.Instructions
	src.Items = [call.Kinds][]wire.Raw{
		call.Tool: fromKept(l.Tools), call.Resource: fromKept(l.Resources),
		call.Template: fromKept(l.Templates), call.Prompt: fromKept(l.Prompts),
	}
	return true
}

// remember keeps the catalogs of upstreams that are ready, where they differ
// from what was kept before.
func (g *Gateway) remember(now map[string]upstream.Snapshot) {
	for _, m := range g.upstreams {
		s := now[m.name]
		if s.State != upstream.Ready || m.key == "" || sameCatalog(m.kept, s.Catalog) {
			continue
		}
		m.kept = s.Catalog
		g.state.keepCatalog(m.key, &listed{
			Revision: s.Revision, Instructions: s.Instructions, Capabilities: json.RawMessage(s.Capabilities),
			Tools: toKept(s.Catalog.Tools), Resources: toKept(s.Catalog.Resources),
			Templates: toKept(s.Catalog.Templates), Prompts: toKept(s.Catalog.Prompts),
		})
	}
}

func sameCatalog(a, b upstream.Catalog) bool {
	same := func(x, y []wire.Raw) bool {
		return slices.EqualFunc(x, y, func(p, q wire.Raw) bool { return string(p) == string(q) })
	}
	return same(a.Tools, b.Tools) && same(a.Resources, b.Resources) && same(a.Templates, b.Templates) && same(a.Prompts, b.Prompts)
}

func toKept(items []wire.Raw) []json.RawMessage {
	out := make([]json.RawMessage, len(items))
	for i, it := range items {
		out[i] = json.RawMessage(it)
	}
	return out
}

func fromKept(items []json.RawMessage) []wire.Raw {
	out := make([]wire.Raw, len(items))
	for i, it := range items {
		out[i] = wire.Raw(it)
	}
	return out
}

// maxReported bounds the findings that are remembered.
const maxReported = 8192

// logFindings counts and logs each fault, clash and unusable item once.
func (g *Gateway) logFindings(t *catalog.Table) {
	for _, f := range t.Findings() {
		if g.reported[f] || len(g.reported) >= maxReported {
			continue
		}
		g.reported[f] = true
		if f.What == catalog.Held {
			g.metrics.held.WithLabelValues(f.Upstream).Inc()
		}
		g.router.Found(f)
	}
}
