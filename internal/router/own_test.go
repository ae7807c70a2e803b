package router

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

// inner runs another call from inside of a call.
type inner = func(context.Context, *call.Call) (call.Result, error)

// ownTools are the own tools of a test.
type ownTools func(ctx context.Context, c *call.Call, target catalog.Target, view *catalog.View, inner inner) (call.Result, error)

func (f ownTools) Call(ctx context.Context, c *call.Call, target catalog.Target, view *catalog.View, inner func(context.Context, *call.Call) (call.Result, error)) (call.Result, error) {
	return f(ctx, c, target, view, inner)
}

// through is an own tool that calls the tool and the arguments that its own arguments name.
func through(ctx context.Context, c *call.Call, _ catalog.Target, _ *catalog.View, inner inner) (call.Result, error) {
	return inner(ctx, c.With(wire.ValueOf(c.Params).Get("arguments").Raw()))
}

// ownTable returns a table with a tool of the gateway and a template of its resources.
func ownTable(rules []policy.Rule, sources ...catalog.Source) *catalog.Table {
	p, err := profile.New(profile.Options{Name: "p", Own: []profile.OwnItem{
		{Kind: call.Tool, Definition: wire.Raw(`{"name":"through","inputSchema":{"type":"object"}}`)},
		{Kind: call.Tool, Definition: wire.Raw(`{"name":"whole","inputSchema":{"type":"object"}}`), WholeView: true},
		{Kind: call.Template, Definition: wire.Raw(`{"name":"kept","uriTemplate":"kept://{id}"}`)},
	}})
	if err != nil {
		panic(err)
	}
	return catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Rules: rules}), Profile: p}, sources)
}

// routerWithOwn returns a router with own items beside those of files. Policy denies by default.
func routerWithOwn(t *testing.T, up *fakeUpstream, tools ownTools, rules ...policy.Rule) *testRouter {
	t.Helper()
	h := routerWithRules(t, up, filesSource(t), rules...)
	h.ownTools = tools
	routes := *h.Routes()
	routes.Table = ownTable(rules, filesSource(t))
	h.Swap(&routes)
	return h
}

var allowRead = policy.Rule{Name: "read", Effect: policy.Allow, What: policy.What{Tools: []string{"files__read"}}}

// An inner call is judged, counted and audited under its own name; the outer call is not.
func TestOwnToolsCallThroughThePipeline(t *testing.T) {
	h := routerWithOwn(t, answers(`{"content":[{"type":"text","text":"file:///a"}],"x":1}`), through, allowRead)
	audit := &fakeAuditor{}
	h.audit = &Audit{To: audit}
	res, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"through","arguments":{"name":"files__read","arguments":{"path":"/a"}}}`, &recorder{}))
	if err != nil || string(res.Raw) != `{"content":[{"type":"text","text":"file:///a"}],"x":1}` {
		t.Fatalf("got %s, %v; want the result of the inner tool", res.Raw, err)
	}
	if got := string(h.files.got.Params); got != `{"name":"read","arguments":{"path":"/a"}}` {
		t.Errorf("the upstream got %s", got)
	}
	lines := audit.take(t)
	if len(lines) != 2 || strings.Contains(strings.Join(lines, "\n"), "through") || !strings.Contains(lines[0], `"item":"files__read"`) || !strings.Contains(lines[1], `"request":"r1.1"`) {
		t.Errorf("the audit is %q, want a decision and an end of the inner call", lines)
	}
	if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues("tools/call", "files", "ok")); n != 1 {
		t.Errorf("%v inner calls were counted, want 1", n)
	}
	if n := testutil.CollectAndCount(h.metrics.requests); n != 1 {
		t.Errorf("%d kinds of requests were counted, want the inner call alone", n)
	}
	if n := testutil.CollectAndCount(h.metrics.decisions); n != 1 {
		t.Errorf("%d kinds of decisions were counted, want that about the inner call", n)
	}

	_, err = h.Handle(t.Context(), newCall("tools/call", `{"name":"through","arguments":{"name":"files__remove"}}`, &recorder{}))
	if refused := wantFault(t, err, wire.CodeInvalidParams); refused.Message != `unknown tool: "files__remove"` {
		t.Errorf("a tool that policy refuses: %q", refused.Message)
	}
}

// Each inner call has a request id of its own that begins with that of the client's request.
func TestInnerCallsHaveIDs(t *testing.T) {
	up := answers(`{"content":[]}`)
	var ids []string
	up.answer = func(_ context.Context, c *call.Call) (call.Result, error) {
		ids = append(ids, c.ID)
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}
	twice := func(ctx context.Context, c *call.Call, _ catalog.Target, _ *catalog.View, inner inner) (call.Result, error) {
		_, _ = inner(ctx, c.With(wire.Raw(`{"name":"files__read"}`)))
		return inner(ctx, c.With(wire.Raw(`{"name":"files__read"}`)))
	}
	h := routerWithOwn(t, up, twice, allowRead)
	if _, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"through"}`, &recorder{})); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids, []string{"r1.1", "r1.2"}) {
		t.Errorf("the ids are %q", ids)
	}
}

// A confirmation and a round of a modern upstream reach the client by the back channel of the
// outer call, which the front end parks.
func TestInnerCallsAskByTheBackChannel(t *testing.T) {
	up := modern(func(c *call.Call) string {
		if wire.ValueOf(c.Params).Get("inputResponses").Exists() {
			return `{"content":[],"resultType":"complete"}`
		}
		return `{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}}}}`
	})
	h := routerWithOwn(t, up, through, policy.Rule{Name: "ask", Effect: policy.Confirm, What: policy.What{Tools: []string{"files__read"}}})
	client := &recorder{}
	res, err := h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, `{"name":"through","arguments":{"name":"files__read"}}`, client))
	if err != nil || !strings.Contains(string(res.Raw), `"content":[]`) {
		t.Fatalf("got %s, %v", res.Raw, err)
	}
	if len(client.asks) != 2 || !strings.Contains(client.asks[0], "files: may the tool files__read be called?") || !strings.Contains(client.asks[1], "Who?") {
		t.Errorf("the client was asked %q", client.asks)
	}
}

func TestOwnItemsAreAllowedAndNothingElse(t *testing.T) {
	called := 0
	h := routerWithOwn(t, answers(`{}`), func(_ context.Context, c *call.Call, target catalog.Target, _ *catalog.View, _ inner) (call.Result, error) {
		called++
		return call.Result{Raw: wire.Raw(`{"contents":[{"uri":"` + target.Public + `","text":""}]}`)}, nil
	}, policy.Rule{Name: "none", Effect: policy.Deny})
	for _, params := range []string{`{"name":"through"}`, `{"name":"through","arguments":null}`} {
		if _, err := h.Handle(t.Context(), newCall("tools/call", params, &recorder{})); err != nil {
			t.Errorf("%s: %v", params, err)
		}
		if refusal := h.Permit(newCall("tools/call", params, &recorder{})); refusal != nil {
			t.Errorf("%s: a retry is refused: %v", params, refusal)
		}
	}
	res, err := h.Handle(t.Context(), newCall("resources/read", `{"uri":"kept://1?lines=1-2"}`, &recorder{}))
	if err != nil || string(res.Raw) != `{"contents":[{"uri":"kept://1?lines=1-2","text":""}]}` || called != 3 {
		t.Errorf("reading an own resource: %s, %v", res.Raw, err)
	}
	for _, tt := range []struct {
		method, params string
		code           int64
	}{
		{"resources/metadata", `{"uri":"kept://1"}`, wire.CodeMethodNotFound},
		{"tools/call", `{"name":"through","arguments":[]}`, wire.CodeInvalidParams},
		{"tools/call", `{"name":"throughx"}`, wire.CodeInvalidParams},
		{"resources/read", `{"uri":"other://1"}`, wire.CodeResourceNotFound},
	} {
		_, err := h.Handle(t.Context(), newCall(tt.method, tt.params, &recorder{}))
		wantFault(t, err, tt.code)
	}
	res, err = h.Handle(t.Context(), newCall("completion/complete", `{"ref":{"type":"ref/resource","uri":"kept://{id}"},"argument":{"name":"id","value":""}}`, &recorder{}))
	if err != nil || string(res.Raw) != `{"completion":{"values":[]}}` {
		t.Errorf("completing an own template: %s, %v", res.Raw, err)
	}
	_, err = NewSubscriptions(h.Router).Subscribe(t.Context(), newCall("resources/subscribe", `{}`, &recorder{}), "kept://1", nil)
	wantFault(t, err, wire.CodeMethodNotFound)
	if called != 3 {
		t.Errorf("own tools got %d calls, want 3", called)
	}
}

// The state of another call does not continue a call of an own tool.
func TestOwnToolsRefuseOtherStates(t *testing.T) {
	h := routerWithOwn(t, answers(`{"content":[]}`), through, confirmAll)
	state := h.asks(t, asksFor)
	for _, s := range []string{state, "made up"} {
		_, err := h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, retry(`{"name":"through","arguments":{"name":"files__read"}}`, s, accept), &recorder{}))
		if !errors.Is(err, errState) {
			t.Errorf("%.10s…: %v, want %v", s, err, errState)
		}
	}
	if h.files.got != nil {
		t.Error("the upstream was called")
	}
}

func TestOwnToolsHaveADepth(t *testing.T) {
	calls := 0
	again := func(ctx context.Context, c *call.Call, _ catalog.Target, _ *catalog.View, inner inner) (call.Result, error) {
		calls++
		return inner(ctx, c)
	}
	h := routerWithOwn(t, answers(`{}`), again, allowRead)
	_, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"through"}`, &recorder{}))
	wantFault(t, err, wire.CodeInvalidParams)
	if calls != maxOwnDepth {
		t.Errorf("%d calls inside of each other, want %d", calls, maxOwnDepth)
	}
}

func TestCancellationEndsInnerCalls(t *testing.T) {
	up := &fakeUpstream{}
	up.answer = func(ctx context.Context, _ *call.Call) (call.Result, error) {
		<-ctx.Done()
		return call.Result{}, ctx.Err()
	}
	h := routerWithOwn(t, up, through, allowRead)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := h.Handle(ctx, newCall("tools/call", `{"name":"through","arguments":{"name":"files__read"}}`, &recorder{}))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// Own tools that need the whole view see what lists would show: they wait for upstreams that are
// starting. Others do not.
func TestOwnToolsAwaitTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []int
		count := func(_ context.Context, _ *call.Call, _ catalog.Target, view *catalog.View, _ inner) (call.Result, error) {
			seen = append(seen, len(view.Entries(call.Tool)))
			return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
		}
		h := routerWithOwn(t, answers(`{}`), count, allowRead)
		h.started = make(chan struct{})
		h.Router.started = h.started
		starting := *h.Routes()
		src := source(t, "files", &catalog.Down{Reason: "it starts", Starting: true})
		ready := h.Routes()
		starting.Table = ownTable([]policy.Rule{allowRead}, src)
		h.Swap(&starting)
		if _, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"through"}`, &recorder{})); err != nil || len(seen) != 1 {
			t.Fatalf("a tool that does not need the view: %v", err)
		}
		seen = nil
		done := make(chan error)
		go func() {
			_, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"whole"}`, &recorder{}))
			done <- err
		}()
		synctest.Wait()
		if len(seen) > 0 {
			t.Fatal("the tool did not wait")
		}
		h.Swap(ready)
		close(h.started)
		if err := <-done; err != nil || !slices.Equal(seen, []int{3}) {
			t.Errorf("the tool saw %v tools, %v", seen, err)
		}
	})
}

// A result of the gateway is lowered to the revision of the client like that of an upstream.
func TestOwnResultsAreDownlevelled(t *testing.T) {
	own := func(context.Context, *call.Call, catalog.Target, *catalog.View, inner) (call.Result, error) {
		return call.Result{Raw: wire.Raw(`{"content":[{"type":"resource_link","uri":"kept://1","name":"kept"}]}`)}, nil
	}
	h := routerWithOwn(t, answers(`{}`), own)
	c := newCall("tools/call", `{"name":"through"}`, &recorder{})
	c.Client = &call.Client{Key: "old", Revision: wire.Rev20241105}
	res, err := h.Handle(t.Context(), c)
	if err != nil || strings.Contains(string(res.Raw), "resource_link") {
		t.Errorf("got %s, %v", res.Raw, err)
	}
}
