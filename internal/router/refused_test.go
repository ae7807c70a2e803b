package router

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

// The log line of a refused call and its end in the audit say what was wrong with it, and have no
// argument. A listed item has its name and its upstream in the line, a URI that no upstream lists
// has not.
func TestRefusedCallsSayWhy(t *testing.T) {
	const add = `{"name":"add","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`
	tools := func(effect policy.Effect, name string, globs ...string) policy.Rule {
		return policy.Rule{Name: name, Effect: effect, What: policy.What{Tools: globs}}
	}
	all := tools(policy.Allow, "all", "*")
	onlyArguments := tools(policy.Deny, "secrets", "*")
	when, diagnostics := policy.NewCondition(`args.path == "/s3cret"`)
	if when == nil {
		t.Fatal(diagnostics)
	}
	onlyArguments.When = when
	scoped := tools(policy.Allow, "scoped", "*")
	scoped.Who, scoped.Challenge = policy.Who{Scopes: []string{"notes:write"}}, true
	resources := policy.Rule{Name: "docs", Effect: policy.Allow, What: policy.What{Resources: []string{"files+file:///doc*"}}}
	for _, tt := range []struct {
		name, method, params  string
		rules                 []policy.Rule
		outcome, reason, rule string
		item, upstream        string
	}{
		{name: "denied", params: `{"name":"files__remove"}`, rules: []policy.Rule{all, tools(policy.Deny, "danger", "files__remove")},
			outcome: "refused", reason: `rule "danger" denies it`, rule: "danger", item: "files__remove", upstream: "files"},
		{name: "not allowed", params: `{"name":"files__remove"}`, rules: []policy.Rule{tools(policy.Allow, "one", "files__read")},
			outcome: "refused", reason: "no rule allows it", rule: "default", item: "files__remove", upstream: "files"},
		{name: "absent", params: `{"name":"files__gone"}`, rules: []policy.Rule{all}, outcome: "refused", reason: "there is no such tool", rule: "unknown", item: "files__gone"},
		{name: "arguments", params: `{"name":"files__read","arguments":{"path":"/s3cret"}}`, rules: []policy.Rule{all, onlyArguments},
			outcome: "refused", reason: `rule "secrets" denies these arguments`, rule: "secrets", item: "files__read", upstream: "files"},
		{name: "scopes", params: `{"name":"files__read"}`, rules: []policy.Rule{scoped},
			outcome: "refused", reason: "lacks one of the scopes notes:write", rule: "scoped", item: "files__read", upstream: "files"},
		{name: "no name", params: `{"name":5}`, rules: []policy.Rule{all}, outcome: "refused", reason: "tools/call: params.name must be a string"},
		{name: "no arguments", params: `{"name":"files__read","arguments":"s3cret"}`, rules: []policy.Rule{all},
			outcome: "refused", reason: "tools/call: params.arguments must be an object", item: "files__read"},
		{name: "no arguments of a prompt", method: "prompts/get", params: `{"name":"files__gone","arguments":["s3cret"]}`, rules: []policy.Rule{all},
			outcome: "refused", reason: "prompts/get: params.arguments must be an object", item: "files__gone"},
		{name: "schema", params: `{"name":"files__add","arguments":{"n":"s3cret"}}`, rules: []policy.Rule{all},
			outcome: "tool_error", reason: "the arguments do not match the input schema; the server was not called", rule: "all", item: "files__add", upstream: "files"},
		{name: "listed resource", method: "resources/read", params: `{"uri":"files+file:///a"}`, rules: []policy.Rule{resources},
			outcome: "refused", reason: "no rule allows it", rule: "default", item: "files+file:///a", upstream: "files"},
		{name: "unlisted resource", method: "resources/read", params: `{"uri":"files+file:///s3cret"}`, rules: []policy.Rule{resources},
			outcome: "refused", reason: "no rule allows it", rule: "default"},
		{name: "spelling", method: "resources/read", params: `{"uri":"files+file:///doc/../s3cret"}`, rules: []policy.Rule{resources},
			outcome: "refused", reason: "the URI is neither listed nor canonical: it has a dot segment", rule: "uri"},
		{name: "state", params: `{"name":"files__read","requestState":"s3cret"}`, rules: []policy.Rule{all},
			outcome: "refused", reason: "the request state is malformed", rule: "all", item: "files__read", upstream: "files"},
		{name: "no rules", params: `{"name":"files__read"}`, rules: nil, outcome: "refused", reason: "no rule allows it", rule: "default", item: "files__read", upstream: "files"},
		{name: "missing resource", method: "resources/read", params: `{"uri":"files+file:///docs/s3cret"}`, rules: []policy.Rule{resources},
			outcome: "refused", reason: "the server answered without contents, as if there were no such resource", rule: "docs", upstream: "files"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := filesSource(t)
			src.Items[call.Tool] = append(src.Items[call.Tool], wire.Raw(add))
			src.Rules = catalog.Rules{ValidateInput: true}
			b := &fakeAuditor{}
			h := auditedRouter(t, answers(`{"contents":[]}`), src, &Audit{To: b}, tt.rules...)
			core, logs := observer.New(zap.InfoLevel)
			h.logTo(zap.New(core))
			c := newCall("tools/call", tt.params, &recorder{})
			if tt.method != "" {
				c.Method = tt.method
			}
			c.Client, c.TakesRounds = &call.Client{Key: "c", Revision: wire.Rev20260728}, true
			_, _ = h.Handle(t.Context(), c)
			fields := logs.FilterMessage("call").All()[0].ContextMap()
			for name, want := range map[string]string{"outcome": tt.outcome, "reason": tt.reason, "rule": tt.rule, "item": tt.item, "upstream": tt.upstream} {
				if got, ok := fields[name]; ok != (want != "") || ok && got != want {
					t.Errorf("the line has %s %q, want %q", name, got, want)
				}
			}
			end := wire.ValueOf(wire.Raw(b.lines[len(b.lines)-1]))
			if end.Get("outcome").Str() != tt.outcome || end.Get("reason").Str() != tt.reason {
				t.Errorf("the audit ends with %s", end.Raw())
			}
			for _, e := range logs.All() {
				for name, v := range e.ContextMap() {
					if text, ok := v.(string); ok && strings.Contains(text, "s3cret") {
						t.Errorf("%s: %s has an argument: %s", e.Message, name, text)
					}
				}
			}
		})
	}
}

// A consent that was used before is the reason in the line of the call and in the audit.
func TestUsedConsentIsTheReason(t *testing.T) {
	b := &fakeAuditor{}
	h := auditedRouter(t, answers(`{"content":[]}`), filesSource(t), &Audit{To: b}, confirmAll)
	core, logs := observer.New(zap.InfoLevel)
	h.logTo(zap.New(core))
	state := h.asks(t, asksFor)
	for range 2 {
		_, _ = h.round(t, retry(asksFor, state, accept))
	}
	const want = "the consent was already used"
	lines := logs.FilterMessage("call").All()
	if got := lines[len(lines)-1].ContextMap(); got["outcome"] != "refused" || got["reason"] != want {
		t.Errorf("the line has the outcome %v and the reason %v", got["outcome"], got["reason"])
	}
	if end := wire.ValueOf(wire.Raw(b.lines[len(b.lines)-1])); end.Get("reason").Str() != want {
		t.Errorf("the audit ends with %s", end.Raw())
	}
}

// A tool that its pin holds back looks absent to the client; the log and the audit say how to accept it.
func TestHeldToolSaysWhy(t *testing.T) {
	src := filesSource(t)
	b, kept := &fakeAuditor{}, len(src.Items[call.Tool])
	src.Items[call.Tool] = append(src.Items[call.Tool], wire.Raw(`{"name":"held","inputSchema":{"type":"object"}}`))
	src.HeldTools = append(make([]string, kept), "it is new; gateway pin accepts it")
	h := auditedRouter(t, answers(`{}`), src, &Audit{To: b}, policy.Rule{Name: "all", Effect: policy.Allow})
	routes := *h.Routes()
	routes.Profiles = map[string]*catalog.Table{"short": profileOf(t, routes.Table, profile.Options{Name: "short", Upstreams: []string{"files"}, ShortNames: true})}
	h.Swap(&routes)
	core, logs := observer.New(zap.InfoLevel)
	h.logTo(zap.New(core))
	for i, tt := range []struct{ profile, name string }{{"", "files__held"}, {"short", "files__held"}, {"short", "held"}} {
		c := newCall("tools/call", `{"name":"`+tt.name+`"}`, &recorder{})
		if tt.profile != "" {
			c.Principal = call.Anonymous.In(tt.profile)
		}
		_, err := h.Handle(t.Context(), c)
		if want := "unknown tool: \"" + tt.name + "\""; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "pin") {
			t.Errorf("the client gets %v", err)
		}
		const want = "it is held by its pin: it is new; gateway pin accepts it"
		if got := logs.FilterMessage("call").All()[i].ContextMap(); got["reason"] != want || got["rule"] != "unknown" {
			t.Errorf("%s: the line has the reason %v and the rule %v", tt.name, got["reason"], got["rule"])
		}
		if end := wire.ValueOf(wire.Raw(b.lines[len(b.lines)-1])); end.Get("reason").Str() != want {
			t.Errorf("%s: the audit ends with %s", tt.name, end.Raw())
		}
	}
	for _, f := range h.Routes().Table.Findings() {
		h.ReportFinding("", f)
	}
	if found := logs.FilterMessage("catalog").All(); len(found) != 1 || found[0].ContextMap()["public"] != "files__held" {
		t.Errorf("logged: %v", found)
	}
}

// Of an upstream that has never been up the gateway does not know whether it has the tool.
func TestRefusedAtAnUnknownUpstream(t *testing.T) {
	h := routerWithRules(t, answers(`{}`), source(t, "files", &catalog.Down{Reason: "down"}),
		policy.Rule{Name: "other", Effect: policy.Allow, What: policy.What{Tools: []string{"other__*"}}})
	core, logs := observer.New(zap.InfoLevel)
	h.logTo(zap.New(core))
	_, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, nil))
	if err == nil || err.Error() != `unknown tool: "files__read" (-32602)` {
		t.Errorf("the client gets %v", err)
	}
	if got := logs.All()[0].ContextMap()["reason"]; got != "the caller may not use it, and nothing is known of the tools of upstream files now" {
		t.Errorf("the reason is %v", got)
	}
}

// The reason names an upstream of which nothing is known only if the profile may select its item, and for a name without its
// prefix only if the caller might use that item.
func TestRefusedShortNameBesideAnUnknownUpstream(t *testing.T) {
	when, diagnostics := policy.NewCondition(`tool.annotations.readOnlyHint == true`)
	if when == nil {
		t.Fatal(diagnostics)
	}
	rule := func(when *policy.Condition, tools ...string) []policy.Rule {
		return []policy.Rule{{Name: "r", Effect: policy.Allow, What: policy.What{Tools: tools}, When: when}}
	}
	const (
		absent  = `there is no such tool in profile "small"`
		nothing = "nothing is known of the tools of upstream n now"
	)
	selected := policy.Selection{Tools: policy.Globs{Allow: []string{"files__*"}}}
	for _, tt := range []struct {
		name, tool string
		rules      []policy.Rule
		selects    policy.Selection
		reason     string
	}{
		{"not selected", "teff", rule(nil, "*"), selected, absent},
		{"not selected, with the prefix", "n__teff", rule(nil, "*"), selected, absent},
		{"neither selected nor allowed", "n__teff", rule(nil, "files__*"), selected, absent},
		{"not allowed", "teff", rule(nil, "files__*"), policy.Selection{}, absent},
		{"not allowed, with the prefix", "n__teff", rule(nil, "files__*"), policy.Selection{}, "the caller may not use it, and " + nothing},
		{"the definition decides", "teff", rule(when, "n__*"), policy.Selection{}, nothing},
		{"the definition decides, with the prefix", "n__teff", rule(when, "n__*"), policy.Selection{}, nothing},
		{"the definition decides of other names", "teff", rule(when, "n__x"), policy.Selection{}, absent},
		{"denied before the definition decides", "teff", append(rule(when, "n__*"), policy.Rule{Name: "no", Effect: policy.Deny, What: policy.What{Tools: []string{"n__teff"}}}), policy.Selection{}, absent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &fakeAuditor{}
			h := auditedRouter(t, answers(`{}`), filesSource(t), &Audit{To: b})
			table := catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Rules: tt.rules})}, []catalog.Source{filesSource(t), source(t, "n", &catalog.Down{Reason: "down"})})
			routes := *h.Routes()
			routes.Table = table
			routes.Profiles = map[string]*catalog.Table{"small": profileOf(t, table, profile.Options{Name: "small", Select: tt.selects, ShortNames: true})}
			h.Swap(&routes)
			core, logs := observer.New(zap.InfoLevel)
			h.logTo(zap.New(core))
			c := newCall("tools/call", `{"name":"`+tt.tool+`"}`, nil)
			c.Principal = call.Anonymous.In("small")
			_, err := h.Handle(t.Context(), c)
			if want := `unknown tool: "` + tt.tool + `" (-32602)`; err == nil || err.Error() != want {
				t.Errorf("the client gets %v, want %s", err, want)
			}
			got := logs.FilterMessage("call").All()[0].ContextMap()
			if got["outcome"] != "refused" || got["rule"] != "unknown" || got["reason"] != tt.reason {
				t.Errorf("outcome %v, rule %v, reason %v, want %s", got["outcome"], got["rule"], got["reason"], tt.reason)
			}
			if end := wire.ValueOf(wire.Raw(b.lines[len(b.lines)-1])); end.Get("reason").Str() != tt.reason {
				t.Errorf("the audit ends with %s", end.Raw())
			}
		})
	}
}

// A name that the client has made up is in the audit without secrets, and that of a malformed call in the log, too.
func TestMadeUpNameIsMasked(t *testing.T) {
	b := &fakeAuditor{}
	h := auditedRouter(t, answers(`{}`), filesSource(t), &Audit{To: b})
	h.mask = func(text string) string { return strings.ReplaceAll(text, "s3cret", "[redacted]") }
	_, _ = h.Handle(t.Context(), newCall("tools/call", `{"name":"files__s3cret"}`, nil))
	if lines := strings.Join(b.lines, "\n"); strings.Contains(lines, "s3cret") || strings.Count(lines, `"item":"files__[redacted]"`) != 2 {
		t.Errorf("audited: %s", lines)
	}
	core, logs := observer.New(zap.InfoLevel)
	h.logTo(zap.New(core))
	_, _ = h.Handle(t.Context(), newCall("tools/call", `{"name":"files__s3cret","arguments":5}`, nil))
	if got := logs.All()[0].ContextMap()["item"]; got != "files__[redacted]" {
		t.Errorf("logged: %v", got)
	}
}

// In a profile an item may be absent because the profile does not select it.
func TestAbsentInAProfile(t *testing.T) {
	h := routerWithRules(t, answers(`{}`), filesSource(t), policy.Rule{Name: "all", Effect: policy.Allow})
	core, logs := observer.New(zap.InfoLevel)
	h.logTo(zap.New(core))
	c := newCall("tools/call", `{"name":"files__read"}`, nil)
	c.Principal = call.Anonymous.In("coding") // there is no such profile: it is empty
	_, _ = h.Handle(t.Context(), c)
	if got := logs.All()[0].ContextMap()["reason"]; got != `there is no such tool in profile "coding"` {
		t.Errorf("the reason is %v", got)
	}
}

// A profile may have an item by another name. The log says so if the principal may use it; the client learns nothing more.
func TestOrdinaryNameInAProfile(t *testing.T) {
	h := routerWithRules(t, answers(`{}`), filesSource(t), policy.Rule{Name: "all", Effect: policy.Allow, Who: policy.Who{Subjects: []string{"ann"}}})
	routes := *h.Routes()
	routes.Profiles = map[string]*catalog.Table{"short": profileOf(t, routes.Table, profile.Options{Name: "short", Upstreams: []string{"files"}, ShortNames: true})}
	h.Swap(&routes)
	for subject, want := range map[string]string{"ann": `its name in profile "short" is read`, "bob": `there is no such tool in profile "short"`} {
		core, logs := observer.New(zap.InfoLevel)
		h.logTo(zap.New(core))
		c := newCall("tools/call", `{"name":"files__read"}`, nil)
		c.Principal = (&call.Principal{Subject: subject}).In("short")
		_, err := h.Handle(t.Context(), c)
		if got := logs.All()[0].ContextMap()["reason"]; got != want || !strings.HasPrefix(err.Error(), `unknown tool: "files__read"`) {
			t.Errorf("%s: the reason is %v, and the error %v", subject, got, err)
		}
	}
}

// A reached limit is named with its value, as far as that is what was reached.
func TestLimitsInTheLog(t *testing.T) {
	for want, l := range map[string]excess{
		"2 calls per minute for each principal":                           {limit: policy.Limit{Rate: 2. / 60, Unit: time.Minute, Burst: 2}},
		"60 calls per minute for each tool":                               {limit: policy.Limit{Rate: 1, Unit: time.Minute, Burst: 5, Per: policy.PerTool}},
		"1 call per second for the rule as a whole":                       {limit: policy.Limit{Rate: 1, Burst: 1, Per: policy.PerRule}},
		"90 calls per minute for each upstream":                           {limit: policy.Limit{Rate: 1.5, Unit: time.Minute, Burst: 7, Per: policy.PerUpstream}},
		"1000 calls per hour for each principal":                          {limit: policy.Limit{Rate: 1000. / 3600, Unit: time.Hour, Burst: 1000}},
		"5 calls at the same time for each principal":                     {limit: policy.Limit{Concurrent: 5}},
		"10 calls per second and 1 call at the same time for each tool":   {limit: policy.Limit{Rate: 10, Burst: 10, Concurrent: 1, Per: policy.PerTool}},
		"0.67 calls per hour for each principal, which is this replica's": {limit: policy.Limit{Rate: 2. / 3 / 3600, Unit: time.Hour, Burst: 1}, share: true},
	} {
		l.limit.Rule = "guests"
		if got := l.String(); !strings.HasPrefix(got, `the limit of rule "guests", `+want) || !strings.HasSuffix(got, ", is reached") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
