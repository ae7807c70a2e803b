package gateway

import (
	"context"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/personal"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream/connector"
)

// rebuildInterval is the least time between two tables. A burst of changes becomes one
// table, and clients still hear of each change within 200 ms.
const rebuildInterval = 50 * time.Millisecond

// pinsCheckInterval is how often the control loop checks whether another process has
// accepted tools.
const pinsCheckInterval = 2 * time.Second

// controlState is the state of the control loop. Only the control loop uses it, and New
// before the loop begins.
type controlState struct {
	schemas        conform.Cache                  // reuses compiled schemas from one table to the next
	loggedFindings map[string]map[uint64]bool     // digests of the findings that were logged, by upstream
	announced      map[string]*catalog.Table      // the tables that clients were last notified about, by profile
	inUse          map[*connection]*upstreamEntry // the connections of the last table
	drainingEpochs []*epoch                       // their calls may still use connections that are not in use
	noticed        noticedChange                  // the last change that no program has asked for
	waitUntil      time.Time                      // the end of the wait for a first attempt, zero if nothing is awaited
}

// controlLoop turns each change of an upstream and each new configuration into a new
// table:
//
//	connectors gather ─▶ build the table ─▶ swap it in ─▶ notify clients
func (g *Gateway) controlLoop(ctx context.Context) error {
	defer close(g.controlEnded)
	pinsCheck := time.NewTicker(pinsCheckInterval)
	defer pinsCheck.Stop()
	for _, e := range g.generation.Load().entries {
		g.startConnection(ctx, e.conn)
	}
	g.rebuild(ctx, time.Now())
	for {
		var overdue <-chan time.Time
		if !g.control.waitUntil.IsZero() {
			overdue = time.After(time.Until(g.control.waitUntil))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-overdue:
			g.rebuildAll.Store(true)
		case <-g.wakeups:
		case done := <-g.flushes:
			g.rememberCatalogs(snapshotsOf(g.generation.Load().connections()))
			close(done)
			continue
		case <-pinsCheck.C:
			if accepted := g.generation.Load().pins(); accepted == nil || !accepted.Changed() {
				continue
			}
			g.rebuildAll.Store(true)
		case r := <-g.reloads:
			g.reload(ctx, r)
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

// requestRebuild makes the control loop build a new table.
func (g *Gateway) requestRebuild() {
	g.rebuildAll.Store(true)
	g.wakeControl()
}

// wakeControl makes the control loop look at what it was requested to do.
func (g *Gateway) wakeControl() {
	select {
	case g.wakeups <- struct{}{}:
	default: // the pending wakeup covers this request
	}
}

// rebuild builds the tables of what the upstreams offer now, swaps them in, and notifies
// clients.
func (g *Gateway) rebuild(ctx context.Context, now time.Time) {
	// Gather. The snapshots are of one moment: an upstream that is no longer awaited
	// is in the table.
	gen := g.generation.Load()
	gathered := snapshotsOf(gen.connections())
	g.control.waitUntil = gen.activate(now, gathered)
	inUse := gen.connections()
	maps.DeleteFunc(gathered, func(c *connection, _ connector.Snapshot) bool { return inUse[c] == nil })
	principals := g.principals.Begin()

	// Build.
	routes := g.buildRoutes(gen, gathered, now, principals)
	u := update{
		routes: routes, listChanged: g.takeListChanged(gathered, inUse),
		settled: g.control.waitUntil.IsZero(), starting: !g.isStarted(),
	}

	// Log before anyone can see the table.
	everything := routes.Table.Ordinary()
	g.logFindings("", everything, u.settled)
	for profile, table := range routes.Tables() {
		g.logFindings(profile, table, u.settled)
	}
	g.logPrincipalFindings(principals, u.settled)
	g.metrics.count(routes)
	if u.settled {
		g.logUnmatchedGlobs(gen, everything, gathered)
	}
	if u.settled && u.starting {
		g.logStarted(gen, gathered)
	}

	// Swap.
	before := g.router.Routes()
	u.principals = principals.Swap(routes, g.control.announced, u.listChanged, u.settled)
	g.setEndpoints(gen)
	g.endProfiles(routes)
	g.retireConnections(ctx, inUse)
	if u.settled && u.starting {
		close(g.started)
	}

	// Notify.
	g.notifyClients(u)
	principals.Done()
	if u.settled && !isClosed(gen.settled) {
		close(gen.settled)
	}
	g.rememberCatalogs(gathered)
	select {
	case g.swapped <- struct{}{}:
	default: // the pending signal covers this table
	}
	warmIndexes(before, routes)
	g.followEmbeddings(routes)
}

// rebuildPrincipals swaps in new tables for the principals whose lists have changed, and
// notifies their clients. The control loop calls it if nothing else has changed.
func (g *Gateway) rebuildPrincipals() {
	principals := g.principals.Begin()
	defer principals.Done()
	routes := principals.Refresh()
	if routes == nil {
		return
	}
	g.logPrincipalFindings(principals, false)
	diffs := principals.Swap(routes, g.control.announced, nil, g.control.waitUntil.IsZero())
	if g.isStarted() {
		g.notifyListChanges(nil, diffs)
	} else {
		g.notifyEarlyClients(nil)
	}
}

// warmIndexes makes the search indexes that were in use before. It comes last, because clients wait
// for notifications, and a search makes its index itself if it comes first.
func warmIndexes(before, now *router.Routes) {
	tables := maps.Collect(before.Tables())
	for profile, t := range now.Tables() {
		if old := tables[profile]; old != nil {
			t.Warm(old)
		}
	}
}

// endProfiles ends the sessions in the profiles that the configuration has no longer.
func (g *Gateway) endProfiles(routes *router.Routes) {
	gone := make(map[string]bool)
	for profile := range g.control.announced {
		if profile != "" && routes.Profiles[profile] == nil {
			gone[profile] = true
			g.metrics.profileItems.DeletePartialMatch(prometheus.Labels{"profile": profile})
		}
	}
	if len(gone) > 0 {
		g.front.EndProfiles(func(profile string) bool { return gone[profile] })
	}
}

// takeListChanged returns the list changes that upstreams announced since the last table,
// by upstream, and logs changes of state.
func (g *Gateway) takeListChanged(gathered snapshots, inUse map[*connection]*upstreamEntry) map[string]catalog.Changes {
	listChanged := make(map[string]catalog.Changes)
	for conn, s := range gathered {
		logState(g.log, conn.lastSeen, s)
		if e := inUse[conn]; e.active.Load() == conn {
			listChanged[e.name] = personal.ListChanges(conn.lastSeen, s)
		}
		conn.lastSeen = s
	}
	return listChanged
}

// followSubscriptions moves subscriptions to the upstreams of each new table.
func (g *Gateway) followSubscriptions(life context.Context) error {
	for {
		select {
		case <-life.Done():
			return nil
		case <-g.swapped:
			g.subscriptions.Reattach(life)
		}
	}
}

// snapshots is the latest snapshot of each connection.
type snapshots map[*connection]connector.Snapshot

func snapshotsOf(conns map[*connection]*upstreamEntry) snapshots {
	out := make(snapshots, len(conns))
	for c := range conns {
		out[c] = c.snapshot()
	}
	return out
}
