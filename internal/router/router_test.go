package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// oneSession is an upstream with one session for all clients.
type oneSession struct{}

func (oneSession) Session(context.Context, *call.Call) (string, error) { return "", nil }

// fakeUpstream answers with the results of a test and records the requests.
type fakeUpstream struct {
	oneSession
	got    *call.Call
	answer func(context.Context, *call.Call) (call.Result, error)
}

func (f *fakeUpstream) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	f.got = c
	return f.answer(ctx, c)
}

func answers(raw string) *fakeUpstream {
	return &fakeUpstream{answer: func(context.Context, *call.Call) (call.Result, error) {
		return call.Result{Raw: wire.Raw(raw), Revision: wire.Rev20251125}, nil
	}}
}

// recorder is a client's end of the back channel.
type recorder struct{ notes, asks []string }

func (r *recorder) Notify(method string, params wire.Raw) {
	r.notes = append(r.notes, method+" "+string(params))
}

func (r *recorder) Ask(_ context.Context, method string, params wire.Raw) (wire.Raw, error) {
	r.asks = append(r.asks, method+" "+string(params))
	return wire.Raw(`{"action":"accept"}`), nil
}

// testRouter is a router with two upstreams: files is up, and slow has never been listed.
type testRouter struct {
	*Router
	files   *fakeUpstream
	started chan struct{}
}

// logTo replaces the log of the router.
func (h *testRouter) logTo(log *zap.Logger) { h.log, h.ratelog = log, ratelog.New(log) }

func source(t *testing.T, name string, down *catalog.Down) catalog.Source {
	t.Helper()
	space, err := namespace.New(name, name, "__")
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Source{Naming: space, Down: down}
}

func filesSource(t *testing.T) catalog.Source {
	src := source(t, "files", nil)
	src.Revision = wire.Rev20251125
	src.Capabilities = wire.Raw(`{"tools":{},"prompts":{},"resources":{},"completions":{}}`)
	src.Instructions = "Reads files."
	src.Items[call.Tool] = []wire.Raw{
		wire.Raw(`{"name":"read","inputSchema":{"type":"object"}}`),
		wire.Raw(`{"name":"remove","inputSchema":{"type":"object"}}`),
	}
	src.Items[call.Prompt] = []wire.Raw{wire.Raw(`{"name":"explain"}`)}
	src.Items[call.Resource] = []wire.Raw{wire.Raw(`{"name":"a","uri":"file:///a"}`)}
	src.Items[call.Template] = []wire.Raw{wire.Raw(`{"name":"any","uriTemplate":"file:///{path}"}`)}
	return src
}

func newTestRouter(t *testing.T, files *fakeUpstream, sources ...catalog.Source) *testRouter {
	t.Helper()
	h := &testRouter{files: files, started: make(chan struct{})}
	h.Router = New(Options{Started: h.started, Logger: zap.NewNop(), Metrics: NewMetrics()}, h.routes(sources))
	return h
}

func (h *testRouter) routes(sources []catalog.Source) *Routes {
	p := policy.MustNew(policy.Options{
		Default:   policy.Allow,
		Upstreams: map[string]policy.Upstream{"files": {Tools: policy.Globs{Deny: []string{"remove"}}}},
	})
	return &Routes{
		Table:     catalog.Build(catalog.Options{Policy: p}, sources),
		Upstreams: map[string]Upstream{"files": h.files},
	}
}

func newCall(method, params string, back call.BackChannel) *call.Call {
	return &call.Call{
		ID: "r1", Remote: "192.0.2.7:4711", Method: method, Params: wire.Raw(params), Principal: call.Anonymous,
		Client: &call.Client{Key: "c", Revision: wire.Rev20251125}, Back: back,
	}
}

func TestForwardRewritesBothWays(t *testing.T) {
	tests := []struct {
		name, method, params, sent, answer, want string
	}{
		{
			"a tool", "tools/call", `{"name":"files__read","arguments":{"path":"files+file:///a"},"x":1}`,
			`{"name":"read","arguments":{"path":"files+file:///a"},"x":1}`,
			`{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`,
			`{"content":[{"type":"resource_link","uri":"files+file:///a","name":"a"}]}`,
		},
		{
			"a prompt", "prompts/get", `{"name":"files__explain"}`, `{"name":"explain"}`,
			`{"messages":[]}`, `{"messages":[]}`,
		},
		{
			"a resource", "resources/read", `{"uri":"files+file:///a"}`, `{"uri":"file:///a"}`,
			`{"contents":[{"uri":"file:///a","text":"A"}]}`, `{"contents":[{"uri":"files+file:///a","text":"A"}]}`,
		},
		{
			"a resource of a template", "resources/read", `{"uri":"files+file:///b"}`, `{"uri":"file:///b"}`,
			`{"contents":[]}`, `{"contents":[]}`,
		},
		{
			"completion of a prompt", "completion/complete", `{"ref":{"type":"ref/prompt","name":"files__explain"},"argument":{"name":"q","value":"a"}}`,
			`{"ref":{"type":"ref/prompt","name":"explain"},"argument":{"name":"q","value":"a"}}`,
			`{"completion":{"values":["ab"]}}`, `{"completion":{"values":["ab"]}}`,
		},
		{
			"completion of a template", "completion/complete", `{"ref":{"type":"ref/resource","uri":"files+file:///{path}"},"argument":{"name":"path","value":"a"}}`,
			`{"ref":{"type":"ref/resource","uri":"file:///{path}"},"argument":{"name":"path","value":"a"}}`,
			`{"completion":{"values":["ab"]}}`, `{"completion":{"values":["ab"]}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestRouter(t, answers(tt.answer), filesSource(t))
			res, err := h.Handle(t.Context(), newCall(tt.method, tt.params, &recorder{}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.sent, string(h.files.got.Params)); diff != "" {
				t.Errorf("params that the upstream got (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, string(res.Raw)); diff != "" {
				t.Errorf("result that the client got (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArgumentsAreObjects(t *testing.T) {
	for _, method := range []string{"tools/call", "prompts/get"} {
		for arguments, refused := range map[string]bool{`[1]`: true, `"x"`: true, `7`: true, `true`: true, `null`: false, `{}`: false} {
			h := newTestRouter(t, answers(`{"content":[],"messages":[]}`), filesSource(t))
			name := map[string]string{"tools/call": "files__read", "prompts/get": "files__explain"}[method]
			_, err := h.Handle(t.Context(), newCall(method, `{"name":"`+name+`","arguments":`+arguments+`}`, &recorder{}))
			if got := fmt.Sprint(err); refused != strings.HasPrefix(got, method+": params.arguments must be an object") || refused == (h.files.got != nil) {
				t.Errorf("%s with %s: %s; sent %v", method, arguments, got, h.files.got)
			}
		}
	}
}

func TestBackChannelIsRewritten(t *testing.T) {
	up := &fakeUpstream{answer: func(ctx context.Context, c *call.Call) (call.Result, error) {
		c.Back.Notify(wire.NoteResourceUpdated, wire.Raw(`{"uri":"file:///a"}`))
		answer, err := c.Back.Ask(ctx, wire.MethodSample, wire.Raw(`{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"file:///a","text":""}}}]}`))
		return call.Result{Raw: answer}, err
	}}
	client := &recorder{}
	c := newCall("tools/call", `{"name":"files__read"}`, client)
	c.Client = &call.Client{Key: "c", Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"sampling":{}}`)}
	if _, err := newTestRouter(t, up, filesSource(t)).Handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if want := []string{`notifications/resources/updated {"uri":"files+file:///a"}`}; !cmp.Equal(want, client.notes) {
		t.Errorf("notifications: %s", cmp.Diff(want, client.notes))
	}
	if len(client.asks) != 1 || !strings.Contains(client.asks[0], `"uri":"files+file:///a"`) {
		t.Errorf("questions: %q, want one with the public URI", client.asks)
	}
}

func TestAbsentItems(t *testing.T) {
	modern := &call.Client{Key: "c", Revision: wire.Rev20260728}
	tests := []struct {
		name, method, params string
		client               *call.Client
		code                 int64
		message              string
	}{
		{"unknown tool", "tools/call", `{"name":"nobody__knows"}`, nil, -32602, `unknown tool: "nobody__knows"`},
		{"near name", "tools/call", `{"name":"files__raed"}`, nil, -32602, `unknown tool: "files__raed"; did you mean files__read?`},
		{"native name", "tools/call", `{"name":"read"}`, nil, -32602, `unknown tool: "read"`},
		{"refused tool", "tools/call", `{"name":"files__remove"}`, nil, -32602, `unknown tool: "files__remove"`},
		{"unknown prompt", "prompts/get", `{"name":"zzzzzzzz"}`, nil, -32602, `unknown prompt: "zzzzzzzz"`},
		{"unknown resource, legacy", "resources/read", `{"uri":"zz://zzzzzzzz"}`, nil, -32002, `resource not found: "zz://zzzzzzzz"`},
		{"unknown resource, modern", "resources/read", `{"uri":"zz://zzzzzzzz"}`, modern, -32602, `resource not found: "zz://zzzzzzzz"`},
		{"no name", "tools/call", `{}`, nil, -32602, ""},
		{"unknown method", "tools/frobnicate", `{}`, nil, -32601, `method not found: "tools/frobnicate"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestRouter(t, answers(`{}`), filesSource(t))
			close(h.started)
			c := newCall(tt.method, tt.params, &recorder{})
			if tt.client != nil {
				c.Client = tt.client
			}
			_, err := h.Handle(t.Context(), c)
			var rpc *wire.Error
			if !errors.As(err, &rpc) || rpc.Code != tt.code || !strings.HasPrefix(rpc.Message, tt.message) {
				t.Errorf("error is %v, want %d %q", err, tt.code, tt.message)
			}
			if h.files.got != nil {
				t.Errorf("the upstream was asked: %s", h.files.got.Params)
			}
		})
	}
}

func TestRefusedAndAbsentLookTheSame(t *testing.T) {
	h := newTestRouter(t, answers(`{}`), filesSource(t))
	close(h.started)
	_, refused := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__remove"}`, &recorder{}))
	_, absent := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__rEmove"}`, &recorder{}))
	whole := func(err error) string { rpc := wantFault(t, err, -32602); return string(rpc.Append(nil)) + rpc.Extra }
	if a, b := whole(refused), strings.Replace(whole(absent), "rEmove", "remove", 1); a != b {
		t.Errorf("refused: %s\nabsent:  %s", a, b)
	}
}

func TestListWaitsForUpstreamsThatStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestRouter(t, answers(`{}`), source(t, "files", &catalog.Down{Reason: "starting", Starting: true}))
		got := make(chan string, 1)
		go func() {
			res, err := h.Handle(t.Context(), newCall("tools/list", `{}`, &recorder{}))
			if err != nil {
				got <- err.Error()
				return
			}
			got <- string(res.Raw)
		}()
		synctest.Wait()
		select {
		case early := <-got:
			t.Fatalf("answered before the upstream had started: %s", early)
		default:
		}
		h.Swap(h.routes([]catalog.Source{filesSource(t)}))
		close(h.started)
		if list := <-got; !strings.Contains(list, `"files__read"`) {
			t.Errorf("list is %s, want files__read in it", list)
		}
	})
}

// A list does not wait for an upstream that is hidden from the caller, and the router records
// the routes of the lists that it answered before all upstreams had started.
func TestListWaitsForNothingHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starting := source(t, "other", &catalog.Down{Reason: "starting", Starting: true})
		h := newTestRouter(t, answers(`{}`), filesSource(t))
		p := policy.MustNew(policy.Options{Rules: []policy.Rule{
			{Name: "files", Effect: policy.Allow, What: policy.What{Upstreams: []string{"files"}}},
			{Name: "other", Effect: policy.Allow, Who: policy.Who{Subjects: []string{"bob"}}},
		}})
		swap := func(sources ...catalog.Source) *Routes {
			next := &Routes{Table: catalog.Build(catalog.Options{Policy: p}, sources), Upstreams: map[string]Upstream{"files": h.files}}
			h.Swap(next)
			return next
		}
		swap(source(t, "files", starting.Down), starting)
		ann, bob := &call.Principal{Subject: "ann"}, &call.Principal{Subject: "bob"}
		ask := func(who *call.Principal, method, params string) <-chan string {
			got := make(chan string, 1)
			go func() {
				c := newCall(method, params, &recorder{})
				c.Principal = who
				res, err := h.Handle(t.Context(), c)
				if err != nil {
					got <- err.Error()
					return
				}
				got <- string(res.Raw)
			}()
			synctest.Wait()
			return got
		}
		shown := func(what string, to *Routes) {
			t.Helper()
			want := map[string]*Routes{}
			if to != nil {
				want[ann.Key()] = to
			}
			if got := h.ShownEarly(); !maps.Equal(got, want) {
				t.Errorf("%s: shown early are %v, want %v", what, got, want)
			}
		}
		first, children := ask(ann, "tools/list", `{}`), ask(ann, "resources/list", `{"uri":"files+file:///"}`)
		waits := ask(bob, "tools/list", `{}`)
		if len(first)+len(children)+len(waits) != 0 {
			t.Fatal("answered while a visible upstream is starting")
		}
		shown("while all wait", nil)
		one := swap(filesSource(t), starting)
		synctest.Wait()
		if len(first) == 0 || len(children) == 0 {
			close(h.started)
			t.Fatal("ann waits for an upstream that she may not see")
		}
		if list := <-first; !strings.Contains(list, `"files__read"`) || strings.Contains(list, "other") {
			t.Errorf("ann gets %s", list)
		}
		if list := <-children; list != `{}` {
			t.Errorf("ann gets %s for a collection, not the answer of files", list)
		}
		if len(waits) != 0 {
			t.Errorf("bob gets %s", <-waits)
		}
		shown("as the list came", one)
		two := swap(filesSource(t), starting)
		<-ask(ann, "tools/list", `{}`)
		shown("the second routes were announced, the third were not", one)
		swap(filesSource(t), starting)
		<-ask(ann, "tools/list", `{}`)
		shown("the third routes were announced", two)
		close(h.started)
		if list := <-waits; !strings.Contains(list, `"mcpgateway/unavailable":[{"upstream":"other"`) {
			t.Errorf("bob gets %s", list)
		}
		h.ShownEarly()
		<-ask(ann, "tools/list", `{}`)
		shown("after the start", nil)
	})
}

// A call waits for the upstream that may have its name, but not for another upstream that
// hangs in its first attempt.
func TestCallWaitsForTheUpstreamThatMayHaveTheName(t *testing.T) {
	starting := &catalog.Down{Reason: "starting", Starting: true}
	failed := &catalog.Down{Reason: "cannot start"}
	remembered := filesSource(t) // of an earlier run, in which the upstream had another tool
	remembered.Down, remembered.Items[call.Tool] = starting, []wire.Raw{wire.Raw(`{"name":"write","inputSchema":{"type":"object"}}`)}
	const refused = `upstream files is unavailable: `
	for _, test := range []struct {
		name  string
		swaps [][]catalog.Source // one after the other, while the call waits
		late  bool               // the startup wait is over
		want  string             // in the error
	}{
		{"the upstream starts", [][]catalog.Source{{source(t, "other", starting), filesSource(t)}}, false, ""},
		{"the upstream offered something else in an earlier run", [][]catalog.Source{{source(t, "other", nil), remembered}, {source(t, "other", nil), filesSource(t)}}, false, ""},
		{"another upstream starts first", [][]catalog.Source{{source(t, "other", nil), source(t, "files", starting)}, {source(t, "other", nil), filesSource(t)}}, false, ""},
		{"the upstream fails", [][]catalog.Source{{source(t, "other", starting), source(t, "files", failed)}}, false, refused + "cannot start"},
		{"another upstream fails, and the startup wait is over", [][]catalog.Source{{source(t, "other", failed), source(t, "files", starting)}}, true, refused + "starting"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTestRouter(t, answers(`{"content":[]}`), source(t, "other", starting), source(t, "files", starting))
				got, retried := make(chan error, 1), make(chan error, 1)
				c := newCall("tools/call", `{"name":"files__read"}`, &recorder{})
				go func() {
					_, err := h.Handle(t.Context(), c)
					got <- err
				}()
				go func() { retried <- h.PermitRetry(t.Context(), c) }()
				for _, sources := range test.swaps {
					synctest.Wait()
					if len(got)+len(retried) > 0 {
						close(h.started)
						t.Fatalf("answered before the upstream was ready: %v, %v", <-got, <-retried)
					}
					h.Swap(h.routes(sources))
				}
				if test.late {
					synctest.Wait()
					close(h.started)
				}
				synctest.Wait()
				if len(got) == 0 || len(retried) == 0 {
					close(h.started)
					t.Fatalf("the call still waits; after all upstreams have started the answers are %v, %v", <-got, <-retried)
				}
				for _, err := range []error{<-got, <-retried} { // a retry waits in the same way
					if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
						t.Errorf("error %v, want %q", err, test.want)
					}
				}
			})
		})
	}
}

func TestWaitingEndsWithTheCall(t *testing.T) {
	h := newTestRouter(t, answers(`{}`), source(t, "files", &catalog.Down{Reason: "starting", Starting: true}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Handle(ctx, newCall("tools/list", `{}`, &recorder{})); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
}

func TestDownUpstreamIsNamed(t *testing.T) {
	since := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	h := newTestRouter(t, answers(`{}`), source(t, "files", &catalog.Down{Since: since, Reason: "connection refused"}))
	close(h.started)
	_, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
	var rpc *wire.Error
	if !errors.As(err, &rpc) {
		t.Fatalf("error is %v", err)
	}
	want := `{"code":-32603,"message":"the upstream files is unavailable: connection refused","data":{"upstream":"files","since":"2026-11-21T10:00:00Z","reason":"connection refused","retryable":true}}`
	if diff := cmp.Diff(want, string(rpc.Append(nil))); diff != "" {
		t.Error(diff)
	}
}

func TestCallKeepsItsTable(t *testing.T) {
	var h *testRouter
	up := &fakeUpstream{answer: func(context.Context, *call.Call) (call.Result, error) {
		h.Swap(h.routes(nil)) // the upstream disappears during the call
		return call.Result{Raw: wire.Raw(`{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`)}, nil
	}}
	h = newTestRouter(t, up, filesSource(t))
	res, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
	if err != nil || !strings.Contains(string(res.Raw), "files+file:///a") {
		t.Errorf("got %s, %v; want the names of the table with which the call began", res.Raw, err)
	}
}

func TestDescribe(t *testing.T) {
	h := newTestRouter(t, answers(`{}`), filesSource(t)) // without the end of startup: nothing is awaited of an upstream that is up
	res, err := h.Handle(t.Context(), newCall("server/discover", `{}`, &recorder{}))
	if err != nil {
		t.Fatal(err)
	}
	root := wire.ValueOf(res.Raw)
	for _, kind := range []string{"tools", "prompts", "resources", "completions", "logging"} {
		if root.Get("capabilities", kind).Kind() != '{' {
			t.Errorf("no capability %s in %s", kind, res.Raw)
		}
	}
	if text := root.Get("instructions").Str(); !strings.Contains(text, "Reads files.") {
		t.Errorf("instructions are %q", text)
	}
}

// The front end asks for a description when a legacy client sends initialize.
func TestDescriptionsAreLoggedAsTheClientAskedForThem(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	h := newTestRouter(t, answers(`{}`), filesSource(t))
	h.logTo(zap.New(core))
	for revision, want := range map[wire.Revision]string{wire.Rev20251125: "initialize", wire.Rev20260728: "server/discover"} {
		c := newCall("server/discover", `{}`, &recorder{})
		c.Client = &call.Client{Key: "c", Revision: revision}
		if _, err := h.Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if lines := logs.TakeAll(); len(lines) != 1 || lines[0].ContextMap()["method"] != want {
			t.Errorf("%s: %v, want the method %s", revision, lines, want)
		}
		if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues(want, "", "ok")); n != 1 {
			t.Errorf("%s is counted %v times", want, n)
		}
	}
}

func TestCompletionWhereTheUpstreamHasNone(t *testing.T) {
	src := filesSource(t)
	src.Capabilities = wire.Raw(`{"prompts":{}}`)
	h := newTestRouter(t, answers(`{}`), src)
	res, err := h.Handle(t.Context(), newCall("completion/complete", `{"ref":{"type":"ref/prompt","name":"files__explain"},"argument":{"name":"q","value":""}}`, &recorder{}))
	if err != nil || string(res.Raw) != `{"completion":{"values":[]}}` {
		t.Errorf("got %s, %v; want an empty completion", res.Raw, err)
	}
}

func TestEveryCallIsCountedAndLogged(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	h := newTestRouter(t, answers(`{"content":[]}`), filesSource(t))
	h.logTo(zap.New(core))
	close(h.started)
	secret := `{"name":"files__read","arguments":{"password":"hunter2"}}`
	if _, err := h.Handle(t.Context(), newCall("tools/call", secret, &recorder{})); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Handle(t.Context(), newCall("made/up", secret, &recorder{})); err == nil {
		t.Fatal("an unknown method was answered")
	}
	entries := logs.All()
	if len(entries) != 2 {
		t.Fatalf("%d log lines, want one for each call", len(entries))
	}
	got := entries[0].ContextMap()
	if took, ok := got["duration_ms"].(float64); !ok || took < 0 {
		t.Errorf("duration_ms is %v", got["duration_ms"])
	}
	delete(got, "duration_ms")
	want := map[string]any{"request": "r1", "principal": "anonymous", "upstream": "files", "method": "tools/call", "item": "files__read", "rule": "default", "outcome": "ok"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if method := entries[1].ContextMap()["method"]; method != "other" {
		t.Errorf("an unknown method is logged as %q", method)
	}
	for _, e := range entries {
		for k, v := range e.ContextMap() {
			if s, ok := v.(string); ok && strings.Contains(s, "hunter2") {
				t.Errorf("an argument is logged: %s", k)
			}
		}
	}
	if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues("tools/call", "files", "ok")); n != 1 {
		t.Errorf("requests_total is %v, want 1", n)
	}
	if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues("other", "", "error")); n != 1 {
		t.Errorf("requests_total of an unknown method is %v, want 1", n)
	}
}

// The log distinguishes failed tools from others, unlike the metrics, and has the decisions
// about absent names. It does not mention unlisted URIs.
func TestLogOfACall(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	h := newTestRouter(t, answers(`{"content":[],"isError":true}`), filesSource(t))
	h.logTo(zap.New(core))
	close(h.started)
	for _, tt := range []struct{ method, params, item, rule, outcome string }{
		{"tools/call", `{"name":"files__read"}`, "files__read", "default", "tool_error"},
		{"tools/call", `{"name":"files__gone"}`, "files__gone", "unknown", "refused"},
		{"resources/read", `{"uri":"files+x:?token=geheim"}`, "", "default", "ok"},
		{"resources/read", `{"uri":"nobody+x:?token=geheim"}`, "", "unknown", "refused"},
		{"tools/list", `{}`, "", "", "ok"},
	} {
		_, _ = h.Handle(t.Context(), newCall(tt.method, tt.params, &recorder{})) // the log has the outcome
		lines := logs.FilterMessage("call").All()
		logs.TakeAll()
		if len(lines) != 1 {
			t.Fatalf("%s %s: %d lines", tt.method, tt.params, len(lines))
		}
		said := lines[0].ContextMap()
		text := func(key string) string { s, _ := said[key].(string); return s }
		if text("item") != tt.item || text("rule") != tt.rule || text("outcome") != tt.outcome || strings.Contains(fmt.Sprint(said), "geheim") {
			t.Errorf("%s %s: %v", tt.method, tt.params, said)
		}
	}
	if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues("tools/call", "files", "ok")); n != 1 {
		t.Errorf("requests_total of a failed tool is %v, want 1 with outcome ok", n)
	}
}

func TestHeaderParams(t *testing.T) {
	src := filesSource(t)
	for i, name := range []string{"copy", "remove"} { // policy denies one of them
		tool := `{"name":"` + name + `","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`
		src.Items[call.Tool] = append(src.Items[call.Tool][:1+i], wire.Raw(tool))
	}
	h := newTestRouter(t, answers(`{}`), src)
	for name, want := range map[string]string{"files__read": "[]", "files__copy": "[{Mcp-Param-Region [region]}]", "files__remove": "[]", "copy": "[]", "": "[]"} {
		if got := fmt.Sprint(h.HeaderParams(call.Anonymous, nil, name)); got != want {
			t.Errorf("%q mirrors %s, want %s", name, got, want)
		}
	}
}

// benchRouter returns a router with a tool that answers with 1 KiB of text.
func benchRouter(t testing.TB) (*testRouter, *call.Call) {
	t.Helper()
	h := &testRouter{files: answers(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1024) + `"}]}`), started: make(chan struct{})}
	space, err := namespace.New("files", "files", "__")
	if err != nil {
		t.Fatal(err)
	}
	src := catalog.Source{Naming: space}
	src.Items[call.Tool] = []wire.Raw{wire.Raw(`{"name":"read","inputSchema":{"type":"object"}}`)}
	h.Router = New(Options{Started: h.started, Logger: zap.NewNop(), Metrics: NewMetrics()}, h.routes([]catalog.Source{src}))
	return h, newCall("tools/call", `{"name":"files__read","arguments":{"path":"/a"}}`, &recorder{})
}

func TestForwardAllocations(t *testing.T) {
	h, c := benchRouter(t)
	routes := *h.Routes()
	routes.Profiles = map[string]*catalog.Table{"coding": profileOf(t, routes.Table, profile.Options{Name: "coding", Upstreams: []string{"files"}})}
	h.Swap(&routes)
	const bound = 8
	for _, name := range []string{"", "coding"} {
		in := *c
		in.Principal = c.Principal.In(name)
		got := testing.AllocsPerRun(100, func() {
			if _, err := h.Handle(context.Background(), &in); err != nil {
				t.Fatal(err)
			}
		})
		if got > bound {
			t.Errorf("in profile %q a call allocates %v times in the router, want at most %d", name, got, bound)
		}
	}
}

// profileOf returns the table of a profile.
func profileOf(t testing.TB, everything *catalog.Table, o profile.Options) *catalog.Table {
	t.Helper()
	for _, p := range everything.Parts() {
		o.Configured = append(o.Configured, profile.Upstream{Name: p.Upstream()})
	}
	p, err := profile.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return everything.ForProfile(p)
}

func BenchmarkForward(b *testing.B) {
	h, c := benchRouter(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Handle(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
