package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// worldItem is one item of the world that policies are tried on.
type worldItem struct {
	upstream string
	kind     call.Kind
	native   string
	public   string
	raw      string // native
}

func (it worldItem) id() string { return it.upstream + " " + it.kind.String() + " " + it.native }

var world = []worldItem{
	{"db", call.Tool, "query", "db__query", `{"name":"query","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`},
	{"db", call.Tool, "insert", "db__insert", `{"name":"insert","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}`},
	{"db", call.Tool, "drop", "db__drop", `{"name":"drop","inputSchema":{"type":"object"}}`},
	{"db", call.Prompt, "greet", "db__greet", `{"name":"greet"}`},
	{"db", call.Resource, "row:1", "db+row:1", `{"name":"1","uri":"row:1","mimeType":"text/plain"}`},
	{"db", call.Resource, "row:2", "db+row:2", `{"name":"2","uri":"row:2","mimeType":"secret/x"}`},
	{"db", call.Template, "row:{id}", "db+row:{id}", `{"name":"row","uriTemplate":"row:{id}"}`},
	{"files", call.Tool, "read", "files__read", `{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`},
	{"files", call.Tool, "write", "files__write", `{"name":"write","inputSchema":{"type":"object"}}`},
	{"files", call.Prompt, "explain", "files__explain", `{"name":"explain"}`},
	{"files", call.Prompt, "expand", "files__expand", `{"name":"expand"}`},
	{"files", call.Resource, "file:///pub/a", "files+file:///pub/a", `{"name":"a","uri":"file:///pub/a","mimeType":"text/plain"}`},
	{"files", call.Resource, "file:///etc/passwd", "files+file:///etc/passwd", `{"name":"p","uri":"file:///etc/passwd","mimeType":"secret/x"}`},
	{"files", call.Template, "file:///{+path}", "files+file:///{+path}", `{"name":"any","uriTemplate":"file:///{+path}"}`},
	{"open", call.Tool, "solo", "solo", `{"name":"solo","inputSchema":{"type":"object"}}`},
	{"open", call.Resource, "memo:x", "memo:x", `{"name":"x","uri":"memo:x"}`},
	{"open", call.Resource, "memo:y", "memo:y", `{"name":"y","uri":"memo:y"}`},
}

// truth is what a condition comes to.
type truth int

const (
	isFalse truth = iota
	isTrue
	isOpen
	isError
)

func truthOf(b bool) truth {
	if b {
		return isTrue
	}
	return isFalse
}

// asked is what a naive reader of rules is asked about; args is nil where they are
// not known.
type asked struct {
	who  *call.Principal
	rev  wire.Revision
	item worldItem
	args *int
	none bool // there are arguments, without n
}

// worldConditions are conditions with what they mean, said once more.
var worldConditions = []struct {
	text  string
	means func(a asked) truth
}{
	{`true`, func(asked) truth { return isTrue }},
	{`false`, func(asked) truth { return isFalse }},
	{`principal.subject == "ann"`, func(a asked) truth { return truthOf(a.who.Subject == "ann") }},
	{`"g2" in principal.groups`, func(a asked) truth { return truthOf(slices.Contains(a.who.Groups, "g2")) }},
	{`request.era == "legacy"`, func(a asked) truth { return truthOf(a.rev.Era() == wire.EraLegacy) }},
	{`tool.annotations.readOnlyHint`, func(a asked) truth {
		hint := wire.ValueOf(wire.Raw(a.item.raw)).Get("annotations", "readOnlyHint")
		if a.item.kind != call.Tool || !hint.Exists() {
			return isError
		}
		return truthOf(hint.Bool())
	}},
	{`resource.mimeType == "text/plain"`, func(a asked) truth {
		if a.item.kind != call.Resource && a.item.kind != call.Template {
			return isError
		}
		return truthOf(wire.ValueOf(wire.Raw(a.item.raw)).Get("mimeType").IsString("text/plain"))
	}},
	{`args.n < 5`, func(a asked) truth {
		switch {
		case a.none || a.item.kind == call.Resource || a.item.kind == call.Template: // which have no arguments
			return isError
		case a.args == nil:
			return isOpen
		}
		return truthOf(*a.args < 5)
	}},
}

const byMetadata = 6 // the place of the condition on a mimeType

// worldPolicy is a random policy, once for the gateway and once to be read naively.
type worldPolicy struct {
	opts policy.Options
	when []int // of each rule, -1 for none
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomPolicy(t *testing.T, r *rand.Rand, compiled []*policy.Condition) worldPolicy {
	p := worldPolicy{opts: policy.Options{Default: pick(r, policy.Deny, policy.Deny, policy.Allow), Upstreams: map[string]policy.Upstream{}}}
	if r.IntN(3) == 0 {
		p.opts.Upstreams["files"] = policy.Upstream{
			Tools:     policy.Globs{Allow: pick(r, nil, []string{"r*"}, []string{}), Deny: pick(r, nil, []string{"write"})},
			Resources: policy.Globs{Deny: pick(r, nil, []string{"file:///etc/*"}, []string{"*"})},
		}
	}
	for i := range r.IntN(6) {
		rule := policy.Rule{Name: fmt.Sprint("r", i), Effect: pick(r, policy.Allow, policy.Allow, policy.Deny, policy.Confirm)}
		rule.Who = pick(r, policy.Who{}, policy.Who{Subjects: []string{"ann"}}, policy.Who{Subjects: []string{"bob", "eve"}}, policy.Who{Groups: []string{"g1"}},
			policy.Who{Groups: []string{"g1", "g2"}, Scopes: []string{"s1"}}, policy.Who{Issuers: []string{"i1"}})
		rule.What = pick(r, policy.What{}, policy.What{Upstreams: []string{"db"}}, policy.What{Upstreams: []string{"f*", "open"}}, policy.What{Tools: []string{"*"}},
			policy.What{Tools: []string{"db__*", "solo"}, Prompts: []string{"*ex*"}}, policy.What{Tools: []string{"*r*"}, Upstreams: []string{"files"}},
			policy.What{Resources: []string{"files+file:///pub/*", "db+*"}}, policy.What{Resources: []string{"*"}}, policy.What{Resources: []string{"memo:x", "*etc*"}, Tools: []string{"gone__*"}},
			policy.What{Prompts: []string{"db__greet"}})
		at := -1
		if r.IntN(2) == 0 {
			at = r.IntN(len(compiled))
			rule.When = compiled[at]
			if at == byMetadata && rule.Effect == policy.Confirm {
				// What lists say is not known of a URI that none has: such a rule matches
				// then, by its grammar, and so tells listed URIs from others.
				rule.Effect = policy.Deny
			}
		}
		p.opts.Rules, p.when = append(p.opts.Rules, rule), append(p.when, at)
	}
	return p
}

func globbed(globs []string, s string) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		parts := strings.Split(g, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(s)
	})
}

// decide reads the policy as its grammar says it, without any of the gateway's
// means.
func (p worldPolicy) decide(a asked) policy.Effect {
	it := a.item
	if u, ok := p.opts.Upstreams[it.upstream]; ok {
		g := [call.Kinds]policy.Globs{call.Tool: u.Tools, call.Prompt: u.Prompts, call.Resource: u.Resources, call.Template: u.Resources}[it.kind]
		if globbed(g.Deny, it.native) || g.Allow != nil && !globbed(g.Allow, it.native) {
			return policy.Deny
		}
	}
	effect := p.opts.Default
	strict := map[policy.Effect]int{policy.Allow: 1, policy.Confirm: 2, policy.Deny: 3}
	won := 0
	some := func(list, of []string) bool {
		return list == nil || slices.ContainsFunc(list, func(s string) bool { return slices.Contains(of, s) })
	}
	for i, r := range p.opts.Rules {
		if !some(r.Who.Subjects, []string{a.who.Subject}) || !some(r.Who.Issuers, []string{a.who.Issuer}) || !some(r.Who.Groups, a.who.Groups) || !some(r.Who.Scopes, a.who.Scopes) {
			continue
		}
		kind := [call.Kinds][]string{call.Tool: r.What.Tools, call.Prompt: r.What.Prompts, call.Resource: r.What.Resources, call.Template: r.What.Resources}[it.kind]
		all := r.What.Tools == nil && r.What.Prompts == nil && r.What.Resources == nil
		if r.What.Upstreams != nil && !globbed(r.What.Upstreams, it.upstream) || !all && !globbed(kind, it.public) {
			continue
		}
		holds := isTrue
		if p.when[i] >= 0 {
			holds = worldConditions[p.when[i]].means(a)
		}
		matches := holds == isTrue || holds == isError && r.Effect != policy.Allow || holds == isOpen && r.Effect != policy.Deny
		if matches && strict[r.Effect] > won {
			effect, won = r.Effect, strict[r.Effect]
		}
	}
	return effect
}

// worldUpstream counts what reaches an upstream.
type worldUpstream struct {
	oneSession
	got []string
}

func (u *worldUpstream) Do(_ context.Context, c *call.Call) (call.Result, error) {
	params := wire.ValueOf(c.Params)
	u.got = append(u.got, c.Method+" "+params.Get("name").Str()+params.Get("uri").Str()+params.Get("ref", "name").Str()+params.Get("ref", "uri").Str())
	return call.Result{Raw: wire.Raw(`{"content":[],"completion":{"values":["v"]}}`), Revision: wire.Rev20251125}, nil
}

func (u *worldUpstream) Subscribe(context.Context, *call.Call, string) (func(), error) {
	return func() {}, nil
}

// worldRouter is a router in front of the items and upstreams that keep says.
func worldRouter(t *testing.T, p *policy.Policy, keepItem func(worldItem) bool, keepUpstream func(string) bool) (*Router, map[string]*worldUpstream) {
	var sources []catalog.Source
	ups := map[string]*worldUpstream{}
	routes := &Routes{Upstreams: map[string]Upstream{}, Subscribers: map[string]Subscriber{}}
	for _, name := range []string{"db", "files", "gone", "open"} {
		if !keepUpstream(name) {
			continue
		}
		prefix := name
		if name == "open" {
			prefix = ""
		}
		space, err := namespace.New(name, prefix, "__")
		if err != nil {
			t.Fatal(err)
		}
		src := catalog.Source{Space: space, Revision: wire.Rev20251125, Instructions: "This is " + name,
			Capabilities: wire.Raw(`{"tools":{},"prompts":{},"resources":{},"completions":{},"extensions":{"` + name + `":{}}}`)}
		if name == "gone" {
			src.Down, src.Capabilities = &catalog.Down{Since: time.Unix(0, 0), Reason: "gone"}, nil
		}
		for _, it := range world {
			if it.upstream == name && keepItem(it) {
				src.Items[it.kind] = append(src.Items[it.kind], wire.Raw(it.raw))
			}
		}
		sources = append(sources, src)
		ups[name] = &worldUpstream{}
		routes.Upstreams[name], routes.Subscribers[name] = ups[name], ups[name]
	}
	routes.Table = catalog.Build(catalog.Options{Policy: p, PageItems: 1}, sources)
	settled := make(chan struct{})
	close(settled)
	return New(Options{Settled: settled, Logger: zap.NewNop(), Metrics: NewMetrics()}, routes), ups
}

// useOf is the request that uses an item.
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

// transcript is everything that a client gets for requests.
func transcript(r *Router, who *call.Principal, rev wire.Revision, requests [][2]string) string {
	var b strings.Builder
	for _, q := range requests {
		fmt.Fprintf(&b, "%s %s\n\t%s\n", q[0], q[1], respond(r, who, rev, q[0], q[1], &recorder{}))
	}
	return b.String()
}

func respond(r *Router, who *call.Principal, rev wire.Revision, method, params string, back call.BackChannel) string {
	c := &call.Call{ID: "r", Method: method, Params: wire.Raw(params), Principal: who, Back: back,
		Client: &call.Client{Key: "c", Revision: rev, Capabilities: wire.Raw(allCaps)}}
	res, err := r.Handle(context.Background(), c)
	if err != nil {
		return err.Error()
	}
	return string(res.Raw)
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

// TestNobodySeesWhatIsDenied tries thousands of policies and callers on one world.
// What the gateway does is held against a naive reading of the rules; and all that
// a caller gets is compared with what they get in a world that lacks what they may
// not see: where there is no difference, nothing can be inferred.
func TestNobodySeesWhatIsDenied(t *testing.T) {
	var compiled []*policy.Condition
	for _, c := range worldConditions {
		condition, faults := policy.NewCondition(c.text)
		if faults != nil {
			t.Fatal(faults)
		}
		compiled = append(compiled, condition)
	}
	principals := []*call.Principal{
		{Subject: "ann", Groups: []string{"g1"}, Scopes: []string{"s1"}, Proof: "jwt", Issuer: "i1"},
		{Subject: "bob", Groups: []string{"g2"}, Proof: "jwt", Issuer: "i2"},
		{Subject: "cid", Groups: []string{"g1", "g2"}, Scopes: []string{"s2"}, Proof: "api-key"},
	}
	const policies = 2000
	denied, confirmed := 0, 0
	for seed := range uint64(policies) {
		r := rand.New(rand.NewPCG(seed, 5))
		wp := randomPolicy(t, r, compiled)
		p := policy.New(wp.opts)
		who, rev := pick(r, principals...), pick(r, wire.Rev20251125, wire.Rev20260728)
		name := fmt.Sprintf("policy %d, %s, %s: %+v", seed, who.Subject, rev, wp)
		whole, ups := worldRouter(t, p, func(worldItem) bool { return true }, func(string) bool { return true })

		// The lists, and the calls, against the naive reading.
		requests, shown := lists(whole, who, rev)
		hidden := map[string]bool{}
		for _, it := range world {
			want := wp.decide(asked{who: who, rev: rev, item: it}) != policy.Deny
			if got := shown[it.kind.String()+" "+it.public]; got != want {
				t.Fatalf("%s\n%s is listed: %v, want %v", name, it.id(), got, want)
			}
			if !want {
				hidden[it.id()] = true
				denied++
			}
			if it.kind == call.Template {
				continue
			}
			one, nine := 1, 9
			reachable := false
			for _, args := range []struct {
				text string
				a    asked
			}{{`,"arguments":{"n":1}`, asked{args: &one}}, {`,"arguments":{"n":9.0}`, asked{args: &nine}}, {``, asked{none: true}}} {
				if it.kind == call.Resource && args.text != "" {
					continue
				}
				args.a.who, args.a.rev, args.a.item = who, rev, it
				effect := wp.decide(args.a)
				if !want {
					effect = policy.Deny // what is hidden is refused, however it is called
				}
				client := &recorder{}
				ups[it.upstream].got = nil
				method, params := useOf(it.kind, it.public, args.text)
				answer := respond(whole, who, rev, method, params, client)
				if called := len(ups[it.upstream].got) > 0; called != (effect != policy.Deny) {
					t.Fatalf("%s\n%s %s reached the upstream: %v, want %s; answer %s", name, method, params, called, effect, answer)
				}
				if asked := len(client.asks) > 0; want && asked != (effect == policy.Confirm) {
					t.Fatalf("%s\n%s %s was to be confirmed: %v, want %s", name, method, params, asked, effect)
				}
				if effect == policy.Confirm {
					confirmed++
				}
				reachable = reachable || effect != policy.Deny
			}
			argued := slices.ContainsFunc(wp.when, func(at int) bool { return at == len(worldConditions)-1 })
			if want && !reachable && !argued {
				t.Fatalf("%s\n%s is listed, and every call of it refused", name, it.id())
			}
		}

		// The world without what is hidden.
		view := whole.Routes().Table.View(who, &call.Client{Revision: rev})
		less, _ := worldRouter(t, p, func(it worldItem) bool { return !hidden[it.id()] }, func(up string) bool { return view.Part(up) != nil })
		requests = append(requests, [2]string{wire.MethodDiscover, `{}`})
		for _, it := range world {
			for _, public := range []string{it.public, it.public + "x", strings.ToUpper(it.public), it.native} {
				for _, args := range []string{``, `,"arguments":{"n":1}`} {
					method, params := useOf(it.kind, public, args)
					requests = append(requests, [2]string{method, params})
				}
				ref := `{"type":"ref/prompt","name":` + string(wire.String(public)) + `}`
				requests = append(requests, [2]string{wire.MethodComplete, `{"ref":` + ref + `,"argument":{"name":"a","value":""}}`})
			}
		}
		for _, spelling := range []string{"gone__x", "gonE__x"} {
			requests = append(requests, [2]string{wire.MethodToolsCall, `{"name":"` + spelling + `"}`})
		}
		for _, uri := range []string{"gone+x:y", "files+file:///etc/./passwd", "files+FILE:///etc/passwd", "files+0:FILE:///etc/passwd", "files+file:///pub/../etc/passwd", "files+file:///pub/%2e%2e/etc/passwd", "files+file:///etc/passwd?", "db+row:%32", "memo:%79"} {
			requests = append(requests, [2]string{wire.MethodResourcesRead, `{"uri":"` + uri + `"}`})
		}
		r.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		requests = requests[:min(50, len(requests))]
		if diff := cmp.Diff(transcript(less, who, rev, requests), transcript(whole, who, rev, requests)); diff != "" {
			t.Fatalf("%s\nwhat is hidden shows (-without +with):\n%s", name, diff)
		}

		// Subscriptions and updates.
		told := map[string]bool{}
		subs, others := NewSubscriptions(whole), NewSubscriptions(less)
		c := &call.Call{Method: wire.MethodListen, Params: wire.Raw(`{}`), Principal: who, Client: &call.Client{Key: "c", Revision: rev}}
		for _, it := range world {
			if it.kind == call.Resource {
				_, err := subs.Subscribe(t.Context(), c, it.public, func(uri string, _ wire.Raw) { told[uri] = true })
				_, want := others.Subscribe(t.Context(), c, it.public, func(string, wire.Raw) {})
				if err == nil && want != nil || err != nil && (want == nil || err.Error() != want.Error()) || err != nil && !hidden[it.id()] {
					t.Fatalf("%s\nsubscribed to %s: %v, without what is hidden: %v", name, it.public, err, want)
				}
			}
		}
		for _, it := range world {
			if it.kind == call.Resource {
				subs.Updated(it.upstream, "", wire.Raw(`{"uri":"`+it.native+`"}`))
				if told[it.public] == hidden[it.id()] {
					t.Fatalf("%s\ntold of an update of %s: %v", name, it.public, told[it.public])
				}
			}
		}
		diff := catalog.NewDiff(less.Routes().Table, whole.Routes().Table, nil)
		if c := diff.For(who, &call.Client{Revision: rev}); c.Any() {
			t.Fatalf("%s\ntold that lists have changed when what is hidden came: %+v", name, c)
		}
	}
	if denied < policies || confirmed < policies/10 {
		t.Errorf("%d items were denied and %d calls confirmed: the policies are not worth much", denied, confirmed)
	}
}
