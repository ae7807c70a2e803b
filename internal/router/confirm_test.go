package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// ruled is a house whose policy has these rules and denies by default.
func ruled(t testing.TB, up *fakeUpstream, src catalog.Source, rules ...policy.Rule) *house {
	t.Helper()
	h := &house{files: up, settled: make(chan struct{})}
	close(h.settled)
	h.Router = New(Options{Settled: h.settled, Logger: zap.NewNop(), Metrics: NewMetrics()}, &Routes{
		Table:     catalog.Build(catalog.Options{Policy: policy.New(policy.Options{Rules: rules})}, []catalog.Source{src}),
		Upstreams: map[string]Upstream{"files": up},
	})
	return h
}

var confirmAll = policy.Rule{Name: "ask", Effect: policy.Confirm}

// answerer answers every question with the same.
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
		text     string // of the refusal, "" when the call is made
	}{
		{"accepted", wire.Rev20251125, allCaps, &answerer{answer: `{"action":"accept","content":{"path":"/b"}}`}, question, "answered", ""},
		{"accepted in an older revision", wire.Rev20250618, `{"elicitation":{}}`, &answerer{answer: `{"action":"accept"}`}, older, "answered", ""},
		{"declined", wire.Rev20251125, allCaps, &answerer{answer: `{"action":"decline"}`}, question, "declined", "The tool files__read was not used: the user declined it."},
		{"dismissed", wire.Rev20251125, allCaps, &answerer{answer: `{"action":"cancel"}`}, question, "cancelled", "The tool files__read was not used: the user was asked to confirm it and did not answer."},
		{"nonsense", wire.Rev20251125, allCaps, &answerer{answer: `{"action":true}`}, question, "cancelled", "The tool files__read was not used: the user was asked to confirm it and did not answer."},
		{"an error", wire.Rev20251125, allCaps, &answerer{err: wire.Errorf(-1, "no")}, question, "error", "The tool files__read was not used: the user has to confirm it, and the client answered the question with an error."},
		{"no answer", wire.Rev20251125, allCaps, &silent{}, "", "lapsed", "The tool files__read was not used: the user was asked to confirm it and did not answer in time."},
		{"a client without elicitation", wire.Rev20251125, `{}`, &answerer{}, "", "undeclared", "The tool files__read was not used: the user has to confirm it, and this client cannot ask them: it does not support elicitation."},
		{"a client with URLs only", wire.Rev20251125, `{"elicitation":{"url":{}}}`, &answerer{}, "", "undeclared", "The tool files__read was not used: the user has to confirm it, and this client cannot ask them: it does not support elicitation."},
		{"before elicitation", wire.Rev20250326, allCaps, &answerer{}, "", "undeclared", "The tool files__read was not used: the user has to confirm it, and this client cannot ask them: it does not support elicitation."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := ruled(t, answers(`{"content":[]}`), filesSource(t), confirmAll)
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
		h := ruled(t, answers(`{}`), filesSource(t), confirmAll)
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
		h := ruled(t, answers(`{}`), filesSource(t), confirmAll)
		c := callOf(wire.Rev20251125, allCaps, tt.params, &answerer{answer: `{"action":"decline"}`})
		c.Method = method
		_, err := h.Handle(t.Context(), c)
		if rpc := wantFault(t, err, -32602); rpc.Message != tt.want || h.files.got != nil {
			t.Errorf("%s: %s; the upstream got %v", method, rpc.Message, h.files.got)
		}
	}
}

// What tells of an item without using it needs no consent, and asks nobody.
func TestWhatNeedsNoConfirmation(t *testing.T) {
	h := ruled(t, answers(`{"completion":{"values":["secret"]}}`), filesSource(t), confirmAll)
	client := &recorder{}
	c := callOf(wire.Rev20251125, allCaps, `{"ref":{"type":"ref/prompt","name":"files__explain"},"argument":{"name":"q","value":""}}`, client)
	c.Method = wire.MethodComplete
	res, err := h.Handle(t.Context(), c)
	if err != nil || string(res.Raw) != `{"completion":{"values":[]}}` || h.files.got != nil || client.asks != nil {
		t.Errorf("completion: %s, %v; the upstream got %v, the client %v", res.Raw, err, h.files.got, client.asks)
	}
	if fault := h.Permit(callOf(wire.Rev20260728, allCaps, asksFor, nil)); fault != nil {
		t.Errorf("a parked call that was confirmed may not go on: %v", fault)
	}
}

// retry returns the params of a retry.
func retry(params, state, responses string) string {
	return strings.TrimSuffix(params, "}") + `,"requestState":` + string(wire.String(state)) + `,"inputResponses":` + responses + `}`
}

const accept = `{"mcpgateway-confirm":{"action":"accept"}}`

// round makes a call of a modern client and returns the question, if there is one.
func (h *house) round(t *testing.T, params string) (wire.Value, error) {
	t.Helper()
	h.files.got = nil
	res, err := h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, params, &recorder{}))
	return wire.ValueOf(res.Raw), err
}

// asks returns the state of a question for consent.
func (h *house) asks(t *testing.T, params string) string {
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
	h := ruled(t, answers(`{"content":[]}`), filesSource(t), confirmAll)
	state := h.asks(t, asksFor)
	res, err := h.round(t, retry(asksFor, state, accept))
	if err != nil || string(res.Raw()) != `{"content":[]}` {
		t.Fatalf("got %s, %v", res.Raw(), err)
	}
	if want := strings.Replace(asksFor, "files__read", "read", 1); string(h.files.got.Params) != want {
		t.Errorf("the upstream got %s, want %s", h.files.got.Params, want)
	}
	if _, err := h.round(t, retry(asksFor, state, accept)); wantFault(t, err, -32602) != errUsed || h.files.got != nil {
		t.Error("the consent was taken twice")
	}
	h.asks(t, asksFor) // each call is asked for anew

	state = h.asks(t, asksFor)
	res, err = h.round(t, retry(asksFor, state, `{"mcpgateway-confirm":{"action":"decline"}}`))
	if err != nil || !res.Get("isError").Bool() || h.files.got != nil {
		t.Errorf("declined: got %s, %v", res.Raw(), err)
	}
	if _, err := h.round(t, retry(asksFor, state, accept)); wantFault(t, err, -32602) != errUsed || h.files.got != nil {
		t.Error("a refusal was exchanged for a consent")
	}

	state = h.asks(t, asksFor)
	h.asks(t, retry(asksFor, state, `{"other":{"action":"accept"}}`)) // no answer: asked again
	if _, err := h.round(t, retry(asksFor, state, `{"mcpgateway-confirm":{"action":1}}`)); wantFault(t, err, -32602) == errUsed || h.files.got != nil {
		t.Error("an ill-formed answer was taken for one")
	}
	if _, err := h.round(t, retry(asksFor, state, accept)); err != nil || h.files.got == nil {
		t.Errorf("the state is not good any more: %v", err)
	}
}

// A limit is looked at before the user is asked, taken after it, and what it refuses
// costs no consent.
func TestConsentWithinLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := confirmAll
		rule.Limit = &policy.Limit{Rate: 0.1, Burst: 1}
		h := ruled(t, answers(`{"content":[]}`), filesSource(t), rule)
		first, second := h.asks(t, asksFor), h.asks(t, asksFor) // questions take nothing
		if _, err := h.round(t, retry(asksFor, first, accept)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.round(t, retry(asksFor, second, accept)); wantFault(t, err, -32603) == nil || h.files.got != nil {
			t.Error("a call over the limit was made")
		}
		client := &answerer{answer: `{"action":"accept"}`}
		legacy := func() error {
			_, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, asksFor, client))
			return err
		}
		if err := legacy(); wantFault(t, err, -32603) == nil || client.asks != nil {
			t.Errorf("the user was asked about a call that is refused then: %q", client.asks)
		}
		time.Sleep(10 * time.Second)
		if _, err := h.round(t, retry(asksFor, second, accept)); err != nil || h.files.got == nil {
			t.Errorf("the consent is not good any more: %v", err)
		}
		time.Sleep(10 * time.Second)
		if err := legacy(); err != nil || len(client.asks) != 1 {
			t.Errorf("%v, the user was asked %d times", err, len(client.asks))
		}
	})
}

func TestAttacksOnConsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := confirmAll
		h := ruled(t, answers(`{"content":[]}`), filesSource(t), rule)
		state := h.asks(t, asksFor)
		other := `{"name":"files__remove","arguments":{}}`
		for name, params := range map[string]string{
			"no state":        strings.TrimSuffix(asksFor, "}") + `,"inputResponses":` + accept + `}`,
			"other arguments": retry(strings.Replace(asksFor, "/a", "/b", 1), state, accept),
			"another tool":    retry(other, state, accept),
			"a made-up state": retry(asksFor, "AgEC", accept),
			"a relayed state": retry(asksFor, h.sealer.Seal(bridge.State{Kind: bridge.Relay, Holder: "files", Text: "x", Expires: time.Now().Add(time.Hour)}, bridge.BindingOf(callOf(wire.Rev20260728, allCaps, asksFor, nil))), accept),
			"another process": retry(asksFor, h.sealer.Seal(bridge.State{Kind: bridge.Consent, Holder: "files", Ticket: newMemoryTickets().Ticket(), Expires: time.Now().Add(time.Hour)}, bridge.BindingOf(callOf(wire.Rev20260728, allCaps, asksFor, nil))), accept),
		} {
			res, err := h.round(t, params)
			if err == nil && !res.Get("resultType").IsString("input_required") || h.files.got != nil {
				t.Errorf("%s: got %s, %v; the upstream got %v", name, res.Raw(), err, h.files.got)
			}
		}
		c := callOf(wire.Rev20260728, allCaps, retry(asksFor, state, accept), &recorder{})
		c.Principal = &call.Principal{Subject: "mallory"}
		if _, err := h.Handle(t.Context(), c); wantFault(t, err, -32602) != errState || h.files.got != nil {
			t.Error("another principal's consent was taken")
		}
		time.Sleep(defaultAskTimeout + time.Second)
		if _, err := h.round(t, retry(asksFor, state, accept)); wantFault(t, err, -32602) != errState || h.files.got != nil {
			t.Error("a consent was taken after its time")
		}
	})
}

// A consent holds for all rounds of its call, and for one of each.
func TestConsentInLaterRounds(t *testing.T) {
	n := 0
	up := modern(func(c *call.Call) string {
		if n++; n < 3 {
			return `{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?"}}},"requestState":"theirs"}`
		}
		return `{"content":[]}`
	})
	h := ruled(t, up, filesSource(t), confirmAll)
	res, err := h.round(t, retry(asksFor, h.asks(t, asksFor), accept))
	if err != nil {
		t.Fatal(err)
	}
	const answer = `{"who":{"action":"accept"}}`
	first := res.Get("requestState").Str()
	res, err = h.round(t, retry(asksFor, first, answer))
	if err != nil || !strings.Contains(string(h.files.got.Params), `"requestState":"theirs"`) {
		t.Fatalf("got %s, %v", res.Raw(), err)
	}
	if _, err := h.round(t, retry(asksFor, first, answer)); wantFault(t, err, -32602) != errUsed || h.files.got != nil {
		t.Error("a round of a confirmed call was repeated")
	}
	res, err = h.round(t, retry(asksFor, res.Get("requestState").Str(), answer))
	if err != nil || string(res.Raw()) != `{"content":[]}` {
		t.Errorf("got %s, %v; want the result without another question", res.Raw(), err)
	}
}

func TestWithdrawnRights(t *testing.T) {
	h := ruled(t, answers(`{"content":[]}`), filesSource(t), confirmAll)
	state := h.asks(t, asksFor)
	routes := *h.Routes()
	routes.Table = catalog.Build(catalog.Options{Policy: policy.New(policy.Options{})}, []catalog.Source{filesSource(t)})
	h.Swap(&routes)
	if _, err := h.round(t, retry(asksFor, state, accept)); wantFault(t, err, -32602).Message != `unknown tool: "files__read"` || h.files.got != nil {
		t.Error("a consent stands above policy")
	}
}

func TestTickets(t *testing.T) {
	m := newMemoryTickets()
	ticket := m.Ticket()
	for i, want := range []bool{true, false, false} {
		if ok, err := m.Spend(t.Context(), ticket, time.Now().Add(time.Hour)); ok != want || err != nil {
			t.Errorf("spent for the %d. time: %v, %v", i+1, ok, err)
		}
	}
	if ok, _ := m.Spend(t.Context(), newMemoryTickets().Ticket(), time.Now()); ok {
		t.Error("the ticket of another process is good")
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryTickets()
		for range maxTickets {
			if ok, err := m.Spend(t.Context(), m.Ticket(), time.Now().Add(time.Minute)); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if _, err := m.Spend(t.Context(), m.Ticket(), time.Now().Add(time.Minute)); err == nil {
			t.Error("more tickets than there is room for")
		}
		time.Sleep(time.Minute + 1)
		if ok, err := m.Spend(t.Context(), m.Ticket(), time.Now().Add(time.Minute)); !ok || err != nil || len(m.spent) != 1 {
			t.Errorf("%v, %v, %d tickets are kept that have expired", ok, err, len(m.spent)-1)
		}
	})
}

func TestQuestionIsVisibleAndBounded(t *testing.T) {
	target := catalog.Target{Kind: call.Resource, Public: "files+file:///\u202egpj.exe\u200b\x07"}
	question := func(t *testing.T, target catalog.Target, params string) string {
		t.Helper()
		q, ok := consentQuestion("files", target, wire.Raw(params))
		if !ok {
			t.Fatalf("%.100s cannot be asked about", params)
		}
		return wire.ValueOf(q).Get("message").Str()
	}
	text := question(t, target, "")
	if want := `files: may the resource files+file:///\u202egpj.exe\u200b\u0007 be read?`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	tool := catalog.Target{Kind: call.Tool, Public: "t"}
	// What fits is not cut.
	if text = question(t, tool, `{"arguments":{"sql":"`+strings.Repeat("y", 2000)+`; DROP TABLE x"}}`); !strings.HasSuffix(text, `; DROP TABLE x"}`) {
		t.Errorf("a short value is cut: %s", text)
	}
	long := func(members string) string {
		return `{"arguments":{"pad":` + string(wire.String(strings.Repeat("x\u2066", 5000))) + members + `,"more":[` + strings.Repeat(`"yyyyyyyyyy",`, 5000) + `1],"danger":"rm -rf"}}`
	}
	text = question(t, tool, long(`,"deep":[{"hidden":{"also":1}}]`))
	for _, want := range []string{`"danger": "rm -rf"`, `"deep": [{"hidden": {"also": 1}}]`, "bytes more)", "(20000 bytes, sha256 ", "elements more, sha256 of all "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if len(text) > maxQuestion {
		t.Errorf("%d bytes", len(text))
	}
	if other := question(t, tool, strings.Replace(long(`,"deep":[{"hidden":{"also":1}}]`), `"yyyyyyyyyy",1]`, `"yyyyyyyyyz",1]`, 1)); other == text {
		t.Error("two calls with other arguments have the same question")
	}
	for _, r := range text {
		if r == '\u2066' {
			t.Fatal("a mark of direction is not written out")
		}
	}
}

// What the user cannot be shown they cannot consent to.
func TestUnshownCallsAreRefused(t *testing.T) {
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, `"key%d":1,`, i)
	}
	for name, members := range map[string]string{
		"many keys":    many.String(),
		"a long key":   `"` + strings.Repeat("k", maxQuestion) + `":1,`,
		"many objects": `"a":[` + strings.Repeat(`{"b":1},`, 3000) + `1],`,
	} {
		h := ruled(t, answers(`{"content":[]}`), filesSource(t), confirmAll)
		client := &answerer{answer: `{"action":"accept"}`}
		res, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, `{"name":"files__read","arguments":{`+members+`"danger":true}}`, client))
		if err != nil || !strings.Contains(string(res.Raw), "than a question can show") || !wire.ValueOf(res.Raw).Get("isError").Bool() || h.files.got != nil || client.asks != nil {
			t.Errorf("%s: %s, %v; the upstream got %v, the client %.100q", name, res.Raw, err, h.files.got, client.asks)
		}
		if n := testutil.ToFloat64(h.metrics.asks.WithLabelValues("confirmation", askUnshown)); n != 1 {
			t.Errorf("asks_total is %v, want 1", n)
		}
	}
}

// What an upstream tells on the stream of a call is judged like all else.
func TestUpdatesOnTheStreamOfACall(t *testing.T) {
	up := &fakeUpstream{answer: func(_ context.Context, c *call.Call) (call.Result, error) {
		c.Back.Notify(wire.NoteResourceUpdated, wire.Raw(`{"uri":"file:///secret"}`))
		c.Back.Notify(wire.NoteResourceUpdated, wire.Raw(`{"uri":"file:///a"}`))
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}}
	h := ruled(t, up, filesSource(t), policy.Rule{Name: "all", Effect: policy.Allow},
		policy.Rule{Name: "secret", Effect: policy.Deny, What: policy.What{Resources: []string{"files+file:///secret"}}})
	client := &recorder{}
	if _, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, client)); err != nil {
		t.Fatal(err)
	}
	if want := []string{`notifications/resources/updated {"uri":"files+file:///a"}`}; !cmp.Equal(client.notes, want) {
		t.Errorf("the client was told %q, want %q", client.notes, want)
	}
}
