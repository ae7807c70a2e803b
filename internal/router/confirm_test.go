package router

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// routerWithRules returns a router whose policy has these rules and denies by default.
func routerWithRules(t testing.TB, up *fakeUpstream, src catalog.Source, rules ...policy.Rule) *testRouter {
	t.Helper()
	h := &testRouter{files: up, started: make(chan struct{})}
	close(h.started)
	h.Router = New(Options{Started: h.started, Logger: zap.NewNop(), Metrics: NewMetrics()}, &Routes{
		Table:     catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Rules: rules})}, []catalog.Source{src}),
		Upstreams: map[string]Upstream{"files": up},
	})
	return h
}

var confirmAll = policy.Rule{Name: "ask", Effect: policy.Confirm}

// answerer answers every question in the same way.
type answerer struct {
	recorder
	answer string
	err    error
}

func (a *answerer) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	_, _ = a.recorder.Ask(ctx, method, params)
	return wire.Raw(a.answer), a.err
}

const asksFor = `{"name":"files__read","arguments":{"path":"/a","n":[1,true,null,{"b":"x\u202ey"}]}}`

func TestConfirmOfLegacyClients(t *testing.T) {
	const question = `elicitation/create {"mode":"form","message":"files: may the tool files__read be called?\n\nArguments: {\"path\": \"/a\", \"n\": [1, true, null, {\"b\": \"x\\u202ey\"}]}","requestedSchema":{"type":"object","properties":{}}}`
	older := strings.Replace(question, `"mode":"form",`, "", 1)
	for _, tt := range []struct {
		name     string
		revision wire.Revision
		caps     string
		back     call.BackChannel
		asked    string
		outcome  string
		text     string // of the refusal, or "" if the call reaches the upstream
	}{
		{"accepted", wire.Rev20251125, allCaps, &answerer{answer: `{"action":"accept","content":{"path":"/b"}}`}, question, "answered", ""},
		{"accepted in an older revision", wire.Rev20250618, `{"elicitation":{}}`, &answerer{answer: `{"action":"accept"}`}, older, "answered", ""},
		{"declined", wire.Rev20251125, allCaps, &answerer{answer: `{"action":"decline"}`}, question, "declined", "The tool files__read was not used: the user declined it."},
		{"dismissed", wire.Rev20251125, allCaps, &answerer{answer: `{"action":"cancel"}`}, question, "cancelled", "The tool files__read was not used: the user was asked to confirm it and did not answer."},
		{"nonsense", wire.Rev20251125, allCaps, &answerer{answer: `{"action":true}`}, question, "cancelled", "The tool files__read was not used: the user was asked to confirm it and did not answer."},
		{"an error", wire.Rev20251125, allCaps, &answerer{err: wire.Errorf(-1, "no")}, question, "error", "The tool files__read was not used: the user has to confirm it, and the client answered the question with an error."},
		{"no answer", wire.Rev20251125, allCaps, &silent{}, "", "lapsed", "The tool files__read was not used: the user was asked to confirm it and did not answer in time."},
		{"an expired call", wire.Rev20251125, allCaps, &answerer{err: call.ErrLapsed}, question, "lapsed", "The tool files__read was not used: the user was asked to confirm it and did not answer in time."},
		{"a client without elicitation", wire.Rev20251125, `{}`, &answerer{}, "", "undeclared", "The tool files__read was not used: the user has to confirm it, and this client cannot ask them: it does not support elicitation."},
		{"a client with URLs only", wire.Rev20251125, `{"elicitation":{"url":{}}}`, &answerer{}, "", "undeclared", "The tool files__read was not used: the user has to confirm it, and this client cannot ask them: it does not support elicitation."},
		{"before elicitation", wire.Rev20250326, allCaps, &answerer{}, "", "undeclared", "The tool files__read was not used: the user has to confirm it, and this client cannot ask them: it does not support elicitation."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), confirmAll)
				res, err := h.Handle(t.Context(), callOf(tt.revision, tt.caps, asksFor, tt.back))
				if err != nil {
					t.Fatal(err)
				}
				want := `{"content":[]}`
				if tt.text != "" {
					want = `{"content":[{"type":"text","text":` + string(wire.String(tt.text)) + `}],"isError":true}`
				}
				if diff := cmp.Diff(want, string(res.Raw)); diff != "" {
					t.Error(diff)
				}
				if called := h.files.got != nil; called != (tt.text == "") {
					t.Errorf("the upstream was called: %v", called)
				}
				if a, ok := tt.back.(*answerer); ok {
					if diff := cmp.Diff(tt.asked, strings.Join(a.asks, "\n")); diff != "" {
						t.Errorf("the question:\n%s", diff)
					}
				}
				if n := testutil.ToFloat64(h.metrics.asks.WithLabelValues("confirmation", tt.outcome)); n != 1 {
					t.Errorf("asks_total of %s is %v, want 1", tt.outcome, n)
				}
				if n := testutil.ToFloat64(h.metrics.decisions.WithLabelValues("confirm", "ask")); n != 1 {
					t.Errorf("policy_decisions_total is %v, want 1", n)
				}
			})
		})
	}
}

func TestConfirmEndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := routerWithRules(t, answers(`{}`), filesSource(t), confirmAll)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := h.Handle(ctx, callOf(wire.Rev20251125, allCaps, asksFor, &silent{}))
			got <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) || h.files.got != nil {
			t.Errorf("error is %v, the upstream got %v", err, h.files.got)
		}
	})
}

func TestConfirmOfPromptsAndResources(t *testing.T) {
	for method, tt := range map[string]struct{ params, want string }{
		"prompts/get":    {`{"name":"files__explain"}`, "The prompt files__explain was not used: the user declined it."},
		"resources/read": {`{"uri":"files+file:///a"}`, "The resource files+file:///a was not used: the user declined it."},
	} {
		h := routerWithRules(t, answers(`{}`), filesSource(t), confirmAll)
		c := callOf(wire.Rev20251125, allCaps, tt.params, &answerer{answer: `{"action":"decline"}`})
		c.Method = method
		_, err := h.Handle(t.Context(), c)
		if rpc := wantFault(t, err, -32602); rpc.Message != tt.want || h.files.got != nil {
			t.Errorf("%s: %s; the upstream got %v", method, rpc.Message, h.files.got)
		}
		if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues(method, "files", "unconfirmed")); n != 1 {
			t.Errorf("requests_total of unconfirmed %s is %v, want 1", method, n)
		}
	}
}

// A request that describes an item without using it needs no consent, and no user is asked.
func TestRequestsWithoutConfirmation(t *testing.T) {
	h := routerWithRules(t, answers(`{"completion":{"values":["secret"]}}`), filesSource(t), confirmAll)
	client := &recorder{}
	c := callOf(wire.Rev20251125, allCaps, `{"ref":{"type":"ref/prompt","name":"files__explain"},"argument":{"name":"q","value":""}}`, client)
	c.Method = wire.MethodComplete
	res, err := h.Handle(t.Context(), c)
	if err != nil || string(res.Raw) != `{"completion":{"values":[]}}` || h.files.got != nil || client.asks != nil {
		t.Errorf("completion: %s, %v; the upstream got %v, the client %v", res.Raw, err, h.files.got, client.asks)
	}
	if fault := h.Permit(callOf(wire.Rev20260728, allCaps, asksFor, nil)); fault != nil {
		t.Errorf("a confirmed parked call cannot continue: %v", fault)
	}
}

// retry returns the params of a retry.
func retry(params, state, responses string) string {
	return strings.TrimSuffix(params, "}") + `,"requestState":` + string(wire.String(state)) + `,"inputResponses":` + responses + `}`
}

const accept = `{"mcpgateway-confirm":{"action":"accept"}}`

// round makes a call of a modern client and returns the question, if any.
func (h *testRouter) round(t *testing.T, params string) (wire.Value, error) {
	t.Helper()
	h.files.got = nil
	res, err := h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, params, &recorder{}))
	return wire.ValueOf(res.Raw), err
}

// asks returns the state of a question for consent.
func (h *testRouter) asks(t *testing.T, params string) string {
	t.Helper()
	res, err := h.round(t, params)
	if err != nil {
		t.Fatal(err)
	}
	state := res.Get("requestState").Str()
	q := res.Get("inputRequests", consentKey)
	if !res.Get("resultType").IsString("input_required") || !q.Get("method").IsString("elicitation/create") || state == "" || h.files.got != nil ||
		!q.Get("params", "requestedSchema", "type").IsString("object") || !strings.Contains(q.Get("params", "message").Str(), "files__read") {
		t.Fatalf("got %s, want a question; the upstream got %v", res.Raw(), h.files.got)
	}
	return state
}

func TestConfirmOfModernClients(t *testing.T) {
	h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), confirmAll)
	state := h.asks(t, asksFor)
	res, err := h.round(t, retry(asksFor, state, accept))
	if err != nil || string(res.Raw()) != `{"content":[]}` {
		t.Fatalf("got %s, %v", res.Raw(), err)
	}
	if want := strings.Replace(asksFor, "files__read", "read", 1); string(h.files.got.Params) != want {
		t.Errorf("the upstream got %s, want %s", h.files.got.Params, want)
	}
	if _, err := h.round(t, retry(asksFor, state, accept)); wantFault(t, err, -32602) != errUsed || h.files.got != nil {
		t.Error("the consent was accepted twice")
	}
	h.asks(t, asksFor) // each call needs a new question

	state = h.asks(t, asksFor)
	res, err = h.round(t, retry(asksFor, state, `{"mcpgateway-confirm":{"action":"decline"}}`))
	if err != nil || !res.Get("isError").Bool() || h.files.got != nil {
		t.Errorf("declined: got %s, %v", res.Raw(), err)
	}
	if _, err := h.round(t, retry(asksFor, state, accept)); wantFault(t, err, -32602) != errUsed || h.files.got != nil {
		t.Error("a refusal became a consent")
	}

	state = h.asks(t, asksFor)
	h.asks(t, retry(asksFor, state, `{"other":{"action":"accept"}}`)) // without an answer the question is repeated
	if _, err := h.round(t, retry(asksFor, state, `{"mcpgateway-confirm":{"action":1}}`)); wantFault(t, err, -32602) == errUsed || h.files.got != nil {
		t.Error("an invalid answer was accepted")
	}
	if _, err := h.round(t, retry(asksFor, state, accept)); err != nil || h.files.got == nil {
		t.Errorf("the state has become invalid: %v", err)
	}
}

// A limit is checked before the user is asked, and counted afterwards. A refused call does not
// use up its consent.
func TestConsentWithinLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := confirmAll
		rule.Limit = &policy.Limit{Rate: 0.1, Burst: 1}
		h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), rule)
		first, second := h.asks(t, asksFor), h.asks(t, asksFor) // questions do not count for the limit
		if _, err := h.round(t, retry(asksFor, first, accept)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.round(t, retry(asksFor, second, accept)); wantFault(t, err, -32603) == nil || h.files.got != nil {
			t.Error("a call over the limit reached the upstream")
		}
		client := &answerer{answer: `{"action":"accept"}`}
		legacy := func() error {
			_, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, asksFor, client))
			return err
		}
		if err := legacy(); wantFault(t, err, -32603) == nil || client.asks != nil {
			t.Errorf("the user was asked about a call that the limit refuses: %q", client.asks)
		}
		time.Sleep(10 * time.Second)
		if _, err := h.round(t, retry(asksFor, second, accept)); err != nil || h.files.got == nil {
			t.Errorf("the consent has become invalid: %v", err)
		}
		time.Sleep(10 * time.Second)
		if err := legacy(); err != nil || len(client.asks) != 1 {
			t.Errorf("%v, the user was asked %d times", err, len(client.asks))
		}
	})
}

// Policy judges the notifications on the stream of a call, too.
func TestUpdatesOnTheStreamOfACall(t *testing.T) {
	up := &fakeUpstream{answer: func(_ context.Context, c *call.Call) (call.Result, error) {
		c.Back.Notify(wire.NoteResourceUpdated, wire.Raw(`{"uri":"file:///secret"}`))
		c.Back.Notify(wire.NoteResourceUpdated, wire.Raw(`{"uri":"file:///a"}`))
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}}
	h := routerWithRules(t, up, filesSource(t), policy.Rule{Name: "all", Effect: policy.Allow},
		policy.Rule{Name: "secret", Effect: policy.Deny, What: policy.What{Resources: []string{"files+file:///secret"}}})
	client := &recorder{}
	if _, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, client)); err != nil {
		t.Fatal(err)
	}
	if want := []string{`notifications/resources/updated {"uri":"files+file:///a"}`}; !cmp.Equal(client.notes, want) {
		t.Errorf("the client got the notifications %q, want %q", client.notes, want)
	}
}

// A call that a question cannot show in full is refused without asking.
func TestCallsTooLongToShowAreRefused(t *testing.T) {
	h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), confirmAll)
	client := &answerer{answer: `{"action":"accept"}`}
	longKey := strings.Repeat("k", 64<<10)
	res, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, `{"name":"files__read","arguments":{"`+longKey+`":1,"danger":true}}`, client))
	if err != nil || !strings.Contains(string(res.Raw), "than a question can show") || !wire.ValueOf(res.Raw).Get("isError").Bool() || h.files.got != nil || client.asks != nil {
		t.Errorf("%s, %v; the upstream got %v, the client %.100q", res.Raw, err, h.files.got, client.asks)
	}
	if n := testutil.ToFloat64(h.metrics.asks.WithLabelValues("confirmation", askUnshown)); n != 1 {
		t.Errorf("asks_total is %v, want 1", n)
	}
}
