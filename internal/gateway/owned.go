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
type base struct {
	lineup  *lineup
	sources []catalog.Source // of its members
}

// owned are the tables of principals at one moment. It implements router.Owners and is
// immutable.
type owned struct {
	g      *Gateway
	from   *personal
	tables map[string]*ownTable
}

// personal are the upstreams whose lists may depend on who asks, and what decides who may
// see something of them.
type personal struct {
	links  []*link
	policy *policy.Policy
}

// ownTable is the table of one principal.
type ownTable struct {
	parts map[*link]upstream.Snapshot // that are theirs
	get   func() *catalog.Table
}

// Table implements router.Owners.
func (o *owned) Table(who *call.Principal) *catalog.Table {
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
func (o *owned) Gather(ctx context.Context, c *call.Call) error {
	if !upstream.Proved(c.Principal) {
		return nil
	}
	key, now := c.Principal.Key(), time.Now()
	w := o.g.owners.of(key)
	every := min(visitEvery, o.g.cfg.Limits.SessionIdle/2)
	rights := o.from.policy.Key(policy.Caller{Principal: c.Principal, Revision: c.Client.Revision})
	if l := w.last.Load(); l != nil && l.from == o.from && l.rights == rights && now.Sub(l.at) < every {
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
	if !o.g.show(w, key, o.from.links) {
		looked := o.g.owners.want(key)
		o.g.poke()
		select {
		case <-looked:
		case <-o.g.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.shown.Store(true)
	w.last.Store(&look{at: now, from: o.from, rights: rights})
	return nil
}

// show notes that a principal is about to be shown what the routes have, and reports
// true, if that is what their sessions list.
func (g *Gateway) show(w *owner, key string, links []*link) bool {
	g.owners.swapping.RLock()
	defer g.owners.swapping.RUnlock()
	if !g.served(key, links) {
		return false
	}
	w.shown.Store(true)
	return true
}

// served reports whether the routes have what the sessions of a principal list.
func (g *Gateway) served(key string, links []*link) bool {
	o, ok := g.router.Routes().Owners.(*owned)
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
func (g *Gateway) personalOf(l *lineup) *personal {
	p := &personal{policy: l.policy}
	for _, m := range l.members {
		if m.options.Personal {
			p.links = append(p.links, m.serving.Load())
		}
	}
	if before, ok := g.router.Routes().Owners.(*owned); ok && before.from.policy == p.policy && slices.Equal(before.from.links, p.links) {
		return before.from
	}
	return p
}

// newOwned makes the tables of principals anew, on another base: of those who have one
// and those who are wanted.
func (g *Gateway) newOwned(wanted wanted) router.Owners {
	from := g.personalOf(g.base.lineup)
	holders := g.owners.holders()
	if len(from.links) == 0 && len(holders) == 0 {
		return nil
	}
	for key := range wanted {
		holders[key] = g.owners.of(key)
	}
	o := &owned{g: g, from: from, tables: make(map[string]*ownTable, len(holders))}
	for key, w := range holders {
		g.own(w, key, o, true)
	}
	if len(from.links) == 0 {
		return nil
	}
	return o
}

// stepOwners swaps in other tables for the principals whose lists have changed, and
// tells their clients.
func (g *Gateway) stepOwners() {
	wanted := g.owners.take()
	defer wanted.done()
	routes := *g.router.Routes()
	before, ok := routes.Owners.(*owned)
	if len(wanted) == 0 || !ok {
		return
	}
	o := &owned{g: g, from: before.from, tables: maps.Clone(before.tables)}
	changed := false
	for key := range wanted {
		if g.own(g.owners.of(key), key, o, false) {
			changed = true
		}
	}
	if !changed {
		return
	}
	routes.Owners = o
	g.logOwnFindings(o, wanted, false)
	own := g.swap(&routes, nil, g.waiting.IsZero())
	if !g.isSettled() {
		g.tellEarly(nil)
	} else {
		g.tellAll(nil, own)
	}
}

// swap puts routes in place, and returns what has changed for principals: see
// diffOwners.
func (g *Gateway) swap(routes *router.Routes, told map[string]catalog.Changes, settled bool) ownDiffs {
	g.owners.swapping.Lock()
	defer g.owners.swapping.Unlock()
	own := g.diffOwners(routes.Table, told, settled)
	g.router.Swap(routes)
	return own
}

// logOwnFindings reports what is wrong with what upstreams list for some principals.
func (g *Gateway) logOwnFindings(owners router.Owners, of wanted, settled bool) {
	o, _ := owners.(*owned)
	for key := range of {
		if o != nil && o.tables[key] != nil {
			g.logFindings(o.tables[key].get(), settled)
		}
	}
}

// own puts the table of a principal into o, or takes it out, and reports whether it
// is another one. always makes a new one, since what it is made of beside their lists has
// changed.
func (g *Gateway) own(w *owner, key string, o *owned, always bool) bool {
	l := g.base.lineup
	parts := make(map[*link]upstream.Snapshot)
	for _, link := range o.from.links {
		s, who, ok := link.sessions.Own(key)
		if !ok {
			if w.own != nil && hasPart(w.own, link) { // the session has ended; who comes again gets another
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
		had := w.own != nil
		w.own = nil
		w.last.Store(nil)
		g.owners.hold(w, w.told != nil && !w.missed)
		if w.missed {
			w.told = nil
		}
		return had
	}
	if !always && w.own != nil && sameParts(w.own.parts, parts) {
		return false
	}
	sources := g.base.sources
	theirs := make(map[int]upstream.Snapshot) // found now: when the table is built others may serve
	for i, m := range l.members {
		if s, ok := parts[m.serving.Load()]; ok {
			theirs[i] = s
		}
	}
	t := &ownTable{parts: parts}
	t.get = sync.OnceValue(func() *catalog.Table {
		own := slices.Clone(sources)
		for i, s := range theirs {
			own[i] = g.source(l.members[i], s, false, true)
		}
		w.building.Lock()
		defer w.building.Unlock()
		return catalog.Build(g.tableOptions(l, l.policy, &w.schemas), own)
	})
	w.own, o.tables[key] = t, t
	g.owners.hold(w, true)
	return true
}

func hasPart(t *ownTable, l *link) bool {
	_, ok := t.parts[l]
	return ok
}

func sameParts(a, b map[*link]upstream.Snapshot) bool {
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
func (g *Gateway) diffOwners(table *catalog.Table, told map[string]catalog.Changes, settled bool) ownDiffs {
	out := make(ownDiffs)
	for key, w := range g.owners.holders() {
		said, any := g.toldOwner(w, told)
		out[key] = nil
		before, after := w.told, w.own
		if before == after || !settled && !any {
			continue
		}
		w.told = after
		if after == nil {
			g.owners.hold(w, false)
		}
		from, to := g.known, table // as one without a table of their own
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
func (g *Gateway) toldOwner(w *owner, told map[string]catalog.Changes) (map[string]catalog.Changes, bool) {
	said, any := make(map[string]catalog.Changes), false
	for name, c := range told {
		said[name] = c
	}
	if w.own != nil {
		for l, s := range w.own.parts {
			c := catalog.Changes{Tools: w.missed, Prompts: w.missed, Resources: w.missed}
			if w.told != nil {
				c = news(w.told.parts[l], s)
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
func news(before, now upstream.Snapshot) catalog.Changes {
	return catalog.Changes{
		Tools:     now.Changes.Tools > before.Changes.Tools,
		Prompts:   now.Changes.Prompts > before.Changes.Prompts,
		Resources: now.Changes.Resources > before.Changes.Resources,
	}
}
