package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

const allCaps = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// modern returns an upstream of 2026-07-28 that answers with the result of f.
func modern(f func(c *call.Call) string) *fakeUpstream {
	return &fakeUpstream{answer: func(_ context.Context, c *call.Call) (call.Result, error) {
		return call.Result{Raw: wire.Raw(f(c)), Revision: wire.Rev20260728}, nil
	}}
}

func callOf(revision wire.Revision, caps, params string, back call.BackChannel) *call.Call {
	c := newCall("tools/call", params, back)
	c.Client = &call.Client{Key: "session", Revision: revision, Capabilities: wire.Raw(caps)}
	c.TakesRounds = revision.Era() == wire.EraModern
	return c
}

// wantFault checks that err is a JSON-RPC error and returns it.
func wantFault(t *testing.T, err error, code int64) *wire.Error {
	t.Helper()
	var rpc *wire.Error
	if !errors.As(err, &rpc) || rpc.Code != code {
		t.Fatalf("error is %v, want %d", err, code)
	}
	return rpc
}

const firstRound = `{"resultType":"input_required","x":1e2,"inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?"}},` +
	`"say":{"method":"sampling/createMessage","params":{"includeContext":"allServers","messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"file:///a","text":""}}}]}},` +
	`"where":{"method":"roots/list"}},"requestState":"the upstream's"}`

func TestModernToModern(t *testing.T) {
	up := modern(func(c *call.Call) string {
		if wire.ValueOf(c.Params).Get("requestState").Exists() {
			return `{"content":[]}`
		}
		return firstRound
	})
	h := newTestRouter(t, up, filesSource(t))
	res, err := h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, `{"name":"files__read","arguments":{"n":1}}`, &recorder{}))
	if err != nil {
		t.Fatal(err)
	}
	state := wire.ValueOf(res.Raw).Get("requestState").Str()
	want := `{"resultType":"input_required","x":1e2,"inputRequests":{"who":{"method":"elicitation/create","params":{"message":"files: Who?"}},` +
		`"say":{"method":"sampling/createMessage","params":{"includeContext":"none","messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"files+file:///a","text":""}}}]}},` +
		`"where":{"method":"roots/list"}},"requestState":"STATE"}`
	if diff := cmp.Diff(want, strings.Replace(string(res.Raw), state, "STATE", 1)); diff != "" || state == "" {
		t.Error(diff)
	}
	responses := `"inputResponses":{"who":{"action":"decline"}},`
	res, err = h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, `{"name":"files__read",`+responses+`"requestState":"`+state+`","arguments":{"n":1.0}}`, &recorder{}))
	if err != nil || string(res.Raw) != `{"content":[]}` {
		t.Fatalf("got %s, %v", res.Raw, err)
	}
	if diff := cmp.Diff(`{"name":"read",`+responses+`"requestState":"the upstream's","arguments":{"n":1.0}}`, string(up.got.Params)); diff != "" {
		t.Error(diff)
	}
	if n := testutil.ToFloat64(h.metrics.asks.WithLabelValues("elicitation", "relayed")); n != 1 {
		t.Errorf("asks_total of relayed elicitations is %v, want 1", n)
	}
}

func TestRelayWithoutLabelOrState(t *testing.T) {
	up := modern(func(*call.Call) string {
		return `{"resultType":"input\u005frequired","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?"}}}}`
	})
	h := newTestRouter(t, up, filesSource(t))
	h.Routes().Bridge.Unlabeled = true
	res, err := h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, `{"name":"files__read"}`, &recorder{}))
	if want := `{"resultType":"input\u005frequired","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?"}}}}`; err != nil || string(res.Raw) != want {
		t.Errorf("got %s, %v; want the question unchanged", res.Raw, err)
	}
}

func TestUnanswerableQuestionsAreRefused(t *testing.T) {
	h := newTestRouter(t, modern(func(*call.Call) string { return firstRound }), filesSource(t))
	_, err := h.Handle(t.Context(), callOf(wire.Rev20260728, `{"elicitation":{}}`, `{"name":"files__read"}`, &recorder{}))
	if rpc := wantFault(t, err, -32021); string(rpc.Data) != `{"requiredCapabilities":{"sampling":{}}}` {
		t.Errorf("data is %s", rpc.Data)
	}
}

func TestLegacyToModern(t *testing.T) {
	up := modern(func(c *call.Call) string {
		if wire.ValueOf(c.Params).Get("requestState").IsString("the upstream's") {
			return `{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`
		}
		return firstRound
	})
	h := newTestRouter(t, up, filesSource(t))
	client := &answering{}
	res, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, `{"name":"files__read"}`, client))
	if err != nil || string(res.Raw) != `{"content":[{"type":"resource_link","uri":"files+file:///a","name":"a"}]}` {
		t.Fatalf("got %s, %v", res.Raw, err)
	}
	if got := string(wire.ValueOf(up.got.Params).Get("inputResponses").Raw()); got != `{"who":{"action":"accept"},"say":{"action":"accept"},"where":{"action":"accept"}}` {
		t.Errorf("the upstream got %s", got)
	}
	if n := testutil.ToFloat64(h.metrics.bridged.WithLabelValues("legacy", "modern")); n != 1 {
		t.Errorf("bridged_calls_total is %v, want 1", n)
	}
}

// answering accepts everything, from several goroutines.
type answering struct{ recorder }

func (*answering) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	return wire.Raw(`{"action":"accept"}`), nil
}

// silent never answers.
type silent struct{ recorder }

func (*silent) Ask(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// asking is a legacy upstream that asks one question and answers with the answer.
func asking(method, params string) *fakeUpstream {
	return &fakeUpstream{answer: func(ctx context.Context, c *call.Call) (call.Result, error) {
		answer, err := c.Back.Ask(ctx, method, wire.Raw(params))
		if err != nil {
			answer = wire.String(err.Error())
		}
		return call.Result{Raw: wire.SetMember(wire.Raw(`{"content":[]}`), "r", answer), Revision: wire.Rev20251125}, nil
	}}
}

func TestAsks(t *testing.T) {
	url := `{"mode":"url","message":"Go","url":"https://x","elicitationId":"1"}`
	for _, tc := range []struct {
		name            string
		revision        wire.Revision
		caps            string
		method, params  string
		back            call.BackChannel
		shown           string // the question that the client sees, or ""
		answer, outcome string
	}{
		{"a form", wire.Rev20251125, allCaps, wire.MethodElicit, `{"message":"Who?"}`, &recorder{}, `{"message":"files: Who?"}`, `{"action":"accept"}`, "answered"},
		{"a form for an older client", wire.Rev20250618, `{"elicitation":{}}`, wire.MethodElicit, `{"mode":"form","message":"Who?"}`, &recorder{}, `{"message":"files: Who?"}`, `{"action":"accept"}`, "answered"},
		{"a form in a revision without elicitation", wire.Rev20250326, `{"elicitation":{}}`, wire.MethodElicit, `{"message":"Who?"}`, &recorder{}, ``, `{"action":"cancel"}`, "undeclared"},
		{"a form of a newer revision", wire.Rev20250618, `{"elicitation":{}}`, wire.MethodElicit, `{"requestedSchema":{"properties":{"a":{"type":"array"}}}}`, &recorder{}, ``, `{"action":"cancel"}`, "undeclared"},
		{"a URL for a modern client", wire.Rev20260728, allCaps, wire.MethodElicit, url, &recorder{}, `{"mode":"url","message":"files: Go","url":"https://x"}`, `{"action":"accept"}`, "answered"},
		{"a URL in a revision without URLs", wire.Rev20250618, `{"elicitation":{}}`, wire.MethodElicit, url, &recorder{}, ``, `"the client did not declare this mode of elicitation (-32602)"`, "undeclared"},
		{"an undeclared form", wire.Rev20251125, `{}`, wire.MethodElicit, `{"message":"Who?"}`, &recorder{}, ``, `{"action":"cancel"}`, "undeclared"},
		{"undeclared sampling", wire.Rev20251125, `{}`, wire.MethodSample, `{"messages":[]}`, &recorder{}, ``, `"the client did not declare that it answers sampling/createMessage (-32601)"`, "undeclared"},
		{"sampling with undeclared tools", wire.Rev20251125, `{"sampling":{}}`, wire.MethodSample, `{"tools":[]}`, &recorder{}, ``, `"the client did not declare that it answers such a sampling request (-32602)"`, "undeclared"},
		{"an unanswered form", wire.Rev20251125, allCaps, wire.MethodElicit, `{"message":"Who?"}`, &silent{}, ``, `{"action":"cancel"}`, "lapsed"},
		{"a form whose parked call has expired", wire.Rev20260728, allCaps, wire.MethodElicit, `{"message":"Who?"}`, &answerer{err: call.ErrLapsed}, ``, `{"action":"cancel"}`, "lapsed"},
		{"sampling whose parked call has expired", wire.Rev20260728, allCaps, wire.MethodSample, `{"messages":[]}`, &answerer{err: call.ErrLapsed}, ``, `"the client cannot be reached (-1)"`, "lapsed"},
		{"unanswered sampling", wire.Rev20251125, allCaps, wire.MethodSample, `{"messages":[]}`, &silent{}, ``, `"the client cannot be reached (-1)"`, "lapsed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &fakeAuditor{}
				h := auditedRouter(t, asking(tc.method, tc.params), filesSource(t), &Audit{To: b}, policy.Rule{Name: "all", Effect: policy.Allow})
				core, logs := observer.New(zap.InfoLevel)
				h.logTo(zap.New(core))
				res, err := h.Handle(t.Context(), callOf(tc.revision, tc.caps, `{"name":"files__read"}`, tc.back))
				if err != nil {
					t.Fatal(err)
				}
				if got := string(wire.ValueOf(res.Raw).Get("r").Raw()); got != tc.answer {
					t.Errorf("the upstream got %s, want %s", got, tc.answer)
				}
				if r, ok := tc.back.(*recorder); ok {
					if got := strings.Join(r.asks, ""); got != strings.Repeat(tc.method+" "+tc.shown, min(1, len(tc.shown))) {
						t.Errorf("the client saw %s, want %s", got, tc.shown)
					}
				}
				kind := map[string]string{wire.MethodElicit: "elicitation", wire.MethodSample: "sampling"}[tc.method]
				if n := testutil.ToFloat64(h.metrics.asks.WithLabelValues(kind, tc.outcome)); n != 1 {
					t.Errorf("asks_total of %s, %s is %v, want 1", kind, tc.outcome, n)
				}
				var want []any // what was not answered, in the log and the audit
				if tc.outcome != "answered" {
					want = []any{kind + " " + tc.outcome}
				}
				if got, _ := logs.FilterMessage("call").All()[0].ContextMap()["asks"].([]any); !cmp.Equal(got, want) {
					t.Errorf("the line of the call has the asks %v, want %v", got, want)
				}
				var end struct{ Asks []any }
				if err := json.Unmarshal([]byte(b.lines[len(b.lines)-1]), &end); err != nil || !cmp.Equal(end.Asks, want) {
					t.Errorf("the end in the audit has the asks %v, %v; want %v", end.Asks, err, want)
				}
			})
		})
	}
}

// A question that is asked over and over makes no long line.
func TestAsksOfACallAreBounded(t *testing.T) {
	h := newTestRouter(t, &fakeUpstream{answer: func(ctx context.Context, c *call.Call) (call.Result, error) {
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { _, _ = c.Back.Ask(ctx, []string{wire.MethodElicit, wire.MethodSample}[i%2], wire.Raw(`{}`)) })
		}
		wg.Wait()
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}}, filesSource(t))
	_, log, err := h.handleRecorded(t.Context(), callOf(wire.Rev20251125, `{}`, `{"name":"files__read"}`, &answering{}))
	slices.Sort(log.asks)
	if want := []string{"elicitation undeclared", "sampling undeclared"}; err != nil || !slices.Equal(log.asks, want) {
		t.Errorf("asks %v, %v; want %v", log.asks, err, want)
	}
}

func TestElicitationIDsPerClient(t *testing.T) {
	h := newTestRouter(t, asking(wire.MethodElicit, `{"mode":"url","message":"Go","url":"https://x","elicitationId":"1"}`), filesSource(t))
	client := &recorder{}
	if _, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, `{"name":"files__read"}`, client)); err != nil {
		t.Fatal(err)
	}
	_, params, _ := strings.Cut(client.asks[0], " ")
	own := wire.ValueOf(wire.Raw(params)).Get("elicitationId").Str()
	if own == "1" || own == "" {
		t.Fatalf("the client was asked with the elicitation id %q", own)
	}
	if _, _, ok := h.ElicitationCompleted("other", "", wire.Raw(`{"elicitationId":"1"}`)); ok {
		t.Error("another upstream completed the elicitation")
	}
	key, note, ok := h.ElicitationCompleted("files", "", wire.Raw(`{"elicitationId":"1","x":1}`))
	if !ok || key != "session" || string(note) != `{"elicitationId":"`+own+`","x":1}` {
		t.Errorf("completed for %q with %s, %v", key, note, ok)
	}
}

// urls is a legacy upstream that wants a URL to be opened before the second call.
func urls() *fakeUpstream {
	n := 0
	return &fakeUpstream{answer: func(context.Context, *call.Call) (call.Result, error) {
		if n++; n > 1 {
			return call.Result{Raw: wire.Raw(`{"content":[]}`), Revision: wire.Rev20251125}, nil
		}
		data := wire.Raw(`{"elicitations":[{"mode":"url","message":"Go","url":"https://x","elicitationId":"1"}]}`)
		raw := `{"code":-32042,"message":"open","data":` + string(data) + `,"y":1}`
		return call.Result{}, &wire.Error{Code: -32042, Message: "open", Data: data, Raw: wire.Raw(raw)}
	}}
}

func TestURLsRequired(t *testing.T) {
	params := `{"name":"files__read","arguments":{"n":1}}`
	t.Run("modern", func(t *testing.T) {
		h := newTestRouter(t, urls(), filesSource(t))
		res, err := h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, params, &recorder{}))
		if err != nil {
			t.Fatal(err)
		}
		state := wire.ValueOf(res.Raw).Get("requestState").Str()
		want := `{"resultType":"input_required","inputRequests":{"url-1":{"method":"elicitation/create","params":{"mode":"url","message":"files: Go","url":"https://x"}}},"requestState":"` + state + `"}`
		if diff := cmp.Diff(want, string(res.Raw)); diff != "" {
			t.Error(diff)
		}
		retry := strings.TrimSuffix(params, "}") + `,"inputResponses":{"url-1":{"action":"accept"}},"requestState":"` + state + `"}`
		if res, err = h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, retry, &recorder{})); err != nil || string(res.Raw) != `{"content":[]}` {
			t.Errorf("got %s, %v", res.Raw, err)
		}
		if got := string(h.files.got.Params); got != `{"name":"read","arguments":{"n":1}}` {
			t.Errorf("the upstream got %s, want the original call", got)
		}
	})
	t.Run("modern without URLs", func(t *testing.T) {
		h := newTestRouter(t, urls(), filesSource(t))
		_, err := h.Handle(t.Context(), callOf(wire.Rev20260728, `{"elicitation":{}}`, params, &recorder{}))
		if rpc := wantFault(t, err, -32021); string(rpc.Data) != `{"requiredCapabilities":{"elicitation":{"url":{}}}}` {
			t.Errorf("data is %s", rpc.Data)
		}
	})
	t.Run("modern, and nothing to open", func(t *testing.T) {
		up := &fakeUpstream{answer: func(context.Context, *call.Call) (call.Result, error) {
			return call.Result{}, wire.Errorf(-32042, "open").WithData(wire.Raw(`{"elicitations":[1]}`))
		}}
		_, err := newTestRouter(t, up, filesSource(t)).Handle(t.Context(), callOf(wire.Rev20260728, allCaps, params, &recorder{}))
		wantFault(t, err, -32603)
	})
	t.Run("legacy", func(t *testing.T) {
		h := newTestRouter(t, urls(), filesSource(t))
		_, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, params, &recorder{}))
		rpc := wantFault(t, err, -32042)
		key, note, ok := h.ElicitationCompleted("files", "", wire.Raw(`{"elicitationId":"1"}`))
		own := wire.ValueOf(note).Get("elicitationId").Str()
		want := fmt.Sprintf(`{"code":-32042,"message":"open","data":{"elicitations":[{"mode":"url","message":"files: Go","url":"https://x","elicitationId":"%s"}]},"y":1}`, own)
		if diff := cmp.Diff(want, string(rpc.Append(nil))); diff != "" || !ok || key != "session" || own == "1" {
			t.Errorf("%s %q %v", diff, key, ok)
		}
	})
	after := func() *fakeUpstream { // a round
		up := urls()
		required := up.answer
		up.answer = func(ctx context.Context, c *call.Call) (call.Result, error) {
			if wire.ValueOf(c.Params).Get("inputResponses").Exists() {
				return required(ctx, c)
			}
			return call.Result{Raw: wire.Raw(firstRound), Revision: wire.Rev20260728}, nil
		}
		return up
	}
	t.Run("legacy, after a round", func(t *testing.T) {
		h := newTestRouter(t, after(), filesSource(t))
		_, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, params, &answering{}))
		rpc := wantFault(t, err, -32042)
		_, note, ok := h.ElicitationCompleted("files", "", wire.Raw(`{"elicitationId":"1"}`))
		if own := wire.ValueOf(note).Get("elicitationId").Str(); !ok || !strings.Contains(string(rpc.Data), `"elicitationId":"`+own+`"`) {
			t.Errorf("got %s; completed as %s, %v", rpc.Data, note, ok)
		}
	})
	t.Run("modern, after a round inside of an own tool", func(t *testing.T) {
		h := routerWithOwn(t, after(), through, allowRead)
		_, err := h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, `{"name":"through","arguments":`+params+`}`, &answering{}))
		wantFault(t, err, -32603)
	})
}

// A call whose user has to open a page first counts as that, in metrics, log and audit.
func TestURLRequiredIsAnOutcome(t *testing.T) {
	const params = `{"name":"files__read","arguments":{"n":1}}`
	for _, revision := range []wire.Revision{wire.Rev20251125, wire.Rev20260728} {
		core, logs := observer.New(zapcore.InfoLevel)
		to := &fakeAuditor{}
		h := newTestRouter(t, urls(), filesSource(t))
		h.log, h.audit = zap.New(core), &Audit{To: to}
		_, err := h.Handle(t.Context(), callOf(revision, allCaps, params, &recorder{}))
		code := ""
		if revision == wire.Rev20251125 {
			wantFault(t, err, -32042)
			code = `,"code":-32042`
		} else if err != nil {
			t.Fatal(err)
		}
		if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues("tools/call", "files", "url_required")); n != 1 {
			t.Errorf("%s: requests_total of url_required is %v, want 1", revision, n)
		}
		lines := logs.FilterMessage("call").All()
		if len(lines) != 1 || lines[0].ContextMap()["outcome"] != "url_required" || lines[0].ContextMap()["reason"] != "the server answered with error -32042: open" {
			t.Errorf("%s: the log has %v", revision, lines)
		}
		audited := to.take(t)
		if end := audited[len(audited)-1]; !strings.Contains(end, `"outcome":"url_required"`+code+`,"reason":"the server answered`) {
			t.Errorf("%s: the audit has %s", revision, end)
		}
	}

	// An own tool may pass on the error of the tool that it calls.
	h, w := routerWithOwn(t, urls(), through, allowRead), &watcher{on: true}
	h.watcher = w
	_, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, `{"name":"through","arguments":`+params+`}`, &recorder{}))
	wantFault(t, err, -32042)
	if len(w.got) != 2 || w.got[0].Outcome != outcomeURLRequired || w.got[1].Outcome != outcomeURLRequired || !w.got[1].Own {
		t.Errorf("the watcher got %+v", w.got)
	}
}

// The decision on a retry of a parked call names the request that began the call.
func TestAuditOfARetry(t *testing.T) {
	b := &fakeAuditor{}
	h := auditedRouter(t, answers(`{"content":[]}`), filesSource(t), &Audit{To: b}, policy.Rule{Name: "all", Effect: policy.Allow})
	c := callOf(wire.Rev20260728, allCaps, `{"name":"files__read"}`, nil)
	c.ID, c.Trace = "second", &call.Trace{First: "first"}
	if fault := h.Permit(c); fault != nil {
		t.Fatal(fault)
	}
	var line struct {
		Event, Request string
		First          string `json:"first_request"`
	}
	if err := json.Unmarshal([]byte(b.lines[0]), &line); err != nil || line.Event != "resume" || line.Request != "second" || line.First != "first" {
		t.Errorf("the line is %s, %v", b.lines[0], err)
	}
}

func TestPermit(t *testing.T) {
	h := newTestRouter(t, answers(`{}`), filesSource(t))
	if fault := h.Permit(callOf(wire.Rev20260728, allCaps, `{"name":"files__read"}`, nil)); fault != nil {
		t.Error(fault)
	}
	for _, name := range []string{"files__remove", "read", "nobody__knows"} {
		if fault := h.Permit(callOf(wire.Rev20260728, allCaps, `{"name":"`+name+`"}`, nil)); fault == nil || fault.Code != -32602 {
			t.Errorf("%s: %v, want -32602", name, fault)
		}
	}
}
