package inspect

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// fakeGateway is a gateway with one upstream, "files", whose tools are answered by handle.
type fakeGateway struct {
	t         *testing.T
	upstreams []Upstream
	tools     []wire.Raw
	handle    func(c *call.Call) (call.Result, error)
	policy    *policy.Policy   // nil allows everything
	profile   *profile.Profile // of every principal
}

func (g *fakeGateway) Upstreams() []Upstream         { return g.upstreams }
func (g *fakeGateway) ListedTools(string) []wire.Raw { return g.tools }
func (g *fakeGateway) Current(string) *catalog.Table { return nil }
func (g *fakeGateway) Policy() *policy.Policy {
	if g.policy != nil {
		return g.policy
	}
	return policy.MustNew(policy.Options{Default: policy.Allow})
}

func (g *fakeGateway) Profile(string) *profile.Profile { return g.profile }
func (g *fakeGateway) Profiles() []Profile             { return []Profile{{Name: "default"}} }

func (g *fakeGateway) TableUnder(p *policy.Policy, in *profile.Profile) *catalog.Table {
	space, err := namespace.New("files", "files", "__")
	if err != nil {
		g.t.Fatal(err)
	}
	src := catalog.Source{Naming: space, Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"tools":{}}`)}
	src.Items[call.Tool] = g.tools
	return catalog.Build(catalog.Options{Policy: p, Profile: in}, []catalog.Source{src})
}

func (g *fakeGateway) Handle(_ context.Context, c *call.Call) (call.Result, error) {
	return g.handle(c)
}

func TestReadOnlyTools(t *testing.T) {
	for name, tt := range map[string]struct {
		tools []string
		want  bool
	}{
		"declared":                 {[]string{`{"name":"a","annotations":{"readOnlyHint":true}}`}, true},
		"declared, and harmless":   {[]string{`{"name":"a","annotations":{"readOnlyHint":true,"destructiveHint":false}}`}, true},
		"not declared":             {[]string{`{"name":"a"}`}, false},
		"declared as false":        {[]string{`{"name":"a","annotations":{"readOnlyHint":false}}`}, false},
		"declared as a string":     {[]string{`{"name":"a","annotations":{"readOnlyHint":"true"}}`}, false},
		"and destructive":          {[]string{`{"name":"a","annotations":{"readOnlyHint":true,"destructiveHint":true}}`}, false},
		"declared twice":           {[]string{`{"name":"a","annotations":{"readOnlyHint":false,"readOnlyHint":true}}`}, false},
		"annotations twice":        {[]string{`{"name":"a","annotations":{"readOnlyHint":true},"annotations":{"readOnlyHint":true}}`}, false},
		"another of the same name": {[]string{`{"name":"a","annotations":{"readOnlyHint":true}}`, `{"name":"a"}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := &fakeGateway{t: t}
			for _, tool := range tt.tools {
				g.tools = append(g.tools, wire.Raw(tool))
			}
			if got := New(g).readOnlyTools("files")["a"]; got != tt.want {
				t.Errorf("read-only: %v, want %v", got, tt.want)
			}
		})
	}
}

// Only tools that declare themselves read-only are called.
func TestCheckProbes(t *testing.T) {
	const read, write = `{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, `{"name":"write","inputSchema":{"type":"object"}}`
	var called []string
	g := &fakeGateway{
		t: t, tools: []wire.Raw{wire.Raw(read), wire.Raw(write)},
		upstreams: []Upstream{
			{Name: "files", State: connector.Ready, Revision: wire.Rev20251125},
			{Name: "slow", State: connector.Connecting},
			{Name: "gone", State: connector.Down, Reason: "it is gone"},
		},
		handle: func(c *call.Call) (call.Result, error) {
			called = append(called, string(c.Params))
			return call.Result{}, wire.Errorf(wire.CodeInternal, "refused")
		},
	}
	limits := ProbeLimits{Call: time.Minute, Items: [call.Kinds]int{10, 10, 10, 10}}
	r := New(g).Check(t.Context(), CheckOptions{
		Upstreams: []string{"files", "slow", "gone"}, Probe: []string{"files", "files", "gone"}, Limits: limits,
		Late: func(string, string) string { return "too late" },
	})
	if want := []string{`{"name":"files__read","arguments":{}}`}; !cmp.Equal(called, want) {
		t.Errorf("called %v, want %v", called, want)
	}
	var found []string
	for _, f := range r.Findings {
		found = append(found, f.Severity+" "+f.What+" "+f.Upstream+" "+f.Message)
	}
	want := []string{"error unreachable slow too late", "error unreachable gone it is gone", "warning error files error -32603: refused"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if len(r.Probes) != 2 || r.Probes[0].Outcome != "error" || r.Probes[1].Outcome != "skipped" {
		t.Errorf("probes %+v", r.Probes)
	}
}

// A profile has what the lists of its upstreams do not hide, whatever rules say. One with nothing else is reported.
func TestCheckHiddenItems(t *testing.T) {
	g := &fakeGateway{
		t: t, tools: []wire.Raw{wire.Raw(`{"name":"read","inputSchema":{"type":"object"}}`), wire.Raw(`{"name":"write","inputSchema":{"type":"object"}}`)},
		upstreams: []Upstream{{Name: "files", State: connector.Ready, Revision: wire.Rev20251125, Items: [call.Kinds]int{call.Tool: 2}}},
	}
	for _, tt := range []struct {
		deny   []string
		hidden map[string]int
		shown  int
		empty  string
	}{
		{nil, nil, 2, ""},
		{[]string{"write"}, map[string]int{"tools": 1, "prompts": 0, "resources": 0, "templates": 0}, 1, ""},
		{[]string{"*"}, map[string]int{"tools": 2, "prompts": 0, "resources": 0, "templates": 0}, 0, "the allow and deny lists of the upstreams hide everything that the profile selects"},
	} {
		g.upstreams[0].Hidden[call.Tool] = tt.hidden["tools"]
		g.policy = policy.MustNew(policy.Options{Default: policy.Deny, Upstreams: map[string]policy.Upstream{"files": {Tools: policy.Globs{Deny: tt.deny}}}})
		r := New(g).Check(t.Context(), CheckOptions{Profiles: []string{"default"}})
		if diff := cmp.Diff(tt.hidden, r.Upstreams[0].HiddenItems); diff != "" || r.Upstreams[0].Items["tools"] != 2 || r.Profiles[0].Items["tools"] != tt.shown {
			t.Errorf("deny %q: %+v, %+v: %s", tt.deny, r.Upstreams, r.Profiles, diff)
		}
		message := ""
		for _, f := range r.Findings {
			message += f.Message
		}
		if message != tt.empty {
			t.Errorf("deny %q: findings %+v", tt.deny, r.Findings)
		}
	}
}

// The gateway's own tools are for everyone, whatever policy says. Tools that a profile does not
// list are explained like others. A name of both an own tool of the profile and a server's tool is that of the former.
func TestExplainOwnAndUnlistedTools(t *testing.T) {
	in, err := profile.New(profile.Options{
		Name: "p", Configured: []profile.Upstream{{Name: "files"}}, Search: true, ShortNames: true,
		Own: []profile.OwnItem{{Kind: call.Tool, Definition: wire.Raw(`{"name":"search_tools","inputSchema":{"type":"object"}}`), Meta: true},
			{Kind: call.Tool, Definition: wire.Raw(`{"name":"files__write","inputSchema":{"type":"object"}}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := &fakeGateway{t: t, profile: in, policy: policy.MustNew(policy.Options{Default: policy.Deny, Rules: []policy.Rule{
		{Name: "read", Effect: policy.Allow, What: policy.What{Tools: []string{"files__read"}}},
	}})}
	for _, tool := range []string{"read", "write"} {
		g.tools = append(g.tools, wire.Raw(`{"name":"`+tool+`","inputSchema":{"type":"object"}}`))
	}
	for name, want := range map[string]policy.Decision{
		"search_tools": {Effect: policy.Allow, Rule: policy.RuleOwn},
		"files__read":  {Effect: policy.Allow, Rule: "read"}, "read": {Effect: policy.Allow, Rule: "read"},
		"files__write": {Effect: policy.Allow, Rule: policy.RuleOwn}, "write": {Effect: policy.Deny, Rule: policy.RuleDefault},
	} {
		e, ok := New(g).Explain(Question{Kind: call.Tool, Public: name, Principal: call.Anonymous})
		if !ok || e.Decision.Effect != want.Effect || e.Decision.Rule != want.Rule {
			t.Errorf("%s: %+v, %v; want %+v", name, e.Decision, ok, want)
		}
	}
}

func TestDownBeforeTheFirstAnswer(t *testing.T) {
	i := New(&fakeGateway{t: t, upstreams: []Upstream{{Name: "slow", State: connector.Connecting}}})
	if got := i.down("slow"); got != "connecting: it has not answered yet" {
		t.Errorf("down: %q", got)
	}
}
