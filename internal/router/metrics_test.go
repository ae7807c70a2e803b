package router

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// The slowest call of an upstream is the one of all its methods, as long as it took.
func TestSlowestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := time.Duration(0)
		h := newTestRouter(t, &fakeUpstream{answer: func(context.Context, *call.Call) (call.Result, error) {
			time.Sleep(took)
			return call.Result{Raw: wire.Raw(`{"content":[],"messages":[]}`)}, nil
		}}, filesSource(t))
		if got := h.metrics.Slowest("files"); got != 0 {
			t.Errorf("%s before the first call", got)
		}
		for _, took = range []time.Duration{30 * time.Millisecond, 20 * time.Millisecond} {
			if _, err := h.Handle(t.Context(), newCall(wire.MethodToolsCall, `{"name":"files__read"}`, &recorder{})); err != nil {
				t.Fatal(err)
			}
		}
		if got := h.metrics.Slowest("files"); got != 30*time.Millisecond {
			t.Errorf("the slowest call took %s", got)
		}
		if got := h.metrics.Slowest("other"); got != 0 {
			t.Errorf("%s of an upstream without calls", got)
		}
	})
}
