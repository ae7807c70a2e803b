package router

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// slowRouter returns a router that logs calls from a time on, and its log.
func slowRouter(t *testing.T, slow time.Duration, up *fakeUpstream) (*testRouter, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.WarnLevel)
	h := newTestRouter(t, up, filesSource(t))
	close(h.started)
	h.ratelog = ratelog.New(zap.New(core))
	routes := *h.Routes()
	routes.Slow = slow
	h.Swap(&routes)
	return h, logs
}

// tracedCall returns a call whose stages are measured.
func tracedCall(method, params string) *call.Call {
	c := newCall(method, params, noBackChannel{})
	c.Trace = new(call.Trace)
	return c
}

// The line of a slow call has the times of the stages that the call passed.
func TestSlowCallsAreLoggedWithTheirStages(t *testing.T) {
	up := &fakeUpstream{answer: func(ctx context.Context, c *call.Call) (call.Result, error) {
		timer := c.Trace.Start(ctx, call.StageUpstream, call.SpanStart{})
		timer.End(nil)
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}}
	h, logs := slowRouter(t, time.Nanosecond, up)
	c := tracedCall(wire.MethodToolsCall, `{"name":"files__read","arguments":{"path":"secret"}}`)
	if _, err := h.Handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	lines := logs.FilterMessage("slow call").All()
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	var names []string
	for _, f := range lines[0].Context {
		if f.Type != zapcore.SkipType {
			names = append(names, f.Key)
		}
		if strings.Contains(f.String, "secret") {
			t.Errorf("the field %s has an argument", f.Key)
		}
	}
	want := []string{"request", "principal", "method", "upstream", "item", "rule", "outcome", "duration_ms", "authorize_ms", "upstream_ms"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// Both lines of a call name the replica to which it was forwarded.
func TestLinesNameTheReplica(t *testing.T) {
	up := &fakeUpstream{answer: func(_ context.Context, c *call.Call) (call.Result, error) {
		c.Trace.Forward("other")
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}}
	h, logs := slowRouter(t, time.Nanosecond, up)
	core, calls := observer.New(zapcore.InfoLevel)
	h.log = zap.New(core)
	if _, err := h.Handle(t.Context(), tracedCall(wire.MethodToolsCall, `{"name":"files__read"}`)); err != nil {
		t.Fatal(err)
	}
	for _, line := range append(logs.FilterMessage("slow call").All(), calls.FilterMessage("call").All()...) {
		if got := line.ContextMap()["replica"]; got != "other" {
			t.Errorf("%s: %v", line.Message, got)
		}
	}
	if logs.Len() != 1 || calls.Len() != 1 {
		t.Errorf("%d and %d lines", logs.Len(), calls.Len())
	}
}

// Calls are not logged below the time, and without one.
func TestOtherCallsAreNotLoggedAsSlow(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Hour} {
		h, logs := slowRouter(t, slow, answers(`{"content":[]}`))
		if _, err := h.Handle(t.Context(), tracedCall(wire.MethodToolsCall, `{"name":"files__read"}`)); err != nil {
			t.Fatal(err)
		}
		if logs.Len() > 0 {
			t.Errorf("%s: %v", slow, logs.All())
		}
	}
}
