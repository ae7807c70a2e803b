package personal

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// shop is an upstream that lists a tool of its own to each principal.
type shop struct {
	mu       sync.Mutex
	tools    map[string]string // what Gather finds, by subject
	sessions map[string]connector.Snapshot
	gathered int
}

func (s *shop) Name() string { return "shop" }

func (s *shop) Gather(_ context.Context, c *call.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathered++
	if _, open := s.sessions[c.Principal.Key()]; !open {
		s.sessions[c.Principal.Key()] = listing(s.tools[c.Principal.Subject], 0)
	}
}

func (s *shop) Own(key string) (connector.Snapshot, *call.Principal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, ok := s.sessions[key]
	return own, nil, ok
}

func (s *shop) NeedsGrant(*call.Principal) bool { return false }

func listing(tool string, changes uint64) connector.Snapshot {
	s := connector.Snapshot{Settled: true, Changes: connector.Changes{Tools: changes}, Catalog: connector.Catalog{Tools: []wire.Raw{wire.Raw(`{"name":"` + tool + `","inputSchema":{"type":"object"}}`)}}}
	s.Name = "shop"
	return s
}

// gateway is a control loop with one upstream.
type gateway struct {
	*Principals
	shop   *shop
	routes atomic.Pointer[router.Routes]
	diffs  chan Diffs // of each swap
}

// newGateway runs a gateway in which a rule of policy holds, until the test ends.
func newGateway(t *testing.T, rules ...policy.Rule) *gateway {
	naming, err := namespace.New("shop", "shop", "__")
	if err != nil {
		t.Fatal(err)
	}
	p := policy.MustNew(policy.Options{Default: policy.Allow, Rules: rules})
	build := func(s connector.Snapshot, schemas *conform.Cache) *catalog.Table {
		src := catalog.Source{Naming: naming, Revision: wire.LatestModern, Capabilities: wire.Raw(`{"tools":{}}`)}
		src.Items[call.Tool] = s.Catalog.Tools
		return catalog.Build(catalog.Options{Policy: p, Schemas: schemas}, []catalog.Source{src})
	}
	g := &gateway{shop: &shop{tools: map[string]string{}, sessions: map[string]connector.Snapshot{}}, diffs: make(chan Diffs, 10)}
	wake, ended := make(chan struct{}, 1), make(chan struct{})
	g.Principals = New(Options{Routes: g.routes.Load, Swap: g.routes.Store, Ended: ended, SessionIdle: time.Hour, Wake: func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	routes := &router.Routes{Table: build(listing("common", 0), nil)}
	routes.PrincipalTables = g.Begin().Rebuild(Inputs{
		Upstreams: []Upstream{g.shop}, Policy: p, HasProfile: func(id string) bool { return id == "" },
		Build: func(_ string, own Snapshots) func(*conform.Cache) *catalog.Table {
			return func(schemas *conform.Cache) *catalog.Table { return build(own[g.shop], schemas) }
		},
	})
	g.routes.Store(routes)
	announced := maps.Collect(routes.Tables())
	go func() {
		defer close(ended)
		for range wake {
			u := g.Begin()
			if routes := u.Refresh(); routes != nil {
				g.diffs <- u.Swap(routes, announced, nil, true)
			}
			u.Done()
		}
	}()
	t.Cleanup(func() { close(wake); <-ended })
	return g
}

// lists returns the tools that a principal is listed.
func (g *gateway) lists(t *testing.T, who *call.Principal) string {
	t.Helper()
	c := &call.Call{Principal: who, Client: &call.Client{Key: "c", Revision: wire.LatestModern}}
	if err := g.routes.Load().PrincipalTables.Gather(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range g.routes.Load().TableFor(who).View(who, c.Client).Entries(call.Tool) {
		names = append(names, e.Public)
	}
	return strings.Join(names, " ")
}

// opens sets what the session of a principal lists. Without a tool it ends.
func (g *gateway) opens(who *call.Principal, tool string, changes uint64) {
	g.shop.mu.Lock()
	if g.shop.sessions[who.Key()] = listing(tool, changes); tool == "" {
		delete(g.shop.sessions, who.Key())
	}
	g.shop.mu.Unlock()
	g.ListsChanged(who.Key())
}

var (
	ann = &call.Principal{Subject: "ann", AuthMethod: "key"}
	bob = &call.Principal{Subject: "bob", AuthMethod: "key"}
)

func TestListsOfPrincipals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t)
		g.shop.tools = map[string]string{"ann": "a", "bob": "b"}
		expect := func(who *call.Principal, want string, gathered int) {
			t.Helper()
			if got := g.lists(t, who); got != want || g.shop.gathered != gathered {
				t.Errorf("%s: %q after %d gatherings, want %q after %d", who.Subject, got, g.shop.gathered, want, gathered)
			}
		}
		changed := func(want bool) {
			t.Helper()
			synctest.Wait()
			d := <-g.diffs
			if diff, own := d.Of(ann); !own || (diff != nil) != want || d.Any() != want {
				t.Errorf("ann: %v, own %v, want a change: %v", diff, own, want)
			}
			if _, own := d.Of(&call.Principal{Subject: "eve", AuthMethod: "key"}); own {
				t.Error("a principal without a table has changes of its own")
			}
		}
		expect(call.Anonymous, "shop__common", 0)
		expect(ann, "shop__a", 1)
		changed(false) // it had seen no list before
		expect(ann, "shop__a", 1)
		expect(bob, "shop__b", 2)
		changed(false)
		g.ExpireGatherings()
		expect(ann, "shop__a", 3)
		time.Sleep(gatherInterval)
		expect(ann, "shop__a", 4)

		g.opens(ann, "other", 1)
		changed(true)
		expect(ann, "shop__other", 4)
		expect(bob, "shop__b", 5)

		// The lists of the next session may have changed unnoticed.
		g.opens(ann, "", 0)
		synctest.Wait()
		if _, own := (<-g.diffs).Of(ann); own || g.routes.Load().PrincipalTables.Table(ann) != nil {
			t.Error("the table of an ended session stays, or its end is announced")
		}
		expect(ann, "shop__a", 6)
		changed(true)
	})
}

// An upstream does not learn of a principal to whom policy shows nothing of it.
func TestGatheringBypassesWhatPolicyHides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, policy.Rule{Name: "hidden", Effect: policy.Deny, What: policy.What{Upstreams: []string{"shop"}}})
		if got := g.lists(t, ann); got != "" || g.shop.gathered != 0 {
			t.Errorf("%q after %d gatherings", got, g.shop.gathered)
		}
	})
}

// A request does not wait for a control loop that has ended, nor beyond its own end.
func TestGatheringEnds(t *testing.T) {
	ended := make(chan struct{})
	g := &gateway{shop: &shop{sessions: map[string]connector.Snapshot{}}}
	table := catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow})}, nil)
	g.Principals = New(Options{Routes: g.routes.Load, Ended: ended, SessionIdle: time.Hour, Wake: func() {}})
	routes := &router.Routes{Table: table, PrincipalTables: g.Begin().Rebuild(Inputs{Upstreams: []Upstream{g.shop}})}
	g.routes.Store(routes)
	g.shop.sessions[ann.Key()] = listing("a", 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &call.Call{Principal: ann, Client: &call.Client{Key: "c", Revision: wire.LatestModern}}
	if err := routes.PrincipalTables.Gather(ctx, c); err != context.Canceled {
		t.Errorf("a cancelled request: %v", err)
	}
	close(ended)
	if err := routes.PrincipalTables.Gather(t.Context(), c); err != nil {
		t.Errorf("without a control loop: %v", err)
	}
}
