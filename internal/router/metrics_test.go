package router

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
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

// A flood of refused calls must not hide how long the calls of an upstream take.
func TestDurationsAreWithoutRefusals(t *testing.T) {
	h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), policy.Rule{
		Name: "few", Effect: policy.Allow, What: policy.What{Tools: []string{"files__read"}}, Limit: &policy.Limit{Rule: "few", Rate: 0.001, Burst: 1},
	})
	for range 5 {
		_, _ = h.Handle(t.Context(), newCall(wire.MethodToolsCall, `{"name":"files__read"}`, &recorder{})) // the metrics say how it ended
	}
	if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues(wire.MethodToolsCall, "files", outcomeLimited)); n != 4 {
		t.Errorf("%v limited calls, want 4", n)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(h.metrics.durations)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("%v, %v; want one histogram", families, err)
	}
	if n := families[0].GetMetric()[0].GetHistogram().GetSampleCount(); n != 1 {
		t.Errorf("%d durations, want that of the call that was made", n)
	}
}
