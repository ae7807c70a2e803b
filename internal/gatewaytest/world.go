package gatewaytest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// WorldItem is one item of the test world.
type WorldItem struct {
	Upstream string
	Kind     call.Kind
	Native   string
	Public   string
	Raw      string // native
}

// ID tells an item from all others.
func (it WorldItem) ID() string { return it.Upstream + " " + it.Kind.String() + " " + it.Native }

// World has the items that random policies are evaluated on.
var World = []WorldItem{
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

// truth is the value of a condition.
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

// Query is a question to the naive evaluator. Args is nil if the arguments are unknown.
type Query struct {
	Who  *call.Principal
	Rev  wire.Revision
	Item WorldItem
	Args *int
	None bool // there are arguments, without n
}

// worldConditions are conditions, each with the same meaning in Go.
var worldConditions = []struct {
	text  string
	means func(a Query) truth
}{
	{`true`, func(Query) truth { return isTrue }},
	{`false`, func(Query) truth { return isFalse }},
	{`principal.subject == "ann"`, func(a Query) truth { return truthOf(a.Who.Subject == "ann") }},
	{`"g2" in principal.groups`, func(a Query) truth { return truthOf(slices.Contains(a.Who.Groups, "g2")) }},
	{`request.era == "legacy"`, func(a Query) truth { return truthOf(a.Rev.Era() == wire.EraLegacy) }},
	{`tool.annotations.readOnlyHint`, func(a Query) truth {
		hint := wire.ValueOf(wire.Raw(a.Item.Raw)).Get("annotations", "readOnlyHint")
		if a.Item.Kind != call.Tool || !hint.Exists() {
			return isError
		}
		return truthOf(hint.Bool())
	}},
	{`resource.mimeType == "text/plain"`, func(a Query) truth {
		if a.Item.Kind != call.Resource && a.Item.Kind != call.Template {
			return isError
		}
		return truthOf(wire.ValueOf(wire.Raw(a.Item.Raw)).Get("mimeType").IsString("text/plain"))
	}},
	{`args.n < 5`, func(a Query) truth {
		switch {
		case a.None || a.Item.Kind == call.Resource || a.Item.Kind == call.Template: // these have no arguments
			return isError
		case a.Args == nil:
			return isOpen
		}
		return truthOf(*a.Args < 5)
	}},
}

// WorldConditions compiles the conditions of random policies.
func WorldConditions(t *testing.T) []*policy.Condition {
	t.Helper()
	var compiled []*policy.Condition
	for _, c := range worldConditions {
		condition, diagnostics := policy.NewCondition(c.text)
		if diagnostics != nil {
			t.Fatal(diagnostics)
		}
		compiled = append(compiled, condition)
	}
	return compiled
}

const byMetadata = 6 // the index of the condition on a mimeType

// WorldPolicy is a random policy, for the gateway and for the naive evaluator.
type WorldPolicy struct {
	Opts policy.Options
	// Profiles are what profiles select, by name; there are none unless a test adds some.
	Profiles map[string]WorldProfile
	when     []int // of each rule, -1 for none
}

// Pick returns a random one of the choices.
func Pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// RandomPolicy makes a random policy. compiled are [WorldConditions].
func RandomPolicy(r *rand.Rand, compiled []*policy.Condition) WorldPolicy {
	p := WorldPolicy{Opts: policy.Options{Default: Pick(r, policy.Deny, policy.Deny, policy.Allow), Upstreams: map[string]policy.Upstream{}}}
	if r.IntN(3) == 0 {
		p.Opts.Upstreams["files"] = policy.Upstream{
			Tools:     policy.Globs{Allow: Pick(r, nil, []string{"r*"}, []string{}), Deny: Pick(r, nil, []string{"write"})},
			Resources: policy.Globs{Deny: Pick(r, nil, []string{"file:///etc/*"}, []string{"*"})},
		}
	}
	for i := range r.IntN(6) {
		rule := policy.Rule{Name: fmt.Sprint("r", i), Effect: Pick(r, policy.Allow, policy.Allow, policy.Deny, policy.Confirm)}
		rule.Who = Pick(r, policy.Who{}, policy.Who{Subjects: []string{"ann"}}, policy.Who{Subjects: []string{"bob", "eve"}}, policy.Who{Groups: []string{"g1"}},
			policy.Who{Groups: []string{"g1", "g2"}, Scopes: []string{"s1"}}, policy.Who{Issuers: []string{"i1"}})
		rule.What = Pick(r, policy.What{}, policy.What{Upstreams: []string{"db"}}, policy.What{Upstreams: []string{"f*", "open"}}, policy.What{Tools: []string{"*"}},
			policy.What{Tools: []string{"db__*", "solo"}, Prompts: []string{"*ex*"}}, policy.What{Tools: []string{"*r*"}, Upstreams: []string{"files"}},
			policy.What{Resources: []string{"files+file:///pub/*", "db+*"}}, policy.What{Resources: []string{"*"}}, policy.What{Resources: []string{"memo:x", "*etc*"}, Tools: []string{"gone__*"}},
			policy.What{Prompts: []string{"db__greet"}})
		at := -1
		if r.IntN(2) == 0 {
			at = r.IntN(len(compiled))
			rule.When = compiled[at]
			if at == byMetadata && rule.Effect == policy.Confirm {
				// The metadata of an unlisted URI is unknown. Such a rule then matches, by
				// its grammar, and so tells listed URIs from others.
				rule.Effect = policy.Deny
			}
		}
		p.Opts.Rules, p.when = append(p.Opts.Rules, rule), append(p.when, at)
	}
	return p
}

// concerns reports whether the who of a rule holds for a principal.
func concerns(w policy.Who, p *call.Principal) bool {
	some := func(list, of []string) bool {
		return list == nil || slices.ContainsFunc(list, func(s string) bool { return slices.Contains(of, s) })
	}
	return some(w.Subjects, []string{p.Subject}) && some(w.Issuers, []string{p.Issuer}) && some(w.Groups, p.Groups) && some(w.Scopes, p.Scopes)
}

// MayReach reports whether the caller may be allowed any item of an upstream, whatever its
// items are. If not, no answer may name the upstream.
func (p WorldPolicy) MayReach(who *call.Principal, upstream string) bool {
	if o, ok := p.Profiles[who.Profile]; ok && !o.hasUpstream(upstream) {
		return false
	}
	return p.Opts.Default == policy.Allow || slices.ContainsFunc(p.Opts.Rules, func(r policy.Rule) bool {
		return r.Effect != policy.Deny && concerns(r.Who, who) && (r.What.Upstreams == nil || globbed(r.What.Upstreams, upstream))
	})
}

// ReadsArguments reports whether a condition reads the arguments.
func (p WorldPolicy) ReadsArguments() bool { return slices.Contains(p.when, len(worldConditions)-1) }

func globbed(globs []string, s string) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		parts := strings.Split(g, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(s)
	})
}

// Decide evaluates the policy as its grammar defines it, without code of the gateway.
func (p WorldPolicy) Decide(a Query) policy.Effect {
	it := a.Item
	if o, ok := p.Profiles[a.Who.Profile]; ok && !o.selects(it) {
		return policy.Deny
	}
	if u, ok := p.Opts.Upstreams[it.Upstream]; ok {
		g := [call.Kinds]policy.Globs{call.Tool: u.Tools, call.Prompt: u.Prompts, call.Resource: u.Resources, call.Template: u.Resources}[it.Kind]
		if globbed(g.Deny, it.Native) || g.Allow != nil && !globbed(g.Allow, it.Native) {
			return policy.Deny
		}
	}
	effect := p.Opts.Default
	strict := map[policy.Effect]int{policy.Allow: 1, policy.Confirm: 2, policy.Deny: 3}
	won := 0
	for i, r := range p.Opts.Rules {
		if !concerns(r.Who, a.Who) {
			continue
		}
		kind := [call.Kinds][]string{call.Tool: r.What.Tools, call.Prompt: r.What.Prompts, call.Resource: r.What.Resources, call.Template: r.What.Resources}[it.Kind]
		all := r.What.Tools == nil && r.What.Prompts == nil && r.What.Resources == nil
		if r.What.Upstreams != nil && !globbed(r.What.Upstreams, it.Upstream) || !all && !globbed(kind, it.Public) {
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

// WorldPrincipals differ in everything that rules can match.
var WorldPrincipals = []*call.Principal{
	{Subject: "ann", Groups: []string{"g1"}, Scopes: []string{"s1"}, AuthMethod: "jwt", Issuer: "i1"},
	{Subject: "bob", Groups: []string{"g2"}, AuthMethod: "jwt", Issuer: "i2"},
	{Subject: "cid", Groups: []string{"g1", "g2"}, Scopes: []string{"s2"}, AuthMethod: "api-key"},
}

// WorldSources returns the world, reduced to the items and upstreams that keepItem and
// keepUpstream accept. One upstream has no prefix, and one is down.
func WorldSources(t *testing.T, keepItem func(WorldItem) bool, keepUpstream func(string) bool) []catalog.Source {
	t.Helper()
	var sources []catalog.Source
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
		src := catalog.Source{Naming: space, Revision: wire.Rev20251125, Instructions: "This is " + name,
			Capabilities: wire.Raw(`{"tools":{},"prompts":{},"resources":{},"completions":{},"extensions":{"` + name + `":{}}}`)}
		if name == "gone" {
			src.Down, src.Capabilities = &catalog.Down{Since: time.Unix(0, 0), Reason: "gone"}, nil
		}
		for _, it := range World {
			if it.Upstream == name && keepItem(it) {
				src.Items[it.Kind] = append(src.Items[it.Kind], wire.Raw(it.Raw))
			}
		}
		sources = append(sources, src)
	}
	return sources
}

// WorldAnswer returns the answer of an upstream of the world to a request with native
// names. The upstream has the items of the world, except those that hidden accepts. Its
// error for an unknown resource has a text of its own.
func WorldAnswer(upstream, method string, params wire.Raw, hidden func(WorldItem) bool) (wire.Raw, *wire.Error) {
	p := wire.ValueOf(params)
	uri := p.Get("uri").Str()
	has := slices.ContainsFunc(World, func(it WorldItem) bool {
		return it.Upstream == upstream && it.Kind == call.Resource && it.Native == uri && !hidden(it)
	})
	rpcErr := func(code int64, message string) (wire.Raw, *wire.Error) {
		e := wire.Errorf(code, "%s", message)
		e.Raw = e.Append(nil)
		return nil, e
	}
	switch {
	case method == wire.MethodResourcesMetadata || method == wire.MethodResourcesList:
		return rpcErr(wire.CodeMethodNotFound, "no such method")
	case method == wire.MethodResourcesRead && has:
		return wire.Raw(`{"contents":[{"uri":` + string(wire.String(uri)) + `,"text":"x"}]}`), nil
	case method == wire.MethodResourcesRead && upstream == "db":
		return rpcErr(wire.CodeResourceNotFound, "no row "+uri)
	case method == wire.MethodResourcesRead && upstream == "files":
		return rpcErr(wire.CodeInvalidParams, "MCP error -32602: Resource "+uri+" not found")
	case method == wire.MethodResourcesRead:
		return rpcErr(0, "Unknown resource: "+uri)
	}
	return wire.Raw(`{"content":[],"messages":[],"completion":{"values":["v"]}}`), nil
}
