package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/upstream/connector"
)

// principalTables are the tables of principals in one version of the routes. It
// implements router.PrincipalTables and is immutable.
type principalTables struct {
	g      *Gateway
	from   *personalUpstreams
	tables map[string]*principalTable // by key of the principal
}

// personalUpstreams are the upstreams whose lists may depend on the principal, and the
// policy that decides who may see something of them.
type personalUpstreams struct {
	conns  []*connection
	policy *policy.Policy
}

// principalTable is the table of one principal.
type principalTable struct {
	parts map[*connection]connector.Snapshot // the lists that are the principal's own
	get   func() *catalog.Table              // builds the table at the first call
}

// Table implements router.PrincipalTables.
func (t *principalTables) Table(p *call.Principal) *catalog.Table {
	if len(t.tables) == 0 {
		return nil
	}
	if own := t.tables[p.Key()]; own != nil {
		return own.get()
	}
	return nil
}

// Gather implements router.PrincipalTables. A principal that has not given a grant yet gets the
// lists of the gateway itself. Upstreams of which policy shows the principal nothing are
// left out: they must not learn of the principal, and the time that they take must not
// reveal them.
func (t *principalTables) Gather(ctx context.Context, c *call.Call) error {
	if !upstream.Proved(c.Principal) {
		return nil
	}
	key, now := c.Principal.Key(), time.Now()
	p := t.g.principals.get(key)
	interval := min(gatherInterval, t.g.cfg.Limits.SessionIdle/2)
	routes := t.g.router.Routes()
	rights := routes.TableIn(c.Principal.Profile).RightsKey(c.Principal, c.Client)
	if last := p.lastGathering.Load(); last != nil && last.from == t.from && last.rights == rights && now.Sub(last.at) < interval {
		return nil
	}
	view := routes.TableFor(c.Principal).View(c.Principal, c.Client)
	var wg sync.WaitGroup
	for _, conn := range t.from.conns {
		if !view.Reaches(conn.name) {
			continue
		}
		wg.Go(func() {
			if conn.credentials == nil || c.By == "" && !conn.credentials.NeedsGrant(c.Principal) {
				conn.sessions.Gather(ctx, c)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !t.g.showCurrent(p, key, t.from.conns) {
		refreshed := t.g.principals.requestRefresh(key)
		t.g.wakeControl()
		select {
		case <-refreshed:
		case <-t.g.controlEnded:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.shown.Store(true)
	p.lastGathering.Store(&gathering{at: now, from: t.from, rights: rights})
	return nil
}

// showCurrent reports whether the routes contain what the principal's sessions list. If
// so, it marks the principal as shown, since it is about to see the routes.
func (g *Gateway) showCurrent(p *principalState, key string, conns []*connection) bool {
	g.principals.swapping.RLock()
	defer g.principals.swapping.RUnlock()
	if !g.isCurrent(key, conns) {
		return false
	}
	p.shown.Store(true)
	return true
}

// isCurrent reports whether the routes contain what the sessions of a principal list.
func (g *Gateway) isCurrent(key string, conns []*connection) bool {
	tables, ok := g.router.Routes().PrincipalTables.(*principalTables)
	if !ok {
		return false
	}
	t := tables.tables[key]
	for _, conn := range conns {
		now, _, found := conn.sessions.Own(key)
		if !found {
			continue
		}
		if t == nil {
			return false
		}
		if s, ok := t.parts[conn]; !ok || s.Settled != now.Settled {
			return false
		}
	}
	return true
}

// personalUpstreamsOf returns the upstreams of a generation whose lists may depend on the
// principal. It returns the same pointer as before if nothing has changed.
func (g *Gateway) personalUpstreamsOf(gen *generation) *personalUpstreams {
	p := &personalUpstreams{policy: gen.Policy}
	for _, e := range gen.entries {
		if e.options.Personal {
			p.conns = append(p.conns, e.active.Load())
		}
	}
	if before, ok := g.router.Routes().PrincipalTables.(*principalTables); ok && before.from.policy == p.policy && slices.Equal(before.from.conns, p.conns) {
		return before.from
	}
	return p
}

// newPrincipalTables rebuilds the tables of all retained principals and of those that
// requested it, because the shared inputs of the tables have changed.
func (g *Gateway) newPrincipalTables(requests refreshRequests) router.PrincipalTables {
	from := g.personalUpstreamsOf(g.control.inputs.generation)
	retained := g.principals.retained()
	if len(from.conns) == 0 && len(retained) == 0 {
		return nil
	}
	for key := range requests {
		retained[key] = g.principals.get(key)
	}
	tables := &principalTables{g: g, from: from, tables: make(map[string]*principalTable, len(retained))}
	for key, p := range retained {
		g.rebuildPrincipal(p, key, tables, true)
	}
	if len(from.conns) == 0 {
		return nil
	}
	return tables
}

// rebuildPrincipals swaps in new tables for the principals whose lists have changed, and
// notifies their clients. The control loop calls it if nothing else has changed.
func (g *Gateway) rebuildPrincipals() {
	requests := g.principals.takeRequests()
	defer requests.done()
	routes := *g.router.Routes()
	before, ok := routes.PrincipalTables.(*principalTables)
	if len(requests) == 0 || !ok {
		return
	}
	tables := &principalTables{g: g, from: before.from, tables: maps.Clone(before.tables)}
	changed := false
	for key := range requests {
		if g.rebuildPrincipal(g.principals.get(key), key, tables, false) {
			changed = true
		}
	}
	if !changed {
		return
	}
	routes.PrincipalTables = tables
	g.logPrincipalFindings(tables, requests, false)
	diffs := g.swap(&routes, nil, g.control.waitUntil.IsZero())
	if g.isStarted() {
		g.notifyListChanges(nil, diffs)
	} else {
		g.notifyEarlyClients(nil)
	}
}

// swap puts routes in force, and returns the changes for principals, see diffPrincipals.
func (g *Gateway) swap(routes *router.Routes, listChanged map[string]catalog.Changes, settled bool) principalDiffs {
	g.principals.swapping.Lock()
	defer g.principals.swapping.Unlock()
	diffs := g.diffPrincipals(routes, listChanged, settled)
	g.router.Swap(routes)
	return diffs
}

// logPrincipalFindings logs the findings in the tables of the principals that requested a
// refresh.
func (g *Gateway) logPrincipalFindings(tables router.PrincipalTables, requests refreshRequests, settled bool) {
	t, _ := tables.(*principalTables)
	for key := range requests {
		if t != nil && t.tables[key] != nil {
			table := t.tables[key].get()
			g.logFindings("", table.Ordinary(), settled)
			g.logFindings(call.ProfileOf(key), table, settled)
		}
	}
}

// rebuildPrincipal adds the table of a principal to tables, or removes it if the principal
// has no lists of its own. It reports whether the table has changed. sharedChanged says
// that the other inputs of the table have changed, so that it must be rebuilt.
func (g *Gateway) rebuildPrincipal(p *principalState, key string, tables *principalTables, sharedChanged bool) bool {
	parts := g.principalParts(p, key, tables.from.conns)
	if len(parts) == 0 {
		delete(tables.tables, key)
		had := p.current != nil
		p.current = nil
		p.lastGathering.Store(nil)
		g.principals.setRetained(p, p.announced != nil && !p.missed)
		if p.missed {
			p.announced = nil
		}
		return had
	}
	if !sharedChanged && p.current != nil && equalParts(p.current.parts, parts) {
		return false
	}
	t := g.newPrincipalTable(p, call.ProfileOf(key), parts)
	p.current, tables.tables[key] = t, t
	g.principals.setRetained(p, true)
	return true
}

// principalParts returns what upstreams list to a principal, by connection. If a session
// that supplied a part has ended, it returns none and sets missed: the next session of the
// principal supplies another list.
func (g *Gateway) principalParts(p *principalState, key string, conns []*connection) map[*connection]connector.Snapshot {
	if !g.control.inputs.generation.HasProfile(call.ProfileOf(key)) {
		return nil
	}
	parts := make(map[*connection]connector.Snapshot)
	for _, conn := range conns {
		s, principal, ok := conn.sessions.Own(key)
		switch {
		case ok && (conn.credentials == nil || !conn.credentials.NeedsGrant(principal)):
			parts[conn] = s
		case !ok && p.current != nil && p.current.has(conn):
			p.missed = true
			return nil
		}
	}
	return parts
}

// newPrincipalTable returns the table of a principal in a profile, which is built at its first
// use. The lists of the principal replace those of the gateway.
func (g *Gateway) newPrincipalTable(p *principalState, profile string, parts map[*connection]connector.Snapshot) *principalTable {
	gen, shared := g.control.inputs.generation, g.control.inputs.sources
	personal := make(map[int]connector.Snapshot) // resolved now: other connections may be active when the table is built
	for i, e := range gen.entries {
		if s, ok := parts[e.active.Load()]; ok {
			personal[i] = s
		}
	}
	return &principalTable{parts: parts, get: sync.OnceValue(func() *catalog.Table {
		sources := slices.Clone(shared)
		for i, s := range personal {
			sources[i] = g.catalogSource(gen.entries[i], s, false, true)
		}
		p.building.Lock()
		defer p.building.Unlock()
		return catalog.Build(g.tableOptions(gen, gen.Profile(profile), gen.Policy, &p.schemas), sources)
	})}
}

func (t *principalTable) has(conn *connection) bool {
	_, ok := t.parts[conn]
	return ok
}

func equalParts(a, b map[*connection]connector.Snapshot) bool {
	if len(a) != len(b) {
		return false
	}
	for conn, s := range a {
		t, ok := b[conn]
		if !ok || !s.Same(&t) {
			return false
		}
	}
	return true
}

// diffPrincipals returns the changes for principals in their profiles, and marks them as
// announced. routes are the new routes. listChanged are the changes that upstreams announced
// for all. settled has the meaning of update.settled.
func (g *Gateway) diffPrincipals(routes *router.Routes, listChanged map[string]catalog.Changes, settled bool) principalDiffs {
	diffs := make(principalDiffs)
	for key, p := range g.principals.retained() {
		changes, announced := principalChanges(p, listChanged)
		diffs[key] = nil
		before, after := p.announced, p.current
		if before == after || !settled && !announced {
			continue
		}
		p.announced = after
		if after == nil {
			g.principals.setRetained(p, false)
		}
		// The shared tables are for a principal without its own.
		profile := call.ProfileOf(key)
		from, to := g.control.announced[profile], routes.TableIn(profile)
		if p.missed = false; !p.shown.Load() || before == nil && from == nil {
			continue // the principal has seen no list yet
		}
		diffs[key] = sync.OnceValue(func() *catalog.Diff {
			if before != nil {
				from = before.get()
			}
			if after != nil {
				to = after.get()
			}
			return catalog.NewDiff(from, to, changes)
		})
	}
	return diffs
}

// principalChanges returns the list changes that upstreams announced to a principal, by
// upstream, and whether there is any. listChanged are those announced for all.
func principalChanges(p *principalState, listChanged map[string]catalog.Changes) (changes map[string]catalog.Changes, announced bool) {
	changes = make(map[string]catalog.Changes)
	for name, c := range listChanged {
		changes[name] = c
	}
	if p.current != nil {
		for conn, s := range p.current.parts {
			c := catalog.Changes{Tools: p.missed, Prompts: p.missed, Resources: p.missed}
			if p.announced != nil {
				c = changesSince(p.announced.parts[conn], s)
			}
			changes[s.Name] = c
		}
	}
	for _, c := range changes {
		announced = announced || c.Any()
	}
	return changes, announced
}
