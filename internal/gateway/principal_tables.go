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
)

// base is what the last table was made of.
type tableInputs struct {
	generation *generation
	sources    []catalog.Source // of its members
}

// owned are the tables of principals at one moment. It implements router.Owners and is
// immutable.
type principalTables struct {
	g      *Gateway
	from   *personalUpstreams
	tables map[string]*principalTable
}

// personal are the upstreams whose lists may depend on who asks, and what decides who may
// see something of them.
type personalUpstreams struct {
	links  []*connection
	policy *policy.Policy
}

// ownTable is the table of one principal.
type principalTable struct {
	parts map[*connection]upstream.Snapshot // that are theirs
	get   func() *catalog.Table
}

// Table implements router.Owners.
func (o *principalTables) Table(who *call.Principal) *catalog.Table {
	if len(o.tables) == 0 {
		return nil
	}
	if t := o.tables[who.Key()]; t != nil {
		return t.get()
	}
	return nil
}

// Gather implements router.Owners. Whoever has given no grant yet gets what the
// gateway itself is listed. Upstreams of which policy shows a principal nothing learn
// nothing of them, and are not waited for: how long they take is not for their eyes.
func (o *principalTables) Gather(ctx context.Context, c *call.Call) error {
	if !upstream.Proved(c.Principal) {
		return nil
	}
	key, now := c.Principal.Key(), time.Now()
	w := o.g.principals.get(key)
	every := min(gatherInterval, o.g.cfg.Limits.SessionIdle/2)
	rights := o.from.policy.Key(policy.Caller{Principal: c.Principal, Revision: c.Client.Revision})
	if l := w.lastGathering.Load(); l != nil && l.from == o.from && l.rights == rights && now.Sub(l.at) < every {
		return nil
	}
	view := o.g.router.Routes().TableFor(c.Principal).View(c.Principal, c.Client)
	var wg sync.WaitGroup
	for _, l := range o.from.links {
		if !view.Reaches(l.name) {
			continue
		}
		wg.Go(func() {
			if l.source == nil || !l.source.Wants(c.Principal) {
				l.sessions.Gather(ctx, c)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !o.g.markShown(w, key, o.from.links) {
		looked := o.g.principals.requestRefresh(key)
		o.g.wakeControl()
		select {
		case <-looked:
		case <-o.g.controlEnded:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.shown.Store(true)
	w.lastGathering.Store(&gathering{at: now, from: o.from, rights: rights})
	return nil
}

// show notes that a principal is about to be shown what the routes have, and reports
// true, if that is what their sessions list.
func (g *Gateway) markShown(w *principalState, key string, links []*connection) bool {
	g.principals.swapping.RLock()
	defer g.principals.swapping.RUnlock()
	if !g.isCurrent(key, links) {
		return false
	}
	w.shown.Store(true)
	return true
}

// served reports whether the routes have what the sessions of a principal list.
func (g *Gateway) isCurrent(key string, links []*connection) bool {
	o, ok := g.router.Routes().Owners.(*principalTables)
	if !ok {
		return false
	}
	t := o.tables[key]
	for _, l := range links {
		now, _, own := l.sessions.Own(key)
		if !own {
			continue
		}
		if t == nil {
			return false
		}
		if s, there := t.parts[l]; !there || s.Settled != now.Settled {
			return false
		}
	}
	return true
}

// personalOf returns the upstreams whose lists may depend on who asks: what was there
// before, where it is the same.
func (g *Gateway) personalUpstreamsOf(l *generation) *personalUpstreams {
	p := &personalUpstreams{policy: l.policy}
	for _, m := range l.entries {
		if m.options.Personal {
			p.links = append(p.links, m.active.Load())
		}
	}
	if before, ok := g.router.Routes().Owners.(*principalTables); ok && before.from.policy == p.policy && slices.Equal(before.from.links, p.links) {
		return before.from
	}
	return p
}

// newOwned makes the tables of principals anew, on another base: of those who have one
// and those who are wanted.
func (g *Gateway) newPrincipalTables(wanted refreshRequests) router.Owners {
	from := g.personalUpstreamsOf(g.inputs.generation)
	holders := g.principals.retained()
	if len(from.links) == 0 && len(holders) == 0 {
		return nil
	}
	for key := range wanted {
		holders[key] = g.principals.get(key)
	}
	o := &principalTables{g: g, from: from, tables: make(map[string]*principalTable, len(holders))}
	for key, w := range holders {
		g.rebuildPrincipal(w, key, o, true)
	}
	if len(from.links) == 0 {
		return nil
	}
	return o
}

// stepOwners swaps in other tables for the principals whose lists have changed, and
// tells their clients.
func (g *Gateway) rebuildPrincipals() {
	wanted := g.principals.takeRequests()
	defer wanted.done()
	routes := *g.router.Routes()
	before, ok := routes.Owners.(*principalTables)
	if len(wanted) == 0 || !ok {
		return
	}
	o := &principalTables{g: g, from: before.from, tables: maps.Clone(before.tables)}
	changed := false
	for key := range wanted {
		if g.rebuildPrincipal(g.principals.get(key), key, o, false) {
			changed = true
		}
	}
	if !changed {
		return
	}
	routes.Owners = o
	g.logPrincipalFindings(o, wanted, false)
	own := g.swap(&routes, nil, g.waitUntil.IsZero())
	if !g.isStarted() {
		g.notifyEarlyClients(nil)
	} else {
		g.notifyListChanges(nil, own)
	}
}

// swap puts routes in place, and returns what has changed for principals: see
// diffOwners.
func (g *Gateway) swap(routes *router.Routes, told map[string]catalog.Changes, settled bool) principalDiffs {
	g.principals.swapping.Lock()
	defer g.principals.swapping.Unlock()
	own := g.diffPrincipals(routes.Table, told, settled)
	g.router.Swap(routes)
	return own
}

// logOwnFindings reports what is wrong with what upstreams list for some principals.
func (g *Gateway) logPrincipalFindings(owners router.Owners, of refreshRequests, settled bool) {
	o, _ := owners.(*principalTables)
	for key := range of {
		if o != nil && o.tables[key] != nil {
			g.logFindings(o.tables[key].get(), settled)
		}
	}
}

// own puts the table of a principal into o, or takes it out, and reports whether it
// is another one. always makes a new one, since what it is made of beside their lists has
// changed.
func (g *Gateway) rebuildPrincipal(w *principalState, key string, o *principalTables, always bool) bool {
	l := g.inputs.generation
	parts := make(map[*connection]upstream.Snapshot)
	for _, link := range o.from.links {
		s, who, ok := link.sessions.Own(key)
		if !ok {
			if w.current != nil && hasPart(w.current, link) { // the session has ended; who comes again gets another
				w.missed = true
				clear(parts)
				break
			}
			continue
		}
		if link.source == nil || !link.source.Wants(who) {
			parts[link] = s
		}
	}
	if len(parts) == 0 {
		delete(o.tables, key)
		had := w.current != nil
		w.current = nil
		w.lastGathering.Store(nil)
		g.principals.setRetained(w, w.announced != nil && !w.missed)
		if w.missed {
			w.announced = nil
		}
		return had
	}
	if !always && w.current != nil && sameParts(w.current.parts, parts) {
		return false
	}
	sources := g.inputs.sources
	theirs := make(map[int]upstream.Snapshot) // found now: when the table is built others may serve
	for i, m := range l.entries {
		if s, ok := parts[m.active.Load()]; ok {
			theirs[i] = s
		}
	}
	t := &principalTable{parts: parts}
	t.get = sync.OnceValue(func() *catalog.Table {
		own := slices.Clone(sources)
		for i, s := range theirs {
			own[i] = g.catalogSource(l.entries[i], s, false, true)
		}
		w.building.Lock()
		defer w.building.Unlock()
		return catalog.Build(g.tableOptions(l, l.policy, &w.schemas), own)
	})
	w.current, o.tables[key] = t, t
	g.principals.setRetained(w, true)
	return true
}

func hasPart(t *principalTable, l *connection) bool {
	_, ok := t.parts[l]
	return ok
}

func sameParts(a, b map[*connection]upstream.Snapshot) bool {
	if len(a) != len(b) {
		return false
	}
	for l, s := range a {
		t, ok := b[l]
		if !ok || !s.Same(&t) {
			return false
		}
	}
	return true
}

// diffOwners returns what has changed for principals, and notes that they are told. told
// is what upstreams said that has changed for all; settled as for spread.
func (g *Gateway) diffPrincipals(table *catalog.Table, told map[string]catalog.Changes, settled bool) principalDiffs {
	out := make(principalDiffs)
	for key, w := range g.principals.retained() {
		said, any := g.changesFor(w, told)
		out[key] = nil
		before, after := w.announced, w.current
		if before == after || !settled && !any {
			continue
		}
		w.announced = after
		if after == nil {
			g.principals.setRetained(w, false)
		}
		from, to := g.announced, table // as one without a table of their own
		if before != nil {
			from = nil
		}
		if w.missed = false; !w.shown.Load() {
			continue // they have listed nothing yet
		}
		out[key] = sync.OnceValue(func() *catalog.Diff {
			if from == nil {
				from = before.get()
			}
			if after != nil {
				to = after.get()
			}
			return catalog.NewDiff(from, to, said)
		})
	}
	return out
}

// toldOwner returns what upstreams said that has changed for a principal, and whether
// they said anything.
func (g *Gateway) changesFor(w *principalState, told map[string]catalog.Changes) (map[string]catalog.Changes, bool) {
	said, any := make(map[string]catalog.Changes), false
	for name, c := range told {
		said[name] = c
	}
	if w.current != nil {
		for l, s := range w.current.parts {
			c := catalog.Changes{Tools: w.missed, Prompts: w.missed, Resources: w.missed}
			if w.announced != nil {
				c = changesSince(w.announced.parts[l], s)
			}
			said[s.Name] = c
		}
	}
	for _, c := range said {
		any = any || c.Any()
	}
	return said, any
}

// news is what the server said has changed between two snapshots.
func changesSince(before, now upstream.Snapshot) catalog.Changes {
	return catalog.Changes{
		Tools:     now.Changes.Tools > before.Changes.Tools,
		Prompts:   now.Changes.Prompts > before.Changes.Prompts,
		Resources: now.Changes.Resources > before.Changes.Resources,
	}
}
