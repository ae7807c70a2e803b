package gateway

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
)

// update is what clients may have to be notified about after a new table.
type update struct {
	table       *catalog.Table
	listChanged map[string]catalog.Changes // that upstreams announced, by upstream
	principals  principalDiffs             // for principals that have or had a table of their own
	// settled says that no connection is awaited. The changes of a reload are announced
	// once, when all of them are there.
	settled bool
	// starting says that the upstreams were still starting: lists were shown only to
	// principals that policy shows nothing of the upstreams that are awaited.
	starting bool
}

// notifyClients notifies clients of what has changed since they were last notified.
func (g *Gateway) notifyClients(u update) {
	announced := false
	for _, c := range u.listChanged {
		announced = announced || c.Any()
	}
	due := u.settled || u.starting || announced
	var diff *catalog.Diff
	outcome := "same"
	if due {
		if diff = catalog.NewDiff(g.control.announced, u.table, u.listChanged); diff.Any().Any() {
			outcome = "changed"
		} else {
			diff = nil
		}
	}
	if u.starting {
		g.notifyEarlyClients(u.listChanged)
	} else {
		g.notifyListChanges(diff, u.principals)
	}
	if due {
		g.control.announced = u.table
	}
	g.metrics.swaps.WithLabelValues(outcome).Inc()
}

// notifyListChanges notifies clients of changed lists. shared is the difference for
// principals without a table of their own, nil for none.
func (g *Gateway) notifyListChanges(shared *catalog.Diff, principals principalDiffs) {
	if shared == nil && len(principals) == 0 {
		return
	}
	g.front.ListChangedFor(func(p *call.Principal, client *call.Client) (tools, prompts, resources bool) {
		diff := shared
		if len(principals) > 0 {
			if d, ok := principals[p.Key()]; ok {
				if d == nil {
					return false, false, false
				}
				diff = d()
			}
		}
		if diff == nil {
			return false, false, false
		}
		c := diff.For(g.latest.Latest(p), client)
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
