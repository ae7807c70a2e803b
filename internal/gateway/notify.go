package gateway

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/personal"
	"mcpgateway/internal/router"
)

// update has the changes of which clients may have to be notified after new tables.
type update struct {
	routes      *router.Routes
	listChanged map[string]catalog.Changes // that upstreams announced, by upstream
	principals  personal.Diffs             // for principals that have or had a table of their own
	// settled says that no connection is awaited. The changes of a reload are announced
	// once, when all of them are there.
	settled bool
	// starting says that the upstreams were still starting: lists were shown only to
	// principals that policy shows nothing of the upstreams that are awaited.
	starting bool
}

// profileDiffs are the differences between common tables, by profile. A profile has none if no
// client can see a difference.
type profileDiffs map[string]*catalog.Diff

// notifyClients notifies clients of what has changed in their profiles since they were last
// notified.
func (g *Gateway) notifyClients(u update) {
	announced := false
	for _, c := range u.listChanged {
		announced = announced || c.Any()
	}
	due := u.settled || u.starting || announced
	diffs, outcome := make(profileDiffs), "same"
	now := make(map[string]*catalog.Table)
	for profile, table := range u.routes.Tables() {
		before := g.control.announced[profile]
		now[profile] = table
		switch {
		case before == nil: // nobody has seen a new profile before
			continue
		case !due:
			now[profile] = before
			continue
		}
		diff := catalog.NewDiff(before, table, u.listChanged)
		if diff.Any().Any() {
			outcome = "changed"
		} else if !diff.OfPolicy() {
			continue
		}
		diffs[profile] = diff
	}
	if u.starting {
		g.notifyEarlyClients(u.listChanged)
	} else if g.notifyListChanges(diffs, u.principals) {
		outcome = "changed"
	}
	g.control.announced = now
	g.metrics.swaps.WithLabelValues(outcome).Inc()
}

// notifyListChanges notifies clients of changed lists, and reports whether there was any such
// client. shared are the differences for principals without their own table.
func (g *Gateway) notifyListChanges(shared profileDiffs, principals personal.Diffs) (notified bool) {
	if len(shared) == 0 && len(principals) == 0 {
		return false
	}
	changed := func(p *call.Principal, client *call.Client) (c catalog.Changes) {
		diff := shared[p.Profile]
		if own, ok := principals.Of(p); ok {
			diff = own
		}
		if diff == nil {
			return c
		}
		return diff.For(g.latest.Latest(p), client)
	}
	g.listChangedFor(func(p *call.Principal, client *call.Client) catalog.Changes {
		c := changed(p, client)
		notified = notified || c.Any()
		return c
	})
	if len(shared) > 0 || principals.Any() {
		g.relist(changed)
	}
	return notified
}

// listChangedFor notifies clients of their changed lists.
func (g *Gateway) listChangedFor(changed listsChanged) {
	g.front.ListChangedFor(func(p *call.Principal, client *call.Client) (tools, prompts, resources bool) {
		c := changed(p, client)
		return c.Tools, c.Prompts, c.Resources
	})
}

// notifyEarlyClients notifies the clients that were shown lists while upstreams were
// starting, if those lists have changed. Other clients have seen no list yet.
func (g *Gateway) notifyEarlyClients(listChanged map[string]catalog.Changes) {
	shown := g.router.ShownEarly()
	if len(shown) == 0 {
		return
	}
	now := g.router.Routes()
	diffs := make(map[[2]*catalog.Table]*catalog.Diff)
	g.front.ListChangedFor(func(p *call.Principal, client *call.Client) (tools, prompts, resources bool) {
		before := shown[p.Key()]
		if before == nil || before == now {
			return false, false, false
		}
		tables := [2]*catalog.Table{before.TableFor(p), now.TableFor(p)}
		if diffs[tables] == nil {
			diffs[tables] = catalog.NewDiff(tables[0], tables[1], listChanged)
		}
		c := diffs[tables].For(g.latest.Latest(p), client)
		return c.Tools, c.Prompts, c.Resources
	})
}
