package personal

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream/connector"
)

// Update is one round of the control loop: new tables for the principals that need one.
type Update struct {
	p        *Principals
	requests map[string]chan struct{}
	tables   *tables // the new ones, nil for none
}

// Begin begins an update for all requests up to now. Call Done at its end.
func (p *Principals) Begin() *Update {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := &Update{p: p, requests: p.requests}
	p.requests = make(map[string]chan struct{})
	return u
}

// Done lets requests continue that waited for the update.
func (u *Update) Done() {
	for _, c := range u.requests {
		close(c)
	}
}

// Rebuild makes the tables of all principals that have one or requested one, because the inputs
// have changed. It returns nil if no upstream lists items of its own to a principal.
func (u *Update) Rebuild(in Inputs) router.PrincipalTables {
	u.p.inputs = in
	if from := u.p.from; from == nil || from.policy != in.Policy || !slices.Equal(from.upstreams, in.Upstreams) {
		u.p.from = &source{upstreams: in.Upstreams, policy: in.Policy}
	}
	all := u.p.retained()
	if len(in.Upstreams) == 0 && len(all) == 0 {
		return nil
	}
	for key := range u.requests {
		all[key] = u.p.get(key)
	}
	t := &tables{p: u.p, from: u.p.from, byKey: make(map[string]*table, len(all))}
	for key, who := range all {
		u.p.rebuild(who, key, t, true)
	}
	if len(in.Upstreams) == 0 {
		return nil
	}
	u.tables = t
	return t
}

// Refresh makes the tables of the principals whose lists have changed, with the inputs of the last
// Rebuild. It returns the routes with these tables, nil if none has changed.
func (u *Update) Refresh() *router.Routes {
	routes := *u.p.gateway.Routes()
	before, ok := routes.PrincipalTables.(*tables)
	if len(u.requests) == 0 || !ok {
		return nil
	}
	t := &tables{p: u.p, from: before.from, byKey: maps.Clone(before.byKey)}
	changed := false
	for key := range u.requests {
		if u.p.rebuild(u.p.get(key), key, t, false) {
			changed = true
		}
	}
	if !changed {
		return nil
	}
	u.tables, routes.PrincipalTables = t, t
	return &routes
}

// Requested are the new tables of the principals that requested the update, with their profiles.
func (u *Update) Requested() iter.Seq2[string, *catalog.Table] {
	return func(yield func(string, *catalog.Table) bool) {
		for key := range u.requests {
			if u.tables != nil && u.tables.byKey[key] != nil && !yield(call.ProfileOf(key), u.tables.byKey[key].get()) {
				return
			}
		}
	}
}

// rebuild adds the table of a principal to t, or removes it if the principal
// has no lists of its own. It reports whether the table has changed. sharedChanged says
// that the other inputs of the table have changed, so that it must be rebuilt.
func (p *Principals) rebuild(who *principal, key string, t *tables, sharedChanged bool) bool {
	own := p.listed(who, key, t.from.upstreams)
	if len(own) == 0 {
		delete(t.byKey, key)
		had := who.current != nil
		who.current = nil
		who.lastGathering.Store(nil)
		p.setRetained(who, who.announced != nil && !who.missed)
		if who.missed {
			who.announced = nil
		}
		return had
	}
	if !sharedChanged && who.current != nil && equal(who.current.own, own) {
		return false
	}
	build := p.inputs.Build(call.ProfileOf(key), own)
	who.current = &table{own: own, get: sync.OnceValue(func() *catalog.Table {
		who.building.Lock()
		defer who.building.Unlock()
		return build(&who.schemas)
	})}
	t.byKey[key] = who.current
	p.setRetained(who, true)
	return true
}

// listed returns what upstreams list to a principal. If a session
// that supplied a list has ended, it returns none and sets missed: the next session of the
// principal supplies another list.
func (p *Principals) listed(who *principal, key string, upstreams []Upstream) Snapshots {
	if !p.inputs.HasProfile(call.ProfileOf(key)) {
		return nil
	}
	own := make(Snapshots)
	for _, u := range upstreams {
		s, as, ok := u.Own(key)
		switch {
		case ok && !u.NeedsGrant(as):
			own[u] = s
		case !ok && who.current != nil && who.current.has(u):
			who.missed = true
			return nil
		}
	}
	return own
}

func (t *table) has(u Upstream) bool {
	_, ok := t.own[u]
	return ok
}

// Diffs are the changes for principals that have or had a table of their own, by
// key. An entry is nil if nothing has changed.
type Diffs map[string]func() *catalog.Diff

// Of returns the changes for a principal, nil for none. It returns false if the principal sees the
// changes of the common tables.
func (d Diffs) Of(p *call.Principal) (*catalog.Diff, bool) {
	if len(d) == 0 {
		return nil, false
	}
	diff, ok := d[p.Key()]
	if diff == nil {
		return nil, ok
	}
	return diff(), true
}

// Any reports whether there may be a change.
func (d Diffs) Any() bool {
	for _, diff := range d {
		if diff != nil {
			return true
		}
	}
	return false
}

// Swap puts routes in force, and returns the changes for principals in their profiles, of which
// their clients are notified now. announced are the common tables that clients were last notified
// about, by profile. listChanged are the changes that upstreams announced for all. Without
// settled, only announced changes count.
func (u *Update) Swap(routes *router.Routes, announced map[string]*catalog.Table, listChanged map[string]catalog.Changes, settled bool) Diffs {
	u.p.swapping.Lock()
	defer u.p.swapping.Unlock()
	diffs := make(Diffs)
	for key, who := range u.p.retained() {
		changes, fresh := who.changes(listChanged)
		diffs[key] = nil
		before, after := who.announced, who.current
		if before == after || !settled && !fresh {
			continue
		}
		who.announced = after
		if after == nil {
			u.p.setRetained(who, false)
		}
		// The shared tables are for a principal without its own.
		profile := call.ProfileOf(key)
		from, to := announced[profile], routes.TableIn(profile)
		if who.missed = false; !who.shown.Load() || before == nil && from == nil {
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
	u.p.gateway.Swap(routes)
	return diffs
}

// changes returns the list changes that upstreams announced to a principal, by
// upstream, and whether there is any. listChanged are those announced for all.
func (who *principal) changes(listChanged map[string]catalog.Changes) (changes map[string]catalog.Changes, announced bool) {
	changes = make(map[string]catalog.Changes)
	maps.Copy(changes, listChanged)
	if who.current != nil {
		for u, s := range who.current.own {
			c := catalog.Changes{Tools: who.missed, Prompts: who.missed, Resources: who.missed}
			if who.announced != nil {
				c = ListChanges(who.announced.own[u], s)
			}
			changes[s.Name] = c
		}
	}
	for _, c := range changes {
		announced = announced || c.Any()
	}
	return changes, announced
}

// ListChanges returns the list changes that an upstream announced between two snapshots.
func ListChanges(before, now connector.Snapshot) catalog.Changes {
	return catalog.Changes{
		Tools:     now.Changes.Tools > before.Changes.Tools,
		Prompts:   now.Changes.Prompts > before.Changes.Prompts,
		Resources: now.Changes.Resources > before.Changes.Resources,
	}
}
