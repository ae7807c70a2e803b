package gateway

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/config"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// startWithRules runs the demo upstreams with rules from a configuration.
func startWithRules(t *testing.T, rules string) *Gateway {
	t.Helper()
	text := "upstreams: {cafe: {command: x}, clock: {command: x}, notes: {command: x}}\npolicy:\n  default: allow\n  rules:\n" + rules
	g, _ := start(t, text, true)
	return g
}

func TestRulesOfTheConfiguration(t *testing.T) {
	g := startWithRules(t, `
    - {name: no-cafe, effect: deny, what: {upstreams: [cafe]}}
    - {name: seldom, effect: allow, what: {tools: ["clock__*"]}, limit: {rate: 1/h, per: rule}}
    - {name: no-deletes, effect: deny, what: {tools: ["*"]}, when: "has(args.query) && args.query.contains('secret')"}
    - {name: ask, effect: confirm, what: {tools: [notes__list]}}
`)
	_, list := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if strings.Contains(list, "cafe__") || !strings.Contains(list, "notes__search") {
		t.Errorf("the list is %s", list)
	}
	call := func(tool, arguments string) (*http.Response, string) {
		return post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`)
	}
	if _, got := call("cafe__menu", `{}`); !strings.Contains(got, `unknown tool: \"cafe__menu\"`) {
		t.Errorf("cafe__menu: %s", got)
	}
	if _, got := call("clock__now", `{}`); !strings.Contains(got, `"result"`) {
		t.Errorf("clock__now: %s", got)
	}
	if resp, got := call("clock__now", `{}`); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(got, `"retryable":true`) {
		t.Errorf("clock__now once more: %s, %s", resp.Status, got)
	}
	if _, got := call("notes__search", `{"query":"a"}`); !strings.Contains(got, `"result"`) {
		t.Errorf("notes__search: %s", got)
	}
	if _, got := call("notes__search", `{"query":"a secret"}`); !strings.Contains(got, `the tool \"notes__search\" is refused with these arguments`) {
		t.Errorf("notes__search with a refused argument: %s", got)
	}
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				counted[f.GetName()+" "+l.GetValue()] = true
			}
		}
	}
	for _, want := range []string{"mcp_gateway_policy_decisions_total no-cafe", "mcp_gateway_policy_decisions_total no-deletes", "mcp_gateway_rate_limited_total seldom"} {
		if !counted[want] {
			t.Errorf("%s is not counted", want)
		}
	}
}

// A rate without burst lets as many calls through at once as it names.
func TestRateWithoutBurst(t *testing.T) {
	g := startWithRules(t, "    - {name: two, effect: allow, what: {tools: ['*']}, limit: {rate: 2/h}}\n")
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if resp, got := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"clock__now","arguments":{}}}`); resp.StatusCode != want {
			t.Errorf("call %d: %s, %s", i+1, resp.Status, got)
		}
	}
}

func TestUncheckedConditions(t *testing.T) {
	cfg := config.Default(func(string) (string, bool) { return "", false })
	cfg.Policy.Rules = []config.Rule{{Name: "r", Effect: config.Allow, When: "nothing", File: "rules.yaml", Pos: config.Pos{Line: 3, Col: 5}}}
	_, err := New(Options{Config: cfg, Demo: true, Version: "test", Logger: zap.NewNop(), Stdio: true})
	var faults config.Errors
	if !errors.As(err, &faults) || !strings.HasPrefix(faults[0].Error(), "rules.yaml:3:5: r.when: ") {
		t.Errorf("error is %v", err)
	}
}

// Unmatched globs are logged once for each configuration.
func TestIdleGlobsAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	const text = "upstreams: {cafe: {command: x}, clock: {command: x}, notes: {command: x}}\npolicy:\n  default: allow\n  rules:\n    - {name: typo, effect: deny, what: {tools: [cafe__menuu, 'clock__*']}}\n"
	g, _ := startLogged(t, text, true, zap.New(core))
	idle := func() []observer.LoggedEntry {
		return logs.FilterMessage("globs of the policy match nothing").All()
	}
	polltest.Until(t, "it is logged", func() bool { return len(idle()) > 0 })
	swaps := func() float64 { return testutil.ToFloat64(g.metrics.swaps.WithLabelValues("same")) }
	for range 3 {
		before := swaps()
		g.requestRebuild()
		polltest.Until(t, "another table is in place", func() bool { return swaps() > before })
	}
	want := []any{`policy rule "typo": what.tools[0] "cafe__menuu" matches nothing that is listed; did you mean "cafe__menu"?`}
	if got := idle(); len(got) != 1 || !cmp.Equal(got[0].ContextMap()["globs"], any(want)) {
		t.Errorf("logged: %+v, want %q once", got, want)
	}
}

// Globs of profiles are logged as such.
func TestUnmatchedGlobsOfProfiles(t *testing.T) {
	g := newIdleGateway(t, `
upstreams: {files: {command: cat}}
policy: {default: allow, rules: [{name: typo, effect: deny, what: {tools: [files__raed]}}]}
profiles: {coding: {tools: {allow: ["files__*", "files__wirte"]}}}
`)
	core, logs := observer.New(zap.WarnLevel)
	g.log = zap.New(core)
	g.setSnapshot(connector.Snapshot{Name: "files", State: connector.Ready, Settled: true, Since: time.Now(), Revision: wire.Rev20251125, Catalog: connector.Catalog{Tools: []wire.Raw{wire.Raw(`{"name":"read","inputSchema":{"type":"object"}}`)}}})
	g.rebuild(t.Context(), time.Now())
	for message, glob := range map[string]string{"globs of the policy match nothing": "policy rule", "globs of profiles match nothing": "profiles.coding.tools.allow[1]"} {
		lines := logs.FilterMessage(message).All()
		if len(lines) != 1 {
			t.Fatalf("%s: %d lines", message, len(lines))
		}
		if globs := lines[0].ContextMap()["globs"].([]any); len(globs) != 1 || !strings.HasPrefix(globs[0].(string), glob) {
			t.Errorf("%s: %v", message, globs)
		}
	}
}

// A misspelled glob is logged although an upstream that it cannot mean is down, and one of an upstream that
// has listed late when it has. A glob that may mean an upstream that is down is not.
func TestUnmatchedGlobsBesideAMissingUpstream(t *testing.T) {
	g := newIdleGateway(t, `
upstreams: {files: {command: cat}, lazy: {command: cat, start: lazy}, down: {command: cat}}
policy:
  default: allow
  rules:
    - {name: writes, effect: deny, what: {tools: [files__wirte_file, files__edit_file, lazy__raed]}}
    - {name: down, effect: deny, what: {tools: [down__wirte, "*__wirte"]}}
`)
	core, logs := observer.New(zap.WarnLevel)
	g.log = zap.New(core)
	tool := func(name string) wire.Raw { return wire.Raw(`{"name":"` + name + `","inputSchema":{"type":"object"}}`) }
	deliver := func(name string, state connector.State, tools ...wire.Raw) {
		g.setSnapshot(connector.Snapshot{Name: name, State: state, Settled: true, Since: time.Now(), Revision: wire.Rev20251125, Catalog: connector.Catalog{Tools: tools}})
		g.rebuild(t.Context(), time.Now())
	}
	logged := func() (globs []any) {
		for _, e := range logs.TakeAll() {
			if e.Message == "globs of the policy match nothing" {
				globs = append(globs, e.ContextMap()["globs"].([]any)...)
			}
		}
		return globs
	}
	for _, step := range []struct {
		upstream string
		state    connector.State
		tools    []wire.Raw
		want     []any
	}{
		{"down", connector.Down, nil, nil},
		{"files", connector.Ready, []wire.Raw{tool("write_file"), tool("edit_file")}, nil}, // lazy is awaited
		{"lazy", connector.Idle, []wire.Raw{tool("read")}, []any{
			`policy rule "writes": what.tools[0] "files__wirte_file" matches nothing that is listed; did you mean "files__write_file"?`,
			`policy rule "writes": what.tools[2] "lazy__raed" matches nothing that is listed; did you mean "lazy__read"?`,
		}},
		{"files", connector.Ready, []wire.Raw{tool("edit_file")}, nil},
		{"down", connector.Ready, []wire.Raw{tool("write")}, []any{
			`policy rule "down": what.tools[0] "down__wirte" matches nothing that is listed; did you mean "down__write"?`,
			`policy rule "down": what.tools[1] "*__wirte" matches nothing that is listed; did you mean "down__write"?`,
		}},
	} {
		deliver(step.upstream, step.state, step.tools...)
		if diff := cmp.Diff(step.want, logged()); diff != "" {
			t.Errorf("when %s is %v (-want +got):\n%s", step.upstream, step.state, diff)
		}
	}
}

// The answer of a reload has the warnings of the configuration, and the globs of rules that deny or confirm that match
// nothing. The status has these globs, while they match nothing.
func TestReloadWarns(t *testing.T) {
	s := newScripted(t, "drop")
	text := func(glob string) string {
		return "upstreams: {fs: " + s.entry("") + "}\npolicy:\n  default: allow\n  rules:\n" +
			"    - {name: no-drop, effect: deny, what: {tools: [" + glob + "]}}\n    - {name: others, effect: allow, what: {tools: [fs__others]}}\n"
	}
	f := runFile(t, text("fs__drop"))
	polltest.Until(t, "fs is ready", func() bool { return f.Upstreams()[0].State == connector.Ready })
	if r := f.answer(t); r.Warnings != nil {
		t.Errorf("warnings %+v", r.Warnings)
	}
	f.write(t, text("fs__dorp"))
	r := f.answer(t)
	const glob = `policy rule "no-drop": what.tools[0]`
	if len(r.Warnings) != 1 || r.Warnings[0] != (inspect.ReloadError{File: f.path, Line: 5, Message: glob + ` "fs__dorp" matches nothing that is listed; did you mean "fs__drop"?`}) {
		t.Errorf("warnings %+v", r.Warnings)
	}
	f.write(t, text("gone__drop")) // the prefix of no upstream: one warning, with the place of the glob
	r = f.answer(t)
	if len(r.Warnings) != 1 || r.Warnings[0].Key != "policy.rules[0].what.tools[0]" {
		t.Errorf("warnings %+v", r.Warnings)
	}
	f.write(t, text("fs__dorp"))
	f.answer(t)
	status := func() *inspect.Status {
		t.Helper()
		s, err := f.Status()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for range 2 { // the second is not computed again
		if got := status().UnmatchedGlobs; len(got) != 1 || !strings.HasPrefix(got[0], glob) {
			t.Errorf("the status has %q", got)
		}
	}
	f.write(t, text("fs__drop"))
	if r := f.answer(t); r.Warnings != nil || status().UnmatchedGlobs != nil {
		t.Errorf("after the correction: %+v, %q", r.Warnings, status().UnmatchedGlobs)
	}
	f.write(t, "upstreams: {fs: "+s.entry("")+"}\npolicy: {default: deny}\n")
	r = f.answer(t)
	if len(r.Warnings) != 1 || r.Warnings[0].Line != 2 || !strings.HasPrefix(r.Warnings[0].Message, "nobody may use anything: policy.default is deny, and no rule allows") {
		t.Errorf("warnings %+v", r.Warnings)
	}
	if last := status().Reload; len(last.Warnings) != 1 {
		t.Errorf("the last reload is %+v", last)
	}
}
