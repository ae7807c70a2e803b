package held

import (
	"context"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/router"
	"mcpgateway/internal/wire"
)

// answering is an upstream that answers each call.
type answering struct{ router.Upstream }

func (answering) Do(context.Context, *call.Call) (call.Result, error) {
	return call.Result{Raw: wire.Raw(`{}`)}, nil
}

// The line of a call for another replica has the id of the trace that the call has there.
func TestLineOfCallForAnotherReplica(t *testing.T) {
	const id = "1ec961fc00000000000000000000000a"
	for name, tc := range map[string]struct {
		trace *call.TraceContext
		want  any
	}{
		"traced":     {&call.TraceContext{Traceparent: "00-" + id + "-00f067aa0ba902b7-01"}, id},
		"not traced": {nil, nil},
	} {
		core, logs := observer.New(zapcore.DebugLevel)
		u := &heldUpstream{Upstream: answering{}, h: &Holder{Options: Options{Logger: ratelog.New(zap.New(core))}}, name: "files"}
		c := &call.Call{ID: "r1", Method: wire.MethodToolsCall, Principal: &call.Principal{Subject: "ann"}, TraceContext: tc.trace}
		if _, err := u.doFor(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		lines := logs.FilterMessage("call for another replica").All()
		if len(lines) != 1 {
			t.Fatalf("%s: %d lines, want 1", name, len(lines))
		}
		if got := lines[0].ContextMap()["trace_id"]; got != tc.want {
			t.Errorf("%s: trace_id is %v, want %v", name, got, tc.want)
		}
	}
}
