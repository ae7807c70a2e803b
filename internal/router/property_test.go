package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

type worldItem = gatewaytest.WorldItem

var world = gatewaytest.World

// worldUpstream counts what reaches an upstream.
type worldUpstream struct {
	oneSession
	name   string
	hidden func(worldItem) bool
	got    []string
}

func (u *worldUpstream) Do(_ context.Context, c *call.Call) (call.Result, error) {
	params := wire.ValueOf(c.Params)
	u.got = append(u.got, c.Method+" "+params.Get("name").Str()+params.Get("uri").Str()+params.Get("ref", "name").Str()+params.Get("ref", "uri").Str())
	raw, fault := gatewaytest.WorldAnswer(u.name, c.Method, c.Params, u.hidden)
	if fault != nil {
		return call.Result{}, fault
	}
	return call.Result{Raw: raw, Revision: wire.Rev20251125}, nil
}

func (u *worldUpstream) Subscribe(context.Context, *call.Call, string) (func(), error) {
	return func() {}, nil
}

// worldRouter returns a router for the items and upstreams of the world that the functions keep.
func worldRouter(t *testing.T, p *policy.Policy, keepItem func(worldItem) bool, keepUpstream func(string) bool) (*Router, map[string]*worldUpstream) {
	return profilesRouter(t, p, gatewaytest.WorldPolicy{}, keepItem, keepUpstream)
}

// profilesRouter returns a worldRouter that has profiles, too.
func profilesRouter(t *testing.T, p *policy.Policy, profiles gatewaytest.WorldPolicy, keepItem func(worldItem) bool, keepUpstream func(string) bool) (*Router, map[string]*worldUpstream) {
	sources := gatewaytest.WorldSources(t, keepItem, keepUpstream)
	ups := map[string]*worldUpstream{}
	routes := &Routes{Upstreams: map[string]Upstream{}, Subscribers: map[string]Subscriber{}}
	for _, src := range sources {
		name := src.Naming.Upstream()
		ups[name] = &worldUpstream{name: name, hidden: func(it worldItem) bool { return !keepItem(it) }}
		routes.Upstreams[name], routes.Subscribers[name] = ups[name], ups[name]
	}
	routes.Table = catalog.Build(catalog.Options{Policy: p, PageItems: 1}, sources)
	routes.Profiles = profiles.Tables(t, routes.Table)
	started := make(chan struct{})
	close(started)
	return New(Options{Started: started, Logger: zap.NewNop(), Metrics: NewMetrics()}, routes), ups
}

// useOf returns the request that uses an item.
func useOf(kind call.Kind, public, args string) (method, params string) {
	switch kind {
	case call.Tool:
		return wire.MethodToolsCall, `{"name":` + string(wire.String(public)) + args + `}`
	case call.Prompt:
		return wire.MethodPromptsGet, `{"name":` + string(wire.String(public)) + args + `}`
	case call.Template:
		return wire.MethodComplete, `{"ref":{"type":"ref/resource","uri":` + string(wire.String(public)) + `},"argument":{"name":"a","value":""}}`
	default:
		return wire.MethodResourcesRead, `{"uri":` + string(wire.String(public)) + `}`
	}
}

// transcript returns everything that a client gets for requests.
func transcript(r *Router, who *call.Principal, rev wire.Revision, requests [][2]string) string {
	var b strings.Builder
	for _, q := range requests {
		fmt.Fprintf(&b, "%s %s\n\t%s\n\t%s\n", q[0], q[1], respond(r, who, rev, q[0], q[1], &recorder{}), beside(r, who, rev, q[0], q[1]))
	}
	return b.String()
}

func respond(r *Router, who *call.Principal, rev wire.Revision, method, params string, back call.BackChannel) string {
	if method == wire.MethodResourcesSubscribe {
		return answerTo(r, who, rev, method, wire.ValueOf(wire.Raw(params)).Get("uri").Str())
	}
	c := &call.Call{ID: "r", Method: method, Params: wire.Raw(params), Principal: who, Back: back,
		Client: &call.Client{Key: "c", Revision: rev, Capabilities: wire.Raw(allCaps)}}
	return fullText(r.Handle(context.Background(), c))
}

// beside returns the front end's other inputs for a request: whether a parked call may
// continue, and the parameters that are checked against headers.
func beside(r *Router, who *call.Principal, rev wire.Revision, method, params string) string {
	c := &call.Call{ID: "r", Method: method, Params: wire.Raw(params), Principal: who, Client: &call.Client{Key: "c", Revision: rev}}
	out := fmt.Sprint(r.HeaderParams(who, c.Client, wire.ValueOf(c.Params).Get("name").Str()))
	if wire.MethodOf(method).Rounds {
		if fault := r.Permit(c); fault != nil {
			out += string(fault.Append(nil))
		}
	}
	return out
}

// lists walks over all pages of all lists, and returns the requests it made.
func lists(r *Router, who *call.Principal, rev wire.Revision) (requests [][2]string, shown map[string]bool) {
	shown = map[string]bool{}
	for kind, method := range []string{call.Tool: wire.MethodToolsList, call.Resource: wire.MethodResourcesList, call.Template: wire.MethodTemplatesList, call.Prompt: wire.MethodPromptsList} {
		params := `{}`
		for range len(world) + 1 {
			requests = append(requests, [2]string{method, params})
			page := wire.ValueOf(wire.Raw(respond(r, who, rev, method, params, &recorder{})))
			for m := range page.Members() {
				for el := range m.Value.Elements() {
					shown[call.Kind(kind).String()+" "+el.Get(namespace.NameMember(call.Kind(kind))).Str()] = true
				}
			}
			next := page.Get("nextCursor").Str()
			if next == "" {
				break
			}
			params = `{"cursor":` + string(wire.String(next)) + `}`
		}
	}
	return requests, shown
}

// byURI has the methods that can name a resource.
var byURI = []string{wire.MethodResourcesRead, wire.MethodResourcesSubscribe, wire.MethodResourcesMetadata, wire.MethodResourcesList}

var hints = regexp.MustCompile(`; did you mean [^?]*\?`)

// anonymized returns an answer without its URI and without suggested names.
func anonymized(answer, uri string) string {
	return hints.ReplaceAllString(strings.ReplaceAll(answer, uri, "URI"), "")
}

// subscribed subscribes a caller to all resources of the world, and returns the record of
// the caller's updates.
func subscribed(t *testing.T, subs *Subscriptions, who *call.Principal, rev wire.Revision) map[string]bool {
	updated := map[string]bool{}
	c := &call.Call{Method: wire.MethodListen, Params: wire.Raw(`{}`), Principal: who, Client: &call.Client{Key: who.Subject, Revision: rev}}
	for _, it := range world {
		if it.Kind == call.Resource {
			_, _ = subs.Subscribe(t.Context(), c, it.Public, func(uri string, _ wire.Raw) { updated[uri] = true }) // refused resources get no updates
		}
	}
	return updated
}

// TestDeniedItemsAreInvisible tries thousands of policies and callers on one world.
// It compares the gateway's decisions with a naive evaluation of the rules. It also compares
// all messages of a caller with those from a world without the items that the caller may not
// see: if both are equal, a caller can infer nothing. A second principal with other rights
// uses the gateway at the same time, and passes on the cursors of their lists.
func TestDeniedItemsAreInvisible(t *testing.T) {
	compiled := gatewaytest.WorldConditions(t)
	testDenied(t, 2000, func(r *rand.Rand) (gatewaytest.WorldPolicy, []*call.Principal) {
		return gatewaytest.RandomPolicy(r, compiled), gatewaytest.WorldPrincipals
	})
}

// TestItemsOfOtherProfilesAreInvisible does the same with two random profiles: the second
// principal is the same one in the other profile.
func TestItemsOfOtherProfilesAreInvisible(t *testing.T) {
	compiled := gatewaytest.WorldConditions(t)
	testDenied(t, 1000, func(r *rand.Rand) (gatewaytest.WorldPolicy, []*call.Principal) {
		wp := gatewaytest.RandomPolicy(r, compiled)
		wp.Profiles = map[string]gatewaytest.WorldProfile{"one": gatewaytest.RandomProfile(r, "one"), "two": gatewaytest.RandomProfile(r, "two")}
		who := gatewaytest.Pick(r, gatewaytest.WorldPrincipals...)
		return wp, []*call.Principal{who.In("one"), who.In("two")}
	})
}

// testDenied tries random policies, each with two of its principals.
func testDenied(t *testing.T, policies int, random func(*rand.Rand) (gatewaytest.WorldPolicy, []*call.Principal)) {
	denied, confirmed, alike := 0, 0, 0
	for seed := range uint64(policies) {
		r := rand.New(rand.NewPCG(seed, 5))
		wp, principals := random(r)
		p := policy.MustNew(wp.Opts)
		at := r.IntN(len(principals))
		who, other, rev := principals[at], principals[(at+1+r.IntN(len(principals)-1))%len(principals)], gatewaytest.Pick(r, wire.Rev20251125, wire.Rev20260728)
		name := fmt.Sprintf("policy %d, %s %s, %s: %+v", seed, who.Subject, who.Profile, rev, wp)
		whole, ups := profilesRouter(t, p, wp, func(worldItem) bool { return true }, func(string) bool { return true })

		// Compare lists and calls with the naive evaluation.
		requests, shown := lists(whole, who, rev)
		hidden := map[string]bool{}
		for _, it := range world {
			want := wp.Decide(gatewaytest.Query{Who: who, Rev: rev, Item: it}) != policy.Deny
			if got := shown[it.Kind.String()+" "+it.Public]; got != want {
				t.Fatalf("%s\n%s is listed: %v, want %v", name, it.ID(), got, want)
			}
			if !want {
				hidden[it.ID()] = true
				denied++
			}
			if it.Kind == call.Template {
				continue
			}
			one, nine := 1, 9
			reachable := false
			for _, args := range []struct {
				text string
				a    gatewaytest.Query
			}{{`,"arguments":{"n":1}`, gatewaytest.Query{Args: &one}}, {`,"arguments":{"n":9.0}`, gatewaytest.Query{Args: &nine}}, {``, gatewaytest.Query{None: true}}} {
				if it.Kind == call.Resource && args.text != "" {
					continue
				}
				args.a.Who, args.a.Rev, args.a.Item = who, rev, it
				effect := wp.Decide(args.a)
				if !want {
					effect = policy.Deny // a hidden item is refused for any arguments
				}
				client := &recorder{}
				ups[it.Upstream].got = nil
				method, params := useOf(it.Kind, it.Public, args.text)
				answer := respond(whole, who, rev, method, params, client)
				if called := len(ups[it.Upstream].got) > 0; called != (effect != policy.Deny) {
					t.Fatalf("%s\n%s %s reached the upstream: %v, want %s; answer %s", name, method, params, called, effect, answer)
				}
				if asked := len(client.asks) > 0; want && asked != (effect == policy.Confirm) {
					t.Fatalf("%s\n%s %s needs a confirmation: %v, want %s", name, method, params, asked, effect)
				}
				if effect == policy.Confirm {
					confirmed++
				}
				reachable = reachable || effect != policy.Deny
			}
			if want && !reachable && !wp.ReadsArguments() {
				t.Fatalf("%s\n%s is listed, but every call of it is refused", name, it.ID())
			}
		}

		// Compare with the world without the hidden items.
		view := whole.Routes().TableFor(who).View(who, &call.Client{Revision: rev})
		for _, up := range []string{"db", "files", "gone", "open"} {
			if view.Part(up) != nil && !wp.MayReach(who, up) {
				t.Fatalf("%s\nthe upstream %s may be named", name, up)
			}
		}
		less, _ := profilesRouter(t, p, wp, func(it worldItem) bool { return !hidden[it.ID()] }, func(up string) bool { return view.Part(up) != nil })
		requests = append(requests, [2]string{wire.MethodDiscover, `{}`})
		for _, it := range world {
			for _, public := range []string{it.Public, it.Public + "x", strings.ToUpper(it.Public), it.Native} {
				for _, args := range []string{``, `,"arguments":{"n":1}`} {
					method, params := useOf(it.Kind, public, args)
					requests = append(requests, [2]string{method, params})
				}
				ref := `{"type":"ref/prompt","name":` + string(wire.String(public)) + `}`
				requests = append(requests, [2]string{wire.MethodComplete, `{"ref":` + ref + `,"argument":{"name":"a","value":""}}`})
			}
		}
		for _, spelling := range []string{"gone__x", "gonE__x"} {
			requests = append(requests, [2]string{wire.MethodToolsCall, `{"name":"` + spelling + `"}`})
		}
		theirs, _ := lists(whole, other, rev)
		requests = append(requests, theirs...)
		for _, uri := range []string{"gone+x:y", "files+file:///etc/./passwd", "files+FILE:///etc/passwd", "files+0:FILE:///etc/passwd", "files+file:///pub/../etc/passwd", "files+file:///pub/%2e%2e/etc/passwd", "files+file:///etc/passwd?", "db+row:%32", "memo:%79"} {
			for _, method := range byURI {
				requests = append(requests, [2]string{method, `{"uri":"` + uri + `"}`})
			}
		}
		for _, it := range world {
			for _, public := range []string{it.Public, it.Public + "x", it.Native} {
				requests = append(requests, [2]string{gatewaytest.Pick(r, byURI...), `{"uri":` + string(wire.String(public)) + `}`})
			}
		}
		r.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		requests = requests[:min(60, len(requests))]
		if diff := cmp.Diff(transcript(less, who, rev, requests), transcript(whole, who, rev, requests)); diff != "" {
			t.Fatalf("%s\nwhat is hidden shows (-without +with):\n%s", name, diff)
		}

		// A refused resource looks like one that its upstream does not have.
		for _, it := range world {
			absent := map[string]string{"db": "db+row:~", "files": "files+file:///~/~/~", "open": "memo:~/~/~"}[it.Upstream]
			if it.Kind != call.Resource || !hidden[it.ID()] {
				continue
			}
			// A call is confirmed before the gateway knows whether the resource exists. If an upstream
			// may not be named, all its URIs lead to the upstream without a prefix.
			confirms := func(uri string) bool {
				target, ok := view.Resolve(call.Resource, uri)
				return ok && target.Policy.Listed().NeedsConfirmation()
			}
			if confirms(absent) || confirms(it.Public) {
				continue
			}
			for _, method := range byURI {
				ask := func(uri string) string {
					return anonymized(respond(whole, who, rev, method, `{"uri":"`+uri+`"}`, &recorder{}), uri)
				}
				if refused, missing := ask(it.Public), ask(absent); refused != missing {
					t.Fatalf("%s\n%s of %s: %s\nof an absent resource: %s", name, method, it.Public, refused, missing)
				}
				alike++
			}
		}

		// Subscriptions and updates.
		subs := NewSubscriptions(whole)
		updated, updatedOther := subscribed(t, subs, who, rev), subscribed(t, subs, other, rev)
		for _, it := range world {
			if it.Kind == call.Resource {
				subs.Updated(it.Upstream, "", wire.Raw(`{"uri":"`+it.Native+`"}`))
				if updated[it.Public] == hidden[it.ID()] {
					t.Fatalf("%s\ngot an update of %s: %v", name, it.Public, updated[it.Public])
				}
				if want := wp.Decide(gatewaytest.Query{Who: other, Rev: rev, Item: it}) != policy.Deny; updatedOther[it.Public] != want {
					t.Fatalf("%s\n%s got an update of %s: %v", name, other.Subject, it.Public, updatedOther[it.Public])
				}
			}
		}
		for _, it := range world {
			changed := map[string]catalog.Changes{it.Upstream: {Tools: it.Kind == call.Tool, Prompts: it.Kind == call.Prompt, Resources: it.Kind == call.Resource || it.Kind == call.Template}}
			if c := catalog.NewDiff(whole.Routes().TableFor(who), whole.Routes().TableFor(who), changed).For(who, &call.Client{Revision: rev}); hidden[it.ID()] && c.Any() {
				t.Fatalf("%s\na list change was announced for a change of %s: %+v", name, it.ID(), c)
			}
		}
		diff := catalog.NewDiff(less.Routes().TableFor(who), whole.Routes().TableFor(who), nil)
		if c := diff.For(who, &call.Client{Revision: rev}); c.Any() {
			t.Fatalf("%s\na list change was announced for new hidden items: %+v", name, c)
		}
	}
	if denied < policies || confirmed < policies/10 || alike < policies {
		t.Errorf("%d items were denied, %d calls confirmed and %d compared with absent ones: the policies are not worth much", denied, confirmed, alike)
	}
}
