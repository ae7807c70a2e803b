package personal

import (
	"context"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/upstream"
)

// tables are the tables of principals in one version of the routes. It implements
// router.PrincipalTables and is immutable.
type tables struct {
	p     *Principals
	from  *source
	byKey map[string]*table
}

// table is the table of one principal.
type table struct {
	own Snapshots
	get func() *catalog.Table // builds the table at the first call
}

// Table implements router.PrincipalTables.
func (t *tables) Table(p *call.Principal) *catalog.Table {
	if len(t.byKey) == 0 {
		return nil
	}
	if own := t.byKey[p.Key()]; own != nil {
		return own.get()
	}
	return nil
}

// Gather implements router.PrincipalTables. A principal that has not given a grant yet gets the
// lists of the gateway itself. Upstreams of which policy shows the principal nothing are
// left out: they must not learn of the principal, and the time that they take must not
// reveal them.
func (t *tables) Gather(ctx context.Context, c *call.Call) error {
	if !upstream.Proved(c.Principal) {
		return nil
	}
	key, now := c.Principal.Key(), time.Now()
	who := t.p.get(key)
	routes := t.p.gateway.Routes()
	rights := routes.TableIn(c.Principal.Profile).RightsKey(c.Principal, c.Client)
	if last := who.lastGathering.Load(); last != nil && last.from == t.from && last.rights == rights && now.Sub(last.at) < min(gatherInterval, t.p.gateway.SessionIdle/2) {
		return nil
	}
	timer := c.Trace.Start(ctx, call.StageConnect, call.SpanStart{}) // the principal's sessions are opened
	defer timer.End(nil)
	view := routes.TableFor(c.Principal).View(c.Principal, c.Client)
	var wg sync.WaitGroup
	for _, u := range t.from.upstreams {
		if view.Reaches(u.Name()) {
			wg.Go(func() { u.Gather(ctx, c) })
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !t.p.showCurrent(who, key, t.from.upstreams) {
		select {
		case <-t.p.requestCheck(key):
		case <-t.p.gateway.Ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	who.shown.Store(true)
	who.lastGathering.Store(&gathering{at: now, from: t.from, rights: rights})
	return nil
}

// showCurrent reports whether the routes contain what the principal's sessions list. If
// so, it marks the principal as shown, since it is about to see the routes.
func (p *Principals) showCurrent(who *principal, key string, upstreams []Upstream) bool {
	p.swapping.RLock()
	defer p.swapping.RUnlock()
	if !p.isCurrent(key, upstreams) {
		return false
	}
	who.shown.Store(true)
	return true
}

// isCurrent reports whether the routes contain what the sessions of a principal list.
func (p *Principals) isCurrent(key string, upstreams []Upstream) bool {
	now, ok := p.gateway.Routes().PrincipalTables.(*tables)
	if !ok {
		return false
	}
	t := now.byKey[key]
	for _, u := range upstreams {
		listed, _, found := u.Own(key)
		if !found {
			continue
		}
		if t == nil {
			return false
		}
		if s, ok := t.own[u]; !ok || s.Settled != listed.Settled {
			return false
		}
	}
	return true
}

func equal(a, b Snapshots) bool {
	if len(a) != len(b) {
		return false
	}
	for u, s := range a {
		t, ok := b[u]
		if !ok || !s.Same(&t) {
			return false
		}
	}
	return true
}
