package router

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// fakeAuditor records lines, and fails when it is full.
type fakeAuditor struct {
	mu    sync.Mutex
	lines []string
	full  bool
}

func (b *fakeAuditor) Before(line []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full {
		return errors.New("no space")
	}
	b.lines = append(b.lines, string(line))
	return nil
}

func (b *fakeAuditor) After(line []byte) { _ = b.Before(line) }

// take returns the lines since the last call, without the members that differ between
// runs.
func (b *fakeAuditor) take(t *testing.T) []string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.lines
	b.lines = nil
	for i, l := range lines {
		if err := wire.Check([]byte(l), wire.Limits{}, wire.Strict); err != nil || strings.Count(l, "\n") != 1 || !strings.HasSuffix(l, "\n") {
			t.Errorf("%q is not a JSON line: %v", l, err)
		}
		l = regexp.MustCompile(`"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`).ReplaceAllString(l, `"time":T`)
		l = regexp.MustCompile(`"duration_ms":[0-9.]+`).ReplaceAllString(l, `"duration_ms":N`)
		l = regexp.MustCompile(`"sha256:[0-9a-f]{64}"`).ReplaceAllString(l, `"sha256:…"`)
		lines[i] = strings.TrimSuffix(l, "\n")
	}
	return lines
}

func auditedRouter(t testing.TB, up *fakeUpstream, src catalog.Source, a *Audit, rules ...policy.Rule) *testRouter {
	t.Helper()
	h := routerWithRules(t, up, src, rules...)
	h.audit = a
	return h
}

var byRules = []policy.Rule{
	{Name: "ask", Effect: policy.Confirm, What: policy.What{Tools: []string{"files__remove"}}, File: "policy.yaml", Line: 9},
	{Name: "read", Effect: policy.Allow, What: policy.What{Tools: []string{"files__read"}, Resources: []string{"files+*"}}, File: "policy.yaml", Line: 4},
}

// begin returns the beginning of every audit line of the test's calls.
func begin(event, method string) string {
	return `{"time":T,"event":"` + event + `","request":"r1","method":"` + method + `","principal":{"subject":"anonymous","proof":"none"},"remote":"192.0.2.7:4711"`
}

func TestAudit(t *testing.T) {
	const (
		decided = `,"client":{"revision":"2025-11-25","name":"host","version":"2"}`
		read    = `,"kind":"tool","item":"files__read","upstream":"files","native":"read","effect":"allow","rule":"read","file":"policy.yaml","line":4`
		args    = `,"digest":"sha256:…","arguments":{"path":"/a", "password":"[redacted]","x":[{"key":"[redacted]"}]}}`
		remove  = `,"kind":"tool","item":"files__remove","upstream":"files","native":"remove","effect":"confirm","rule":"ask","file":"policy.yaml","line":9}`
	)
	for _, tt := range []struct {
		name, method, params, answer string
		back                         call.BackChannel
		want                         []string
	}{
		{
			"allowed", "tools/call", `{"name":"files__read","arguments":{"path":"/a",` + "\n" + `"password":"geheim","x":[{"key":"k"}]}}`, `{"content":[]}`, nil,
			[]string{
				begin("decision", "tools/call") + decided + read + args,
				begin("end", "tools/call") + `,"item":"files__read","upstream":"files","outcome":"ok","duration_ms":N}`,
			},
		},
		{
			"a failing tool", "tools/call", `{"name":"files__read"}`, `{"content":[],"isError":true}`, nil,
			[]string{
				begin("decision", "tools/call") + decided + read + `}`,
				begin("end", "tools/call") + `,"item":"files__read","upstream":"files","outcome":"tool_error","reason":"the tool reports an error in its result","duration_ms":N}`,
			},
		},
		{
			"absent", "tools/call", `{"name":"files__gone"}`, ``, nil,
			[]string{
				begin("decision", "tools/call") + decided + `,"kind":"tool","item":"files__gone","effect":"deny","rule":"unknown"}`,
				begin("end", "tools/call") + `,"item":"files__gone","outcome":"refused","code":-32602,"reason":"there is no such tool","duration_ms":N}`,
			},
		},
		{
			"refused", "prompts/get", `{"name":"files__explain"}`, ``, nil,
			[]string{
				begin("decision", "prompts/get") + decided + `,"kind":"prompt","item":"files__explain","upstream":"files","native":"explain","effect":"deny","rule":"default"}`,
				begin("end", "prompts/get") + `,"item":"files__explain","upstream":"files","outcome":"refused","code":-32602,"reason":"no rule allows it","duration_ms":N}`,
			},
		},
		{
			"a resource", "resources/read", `{"uri":"files+file:///a"}`, `{"contents":[]}`, nil,
			[]string{
				begin("decision", "resources/read") + decided + `,"kind":"resource","item":"files+file:///a","upstream":"files","native":"file:///a","effect":"allow","rule":"read","file":"policy.yaml","line":4}`,
				begin("end", "resources/read") + `,"item":"files+file:///a","upstream":"files","outcome":"ok","duration_ms":N}`,
			},
		},
		{
			"consent", "tools/call", `{"name":"files__remove"}`, `{"content":[]}`, &answerer{answer: `{"action":"accept"}`},
			[]string{
				begin("decision", "tools/call") + decided + remove,
				begin("consent", "tools/call") + `,"item":"files__remove","outcome":"accepted"}`,
				begin("end", "tools/call") + `,"item":"files__remove","upstream":"files","outcome":"ok","duration_ms":N}`,
			},
		},
		{
			"no consent", "tools/call", `{"name":"files__remove"}`, ``, &answerer{answer: `{"action":"decline"}`},
			[]string{
				begin("decision", "tools/call") + decided + remove,
				begin("consent", "tools/call") + `,"item":"files__remove","outcome":"declined"}`,
				begin("end", "tools/call") + `,"item":"files__remove","upstream":"files","outcome":"unconfirmed","reason":"the user declined it","duration_ms":N}`,
			},
		},
		{"a list", "tools/list", `{}`, ``, nil, nil},
		{
			"invalid params", "tools/call", `{"name":7}`, ``, nil,
			[]string{begin("end", "tools/call") + `,"outcome":"refused","code":-32602,"reason":"tools/call: params.name must be a string","duration_ms":N}`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &fakeAuditor{}
			up := answers(tt.answer)
			inner := up.answer
			var before []string
			up.answer = func(ctx context.Context, c *call.Call) (call.Result, error) {
				before = b.take(t)
				return inner(ctx, c)
			}
			redact := []Path{ParsePath("Password"), ParsePath("x.*.key")}
			h := auditedRouter(t, up, filesSource(t), &Audit{To: b, Arguments: true, Redact: redact}, byRules...)
			c := newCall(tt.method, tt.params, tt.back)
			c.Client = &call.Client{Key: "c", Revision: wire.Rev20251125, Info: wire.Raw(`{"name":"host","version":"2"}`), Capabilities: wire.Raw(`{"elicitation":{}}`)}
			_, _ = h.Handle(t.Context(), c)
			after := b.take(t)
			if diff := cmp.Diff(tt.want, append(before, after...)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if tt.answer != "" && len(after) != 1 {
				t.Errorf("lines before the upstream was called: %q, after: %q", before, after)
			}
		})
	}
}

// A call that somebody makes in the name of a principal names both.
func TestAuditNamesWhoActs(t *testing.T) {
	b := &fakeAuditor{}
	h := auditedRouter(t, answers(`{"content":[]}`), filesSource(t), &Audit{To: b}, byRules...)
	c := newCall("tools/call", `{"name":"files__read"}`, nil)
	c.By = "admin"
	_, _ = h.Handle(t.Context(), c)
	lines := b.take(t)
	if len(lines) != 2 {
		t.Fatalf("the lines are %q", lines)
	}
	for _, l := range lines {
		if v := wire.ValueOf(wire.Raw(l)); v.Get("by").Str() != "admin" || v.Get("principal", "subject").Str() != c.Principal.Subject {
			t.Errorf("the line is %s", l)
		}
	}
}

// The audit and the log say which API key made a call: a principal may have several.
func TestCallsNameTheAPIKey(t *testing.T) {
	b := &fakeAuditor{}
	h := auditedRouter(t, answers(`{"content":[]}`), filesSource(t), &Audit{To: b}, byRules...)
	core, logs := observer.New(zap.InfoLevel)
	h.logTo(zap.New(core))
	first, second := &call.Principal{Subject: "ci", AuthMethod: "api-key", KeyID: "ci"}, &call.Principal{Subject: "ci", AuthMethod: "api-key", KeyID: "ci-2"}
	token := &call.Principal{Subject: "ci", AuthMethod: "jwt", Issuer: "https://i.example"}
	for _, who := range []*call.Principal{first, second, token} {
		c := newCall("tools/call", `{"name":"files__read"}`, nil)
		c.Principal = who
		if _, err := h.Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		for _, l := range b.take(t) {
			if v := wire.ValueOf(wire.Raw(l)).Get("principal", "key"); v.Str() != who.KeyID || v.Exists() != (who.KeyID != "") {
				t.Errorf("the line is %s", l)
			}
		}
		if key, ok := logs.TakeAll()[0].ContextMap()["key"]; ok != (who.KeyID != "") || ok && key != who.KeyID {
			t.Errorf("%s: the log has the key %v", who.KeyID, key)
		}
	}
	if first.Key() != second.Key() || first.Identity() != second.Identity() || !first.Same(second) {
		t.Error("a principal with another key is another one")
	}
}

// If arguments are not recorded, the line has only their digest.
func TestAuditWithoutArguments(t *testing.T) {
	b := &fakeAuditor{}
	h := auditedRouter(t, answers(`{"content":[]}`), filesSource(t), &Audit{To: b}, byRules...)
	for _, spelling := range []string{`{"a":"geheim","b":1}`, `{ "b":1.0, "a":"\u0067eheim" }`} {
		if _, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read","arguments":`+spelling+`}`, nil)); err != nil {
			t.Fatal(err)
		}
	}
	var digests []string
	for _, l := range b.lines {
		if strings.Contains(l, "geheim") || strings.Contains(l, "arguments") {
			t.Errorf("the line has the arguments: %s", l)
		}
		var got struct{ Digest string }
		if err := json.Unmarshal([]byte(l), &got); err != nil {
			t.Fatal(err)
		}
		if got.Digest != "" {
			digests = append(digests, got.Digest)
		}
	}
	if len(digests) != 2 || digests[0] != digests[1] {
		t.Errorf("digests %q, want two equal ones", digests)
	}
}

// A call that cannot be recorded is not made, and the error does not show which items exist.
func TestUnauditedCallsAreRefused(t *testing.T) {
	b := &fakeAuditor{full: true}
	up := answers(`{"content":[]}`)
	h := auditedRouter(t, up, filesSource(t), &Audit{To: b}, byRules...)
	core, logs := observer.New(zap.InfoLevel)
	h.logTo(zap.New(core))
	failed := 0
	h.onFailed = func(FailedCall) { failed++ }
	for method, params := range map[string]string{
		"tools/call": `{"name":"files__read"}`, "prompts/get": `{"name":"files__explain"}`, "resources/read": `{"uri":"files+file:///a"}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"files__gone"},"argument":{"name":"q","value":"a"}}`,
	} {
		if _, err := h.Handle(t.Context(), newCall(method, params, nil)); !errors.Is(err, errUnaudited) {
			t.Errorf("%s: %v", method, err)
		}
		if fault := h.Permit(newCall(method, params, nil)); fault != errUnaudited {
			t.Errorf("%s was not refused: %v", method, fault)
		}
	}
	subs := NewSubscriptions(h.Router)
	if _, err := subs.Subscribe(t.Context(), newCall("resources/subscribe", `{"uri":"files+file:///a"}`, nil), "files+file:///a", nil); !errors.Is(err, errUnaudited) {
		t.Errorf("subscribed: %v", err)
	}
	if up.got != nil {
		t.Errorf("the upstream was called: %+v", up.got)
	}
	if failed > 0 {
		t.Errorf("%d failed calls are those of the upstream, which was not called", failed)
	}
	if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues("tools/call", "", "unavailable")); n != 1 {
		t.Errorf("%v calls are counted without an upstream, want 1", n)
	}
	for _, e := range logs.FilterField(zap.String("method", "tools/call")).All() {
		if m := e.ContextMap(); m["upstream"] != "files" || m["item"] != "files__read" || m["reason"] != "the audit cannot be written" {
			t.Errorf("the line has %v", m)
		}
	}
	b.full = false
	if _, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, nil)); err != nil || up.got == nil {
		t.Errorf("with room for lines again: %v", err)
	}
}

// A consent that cannot be recorded is not valid.
func TestConsentIsRecordedBeforeTheCall(t *testing.T) {
	b := &fakeAuditor{}
	up := answers(`{"content":[]}`)
	h := auditedRouter(t, up, filesSource(t), &Audit{To: b}, byRules...)
	c := newCall("tools/call", `{"name":"files__remove"}`, auditFiller{b})
	c.Client = &call.Client{Key: "c", Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"elicitation":{}}`)}
	if _, err := h.Handle(t.Context(), c); !errors.Is(err, errUnaudited) || up.got != nil {
		t.Errorf("error %v, upstream got %+v", err, up.got)
	}
}

// auditFiller accepts the question, and the auditor is full afterwards.
type auditFiller struct{ b *fakeAuditor }

func (auditFiller) Notify(string, wire.Raw) {}
func (f auditFiller) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	f.b.full = true
	return wire.Raw(`{"action":"accept"}`), nil
}

// The audit bounds text of clients.
func TestAuditIsBounded(t *testing.T) {
	b := &fakeAuditor{}
	h := auditedRouter(t, answers(`{"content":[]}`), filesSource(t), &Audit{To: b, Arguments: true}, byRules...)
	huge := strings.Repeat("ä", 1<<17)
	c := newCall("tools/call", `{"name":"files__read","arguments":{"a":"`+huge+`"}}`, nil)
	c.Client = &call.Client{Key: "c", Revision: wire.Rev20251125, Info: wire.Raw(`{"name":"` + huge + `","version":"` + huge + `"}`)}
	_, _ = h.Handle(t.Context(), c)
	c.Params = wire.Raw(`{"name":"` + huge + `"}`)
	_, _ = h.Handle(t.Context(), c)
	if len(b.lines) != 4 {
		t.Fatalf("%d lines", len(b.lines))
	}
	for _, l := range b.lines {
		if len(l) > 4096 {
			t.Errorf("a line of %d bytes: %.200s", len(l), l)
		}
	}
	if !strings.Contains(b.lines[0], `"arguments_too_long":262152`) {
		t.Errorf("the line does not report that the arguments are too long: %.300s", b.lines[0])
	}
}

func TestRedact(t *testing.T) {
	for _, tt := range []struct{ paths, given, want string }{
		{"", `{"a":1}`, `{"a":1}`},
		{"a", `{"a":{"b":1},"b":{"a":2}}`, `{"a":"[redacted]","b":{"a":2}}`},
		{"b.a", `{"a":{"b":1},"b":{"a":2,"c":3}}`, `{"a":{"b":1},"b":{"a":"[redacted]","c":3}}`},
		{"*.a", `{"x":{"a":1},"y":[{"a":2}],"a":3}`, `{"x":{"a":"[redacted]"},"y":[{"a":2}],"a":3}`},
		{"y.*.a", `{"y":[{"a":2},{"b":3},[{"a":4}]]}`, `{"y":[{"a":"[redacted]"},{"b":3},[{"a":4}]]}`},
		{"**.a", `{"x":{"a":{"a":1}},"y":[[{"A":2}]],"a":3}`, `{"x":{"a":"[redacted]"},"y":[[{"A":"[redacted]"}]],"a":"[redacted]"}`},
		{"x.**.a", `{"x":{"a":1,"y":{"z":{"a":2}}},"a":3}`, `{"x":{"a":"[redacted]","y":{"z":{"a":"[redacted]"}}},"a":3}`},
		{"a b.c", `{"a":1,"b":{"c":[2],"d":3}}`, `{"a":"[redacted]","b":{"c":"[redacted]","d":3}}`},
		{"a.**", `{"a":{"b":1}}`, `{"a":"[redacted]"}`},
		{"p\u00e4ss", `{"p\u00e4ss":1,"PÄSS":2}`, `{"p\u00e4ss":"[redacted]","PÄSS":"[redacted]"}`},
	} {
		var paths []Path
		for _, p := range strings.Fields(tt.paths) {
			paths = append(paths, ParsePath(p))
		}
		if got := string(redact(wire.Raw(tt.given), paths)); got != tt.want {
			t.Errorf("%s of %s:\ngot  %s\nwant %s", tt.paths, tt.given, got, tt.want)
		}
	}
}

// discard is an auditor that drops every line.
type discard struct{}

func (discard) Before([]byte) error { return nil }
func (discard) After([]byte)        {}

func auditedCall(b testing.TB, a *Audit, profile string) func() {
	r := New(Options{Started: closedChan(), Logger: zap.NewNop(), Metrics: NewMetrics(), Audit: a}, nil)
	d := policy.Decision{Effect: policy.Allow, Rule: "read", File: "policy.yaml", Line: 4}
	c := newCall("tools/call", `{"name":"files__read","arguments":{"path":"/a"}}`, nil)
	c.Principal = call.Anonymous.In(profile)
	it := auditedItem{call.Tool, "files__read", "files", "read", true}
	res := call.Result{Raw: wire.Raw(`{"content":[]}`)}
	return func() {
		if r.decided(auditDecision, c, it, &d, nil) != nil {
			b.Fatal("not recorded")
		}
		if r.audit != nil {
			r.auditEnd(c, it.public, &logFields{upstream: it.upstream}, res, 1000, nil)
		}
	}
}

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func BenchmarkAudit(b *testing.B) {
	for name, a := range map[string]*Audit{"off": nil, "on": {To: discard{}}} {
		b.Run(name, func(b *testing.B) {
			f := auditedCall(b, a, "")
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
