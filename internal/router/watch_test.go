package router

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// watcher keeps the calls that it receives.
type watcher struct {
	on  bool
	got []EndedCall
}

func (w *watcher) Watching() bool     { return w.on }
func (w *watcher) Ended(e *EndedCall) { w.got = append(w.got, *e) }

// Calls are handed on with their outcome and stages while somebody looks, and only then.
func TestWatchedCalls(t *testing.T) {
	h, _ := slowRouter(t, 0, answers(`{"content":[],"isError":true}`))
	w := &watcher{}
	h.watcher = w
	handle := func(params string) *call.Call {
		c := tracedCall(wire.MethodToolsCall, params)
		_, _ = h.Handle(t.Context(), c) // the outcome is what the test looks at
		return c
	}
	handle(`{"name":"files__read"}`)
	w.on = true
	c := handle(`{"name":"files__read"}`)
	handle(`{"name":"nothing"}`)
	if len(w.got) != 2 {
		t.Fatalf("%d calls", len(w.got))
	}
	if got := w.got[0]; got.Call != c || got.Item != "files__read" || got.Upstream != "files" || got.Outcome != outcomeToolError || got.Method != wire.MethodToolsCall || got.Duration <= 0 {
		t.Errorf("%+v", got)
	}
	if c.Trace.Spent(call.StageAuthorize) <= 0 {
		t.Error("the stages of a watched call are not measured")
	}
	if got := w.got[1]; got.Outcome != outcomeRefused || got.Upstream != "" {
		t.Errorf("%+v", got)
	}
}

// A call that policy refuses has the upstream of its item, as in the log. The metrics do not count it for that upstream,
// at which the caller sees no such item.
func TestWatchedRefusals(t *testing.T) {
	h := routerWithRules(t, nil, filesSource(t), byRules...)
	w := &watcher{on: true}
	h.watcher = w
	_, _ = h.Handle(t.Context(), newCall("prompts/get", `{"name":"files__explain"}`, nil)) // the outcome is what the test looks at
	if len(w.got) != 1 || w.got[0].Outcome != outcomeRefused || w.got[0].Upstream != "files" || w.got[0].Item != "files__explain" {
		t.Errorf("%+v", w.got)
	}
	if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues("prompts/get", "", "refused")); n != 1 {
		t.Errorf("requests_total of refused calls is %v, want 1", n)
	}
}
