package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/frontend"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/router"
	"mcpgateway/internal/wire"
)

// testGateway is everything between clients and upstreams. Its upstreams are those of
// gatewaytest.World.
type testGateway struct {
	t        *testing.T
	front    *frontend.Server
	subs     *router.Subscriptions
	world    gatewaytest.WorldPolicy
	policy   *policy.Policy
	routes   *router.Routes
	sources  func(changed string) []catalog.Source
	everyURI string // all URIs of the world, as members of an array
}

// worldServer is an upstream of a testGateway.
type worldServer struct {
	name   string
	hidden func(gatewaytest.WorldItem) bool
}

func (worldServer) Session(context.Context, *call.Call) (string, error) { return "", nil }

func (u worldServer) Do(_ context.Context, c *call.Call) (call.Result, error) {
	raw, fault := gatewaytest.WorldAnswer(u.name, c.Method, c.Params, u.hidden)
	if fault != nil {
		return call.Result{}, fault
	}
	return call.Result{Raw: raw, Revision: wire.Rev20251125}, nil
}

func (worldServer) Subscribe(context.Context, *call.Call, string) (func(), error) {
	return func() {}, nil
}

// newTestGateway returns a gateway for the upstreams that keep accepts, without the items
// that hidden accepts. It has the profiles of wp.
func newTestGateway(t *testing.T, wp gatewaytest.WorldPolicy, p *policy.Policy, hidden func(gatewaytest.WorldItem) bool, keep func(string) bool) *testGateway {
	s := &testGateway{t: t, world: wp, policy: p}
	s.sources = func(changed string) []catalog.Source {
		sources := gatewaytest.WorldSources(t, func(it gatewaytest.WorldItem) bool { return !hidden(it) }, keep)
		for _, it := range gatewaytest.World {
			for i := range sources {
				for j, raw := range sources[i].Items[it.Kind] {
					if it.ID() == changed && string(raw) == it.Raw {
						sources[i].Items[it.Kind][j] = wire.SetMember(raw, "title", wire.String("changed"))
					}
				}
			}
		}
		return sources
	}
	sources := s.sources("")
	routes := &router.Routes{Upstreams: map[string]router.Upstream{}, Subscribers: map[string]router.Subscriber{}}
	for _, src := range sources {
		u := worldServer{src.Naming.Upstream(), hidden}
		routes.Upstreams[u.name], routes.Subscribers[u.name] = u, u
	}
	s.routes = routes
	s.build(routes, sources)
	settled := make(chan struct{})
	close(settled)
	r := router.New(router.Options{Started: settled, Logger: zap.NewNop(), Metrics: router.NewMetrics()}, routes)
	s.subs = router.NewSubscriptions(r)
	s.front = frontend.New(frontend.Options{
		Handler: r, Info: wire.Raw(`{"name":"test","version":"1"}`), HeaderParams: r.HeaderParams, Subscriptions: s.subs, Tasks: r, Parking: frontend.Parking{Permit: r.PermitRetry},
		Authenticate: func(req *http.Request) (*call.Principal, error) {
			for _, p := range gatewaytest.WorldPrincipals {
				if p.Subject == req.Header.Get("X-Who") {
					return p.In(req.Header.Get("X-Profile")), nil
				}
			}
			return nil, errors.New("nobody")
		},
	})
	for i, it := range gatewaytest.World {
		if it.Kind == call.Resource {
			if i > 0 && s.everyURI != "" {
				s.everyURI += ","
			}
			s.everyURI += string(wire.String(it.Public))
		}
	}
	return s
}

// build builds the tables of all profiles.
func (s *testGateway) build(routes *router.Routes, sources []catalog.Source) {
	routes.Table = catalog.Build(catalog.Options{Policy: s.policy, PageItems: 2}, sources)
	routes.Profiles = s.world.Tables(s.t, routes.Table)
}

// change changes an item: its upstream announces that, and clients are notified.
func (s *testGateway) change(it gatewaytest.WorldItem) {
	changed := map[string]catalog.Changes{it.Upstream: {Tools: it.Kind == call.Tool, Prompts: it.Kind == call.Prompt, Resources: it.Kind == call.Resource || it.Kind == call.Template}}
	next := &router.Routes{}
	s.build(next, s.sources(it.ID()))
	diffs := make(map[string]*catalog.Diff)
	for profile, table := range next.Tables() {
		diffs[profile] = catalog.NewDiff(s.routes.TableIn(profile), table, changed)
	}
	s.front.ListChangedFor(func(who *call.Principal, client *call.Client) (tools, prompts, resources bool) {
		c := diffs[who.Profile].For(who, client)
		return c.Tools, c.Prompts, c.Resources
	})
	if it.Kind == call.Resource {
		s.subs.Updated(it.Upstream, "", wire.Raw(`{"uri":`+string(wire.String(it.Native))+`}`))
	}
}

// worldRequest returns a random request about the world.
func worldRequest(r *rand.Rand, how string) (method, params string) {
	it := gatewaytest.Pick(r, gatewaytest.World...)
	name := gatewaytest.Pick(r, it.Public, it.Public, it.Public+"x", it.Native, strings.ToUpper(it.Public), "gone__x", "files+file:///pub/../etc/passwd", "db+row:3")
	text := string(wire.String(name))
	lists := []string{wire.MethodToolsList, wire.MethodPromptsList, wire.MethodResourcesList, wire.MethodTemplatesList}
	byURI := []string{wire.MethodResourcesRead, wire.MethodResourcesMetadata, wire.MethodResourcesList}
	if how != "modern" {
		byURI = append(byURI, wire.MethodResourcesSubscribe, wire.MethodResourcesUnsub)
	}
	switch r.IntN(8) {
	case 0:
		return gatewaytest.Pick(r, lists...), `{}`
	case 1, 2, 3:
		return wire.MethodToolsCall, `{"name":` + text + gatewaytest.Pick(r, ``, `,"arguments":{"n":1}`, `,"arguments":{"n":9}`) + `}`
	case 4:
		return wire.MethodPromptsGet, `{"name":` + text + `}`
	case 5:
		ref := gatewaytest.Pick(r, `{"type":"ref/prompt","name":`, `{"type":"ref/resource","uri":`) + text + `}`
		return wire.MethodComplete, `{"ref":` + ref + `,"argument":{"name":"a","value":""}}`
	}
	return gatewaytest.Pick(r, byURI...), `{"uri":` + text + `}`
}

// clientPair has two clients with the same rights: one uses the whole world together with other
// clients, and one is the only client of a gateway without hidden items.
type clientPair struct{ there, alone *testClient }

// pageRequests reads all pages of all lists, and returns the requests for all but the first
// pages.
func (v *testClient) pageRequests() (next [][2]string) {
	for _, method := range []string{wire.MethodToolsList, wire.MethodPromptsList, wire.MethodResourcesList, wire.MethodTemplatesList} {
		params := `{}`
		for range len(gatewaytest.World) {
			_, after, more := strings.Cut(v.ask(method, params), `"nextCursor":"`)
			if !more {
				break
			}
			cursor, _, _ := strings.Cut(after, `"`)
			params = `{"cursor":"` + cursor + `"}`
			next = append(next, [2]string{method, params})
		}
	}
	return next
}

var (
	hints     = regexp.MustCompile(`; did you mean [^?]*\?`)
	requestID = regexp.MustCompile(`"id":\d+`)
)

// mayConfirm reports whether a rule requires confirmation for a URI: the user is asked
// before the gateway knows whether the resource exists.
func mayConfirm(view *catalog.View, uri string) bool {
	target, ok := view.Resolve(call.Resource, uri)
	return ok && target.Policy.Listed().NeedsConfirmation()
}

// Principals with different rights use one gateway at the same time, on every transport and
// in both eras, under random policies. Each of them gets the same bytes and statuses as from
// a gateway that it has alone, and on which the items that a naive evaluator of the policy
// denies do not exist. The same holds for unsolicited messages, and for cursors, sessions and
// event ids of other principals.
func TestHiddenItemsShowAtNoFrontEnd(t *testing.T) {
	compiled := gatewaytest.WorldConditions(t)
	testIsolation(t, 120, func(r *rand.Rand) (gatewaytest.WorldPolicy, []*call.Principal) {
		wp, first := gatewaytest.RandomPolicy(r, compiled), r.IntN(3)
		return wp, []*call.Principal{gatewaytest.WorldPrincipals[first], gatewaytest.WorldPrincipals[(first+1)%3], call.Local}
	})
}

// The same holds for one principal that uses two random profiles at the same time, and the
// default one: nothing of one profile shows in another, or is worth anything there.
func TestProfilesShowNothingOfEachOther(t *testing.T) {
	compiled := gatewaytest.WorldConditions(t)
	testIsolation(t, 80, func(r *rand.Rand) (gatewaytest.WorldPolicy, []*call.Principal) {
		wp := gatewaytest.RandomPolicy(r, compiled)
		wp.Profiles = map[string]gatewaytest.WorldProfile{"one": gatewaytest.RandomProfile(r, "one"), "two": gatewaytest.RandomProfile(r, "two")}
		who := gatewaytest.Pick(r, gatewaytest.WorldPrincipals...)
		return wp, []*call.Principal{who.In("one"), who.In("two"), who}
	})
}

// testIsolation tries random policies, each with some of its principals.
func testIsolation(t *testing.T, policies int, random func(*rand.Rand) (gatewaytest.WorldPolicy, []*call.Principal)) {
	const requests = 12
	hiddenAtAll, notified, foreign, alike := 0, 0, 0, 0
	for seed := range uint64(policies) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 77))
			wp, principals := random(r)
			p := policy.MustNew(wp.Opts)
			ctx, cancel := context.WithCancel(t.Context())
			var pairs []clientPair
			defer func() {
				cancel()
				for _, p := range pairs {
					for _, v := range []*testClient{p.there, p.alone} {
						v.site.front.Stop()
						if v.pipe != nil {
							v.pipe.Close()
						}
					}
				}
				synctest.Wait()
			}()
			whole := newTestGateway(t, wp, p, func(gatewaytest.WorldItem) bool { return false }, func(string) bool { return true })

			for _, who := range principals {
				for _, how := range []string{"modern", "legacy", "sse", "stdio"} {
					if (how == "stdio") != (who == call.Local) {
						continue
					}
					rev := (&testClient{how: how}).revision()
					hidden := func(it gatewaytest.WorldItem) bool {
						return wp.Decide(gatewaytest.Query{Who: who, Rev: rev, Item: it}) == policy.Deny
					}
					view := whole.routes.TableFor(who).View(who, &call.Client{Revision: rev})
					for _, up := range []string{"db", "files", "gone", "open"} {
						if view.Part(up) != nil && !wp.MayReach(who, up) {
							t.Fatalf("policy %d: %s may know of the upstream %s: %+v", seed, who.Subject, up, wp)
						}
					}
					less := newTestGateway(t, wp, p, hidden, func(up string) bool { return view.Part(up) != nil })
					pairs = append(pairs, clientPair{whole.connect(ctx, who, how), less.connect(ctx, who, how)})
					for _, it := range gatewaytest.World {
						if hidden(it) {
							hiddenAtAll++
						}
					}
				}
			}
			same := func(i int, what string, there, alone string) {
				if diff := cmp.Diff(alone, there); diff != "" {
					v := pairs[i].there
					t.Fatalf("policy %d, %s %s, %s: %+v\n%s (-without the hidden items +with):\n%s", seed, v.who.Subject, v.who.Profile, v.how, wp, what, diff)
				}
			}
			var pages [][2]string
			for i, p := range pairs {
				same(i, "at the beginning", p.there.initialize+p.there.unsolicited(), p.alone.initialize+p.alone.unsolicited())
				same(i, "the server", p.there.ask(wire.MethodDiscover, `{}`), p.alone.ask(wire.MethodDiscover, `{}`))
				pages = append(pages, p.there.pageRequests()...)
				p.alone.pageRequests()
			}
			for i, p := range pairs {
				for range min(8, len(pages)) {
					next := gatewaytest.Pick(r, pages...) // of any client's list
					same(i, next[0]+" "+next[1], p.there.ask(next[0], next[1]), p.alone.ask(next[0], next[1]))
				}
			}
			for i, p := range pairs {
				v := p.there
				view := whole.routes.TableFor(v.who).View(v.who, &call.Client{Revision: v.revision()})
				for _, it := range gatewaytest.World {
					absent := map[string]string{"db": "db+row:~", "files": "files+file:///~/~/~", "open": "memo:~/~/~"}[it.Upstream]
					if it.Kind != call.Resource || wp.Decide(gatewaytest.Query{Who: v.who, Rev: v.revision(), Item: it}) != policy.Deny ||
						mayConfirm(view, absent) || mayConfirm(view, it.Public) {
						continue
					}
					alike++
					text := func(uri string) string {
						out := v.ask(wire.MethodResourcesRead, `{"uri":"`+uri+`"}`)
						return requestID.ReplaceAllString(hints.ReplaceAllString(strings.ReplaceAll(out, uri, "URI"), ""), "")
					}
					same(i, "what is refused, and what is not there", text(it.Public), text(absent))
					p.alone.asked = v.asked
				}
			}
			for range requests {
				for i, p := range pairs {
					method, params := worldRequest(r, p.there.how)
					same(i, method+" "+params, p.there.ask(method, params), p.alone.ask(method, params))
				}
			}
			// Every item changes, including hidden ones.
			for _, it := range gatewaytest.World {
				whole.change(it)
				for i, p := range pairs {
					if wp.Decide(gatewaytest.Query{Who: p.there.who, Rev: p.there.revision(), Item: it}) != policy.Deny {
						p.alone.site.change(it)
					}
					there := p.there.unsolicited()
					same(i, "when "+it.ID()+" changes", there, p.alone.unsolicited())
					if strings.Contains(there, "notifications/") {
						notified++
					}
				}
			}
			for i, p := range pairs {
				for _, other := range pairs {
					if o := other.there; o.how == p.there.how && o != p.there && o.session != "" {
						event, none := "none", "none"
						if len(o.events) > 0 {
							event = o.events[len(o.events)-1]
							none = changed(event)
							foreign++
						}
						same(i, "what is another's", p.there.resume(o.session, event), p.alone.resume(changed(o.session), none))
					}
				}
			}
		})
	}
	if hiddenAtAll < 20*policies || notified < 5*policies || foreign < policies/2 || alike < policies {
		t.Errorf("the random policies are too weak: %d hidden items, %d notifications, %d attempts with foreign events, %d comparisons with absent resources", hiddenAtAll, notified, foreign, alike)
	}
}
