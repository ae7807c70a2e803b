//go:build !race

package router

import (
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// A call whose stages are measured allocates as much as one whose stages are not.
func TestMeasuredCallsAllocateNoMore(t *testing.T) {
	cost := func(slow time.Duration, tr *call.Trace) float64 {
		h, _ := slowRouter(t, slow, answers(`{"content":[]}`))
		c := tracedCall(wire.MethodToolsCall, `{"name":"files__read"}`)
		c.Trace = tr
		return testing.AllocsPerRun(200, func() {
			if _, err := h.Handle(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		})
	}
	none := cost(0, nil)
	for name, got := range map[string]float64{"off": cost(0, new(call.Trace)), "measured": cost(time.Hour, new(call.Trace))} {
		if got > none {
			t.Errorf("%s: %v allocations, %v without a trace", name, got, none)
		}
	}
}

// While nobody looks at the calls, a call allocates as much as without a console.
func TestCallsAtWhichNobodyLooksAllocateNoMore(t *testing.T) {
	cost := func(w Watcher) float64 {
		h, _ := slowRouter(t, 0, answers(`{"content":[]}`))
		h.watcher = w
		c := tracedCall(wire.MethodToolsCall, `{"name":"files__read"}`)
		return testing.AllocsPerRun(200, func() {
			if _, err := h.Handle(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		})
	}
	if without, closed := cost(nil), cost(&watcher{}); closed > without {
		t.Errorf("%v allocations, %v without a watcher", closed, without)
	}
}
