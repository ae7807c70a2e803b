package call

import (
	"context"
	"errors"
	"testing"
	"time"
)

// steps is a clock that advances by a second each time.
func steps() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func TestTraceMeasuresStages(t *testing.T) {
	var tr Trace
	tr.Begin(steps(), nil)
	outer := tr.Start(t.Context(), StageUpstream, SpanStart{})
	inner := tr.Start(t.Context(), StageAsk, SpanStart{})
	inner.End(nil)
	outer.End(errors.New("failed"))
	again := tr.Start(t.Context(), StageAsk, SpanStart{})
	again.End(nil)
	want := map[Stage]time.Duration{StageUpstream: 3 * time.Second, StageAsk: 2 * time.Second}
	for s := range NumStages {
		if tr.Spent(s) != want[s] {
			t.Errorf("%s: %s, want %s", s, tr.Spent(s), want[s])
		}
	}
	if tr.ID() != "" || tr.Span() != nil || outer.Context() != nil {
		t.Error("a call without a span has a trace")
	}
}

// A call has the name of the replica to which it was forwarded last, whether or not its stages are measured.
func TestForwarded(t *testing.T) {
	var none *Trace
	none.Forward("a")
	var tr Trace
	tr.Forward("a")
	tr.Forward("b")
	if none.Replica() != "" || tr.Replica() != "b" {
		t.Errorf("%q, %q", none.Replica(), tr.Replica())
	}
}

// A call that this replica makes after all has neither the name of another replica nor time there.
func TestUnforward(t *testing.T) {
	var none *Trace
	none.Unforward()
	var tr Trace
	tr.Begin(steps(), nil)
	timer := tr.Start(t.Context(), StageReplica, SpanStart{})
	tr.Forward("a")
	timer.End(nil)
	tr.Unforward()
	if tr.Replica() != "" || tr.Spent(StageReplica) != 0 {
		t.Errorf("%q, %s", tr.Replica(), tr.Spent(StageReplica))
	}
}

func TestTraceID(t *testing.T) {
	var none *TraceContext
	if got := none.TraceID(); got != "" {
		t.Errorf("of no context: %q", got)
	}
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for traceparent, want := range map[string]string{"": "", "00": "", "00-" + id: "", "00-" + id + "-00f067aa0ba902b7-01": id} {
		if got := (&TraceContext{Traceparent: traceparent}).TraceID(); got != want {
			t.Errorf("of %q: %q, want %q", traceparent, got, want)
		}
	}
}

// A call without a trace, or whose trace has not begun, needs no special case.
func TestNoTrace(t *testing.T) {
	var none *Trace
	none.Begin(time.Now, nil)
	none.Follow(nil)
	for _, tr := range []*Trace{none, {}} {
		timer := tr.Start(t.Context(), StageSlot, SpanStart{})
		timer.End(nil)
		tr.Add(StageSlot, time.Second)
		if tr.Spent(StageSlot) != 0 || tr.Replica() != "" || tr.ID() != "" || tr.Span() != nil || timer.Context() != nil {
			t.Error("it recorded something")
		}
	}
}

func TestTraceAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	for name, clock := range map[string]func() time.Time{"off": nil, "measured": time.Now} {
		var tr Trace
		if clock != nil {
			tr.Begin(clock, nil)
		}
		if n := testing.AllocsPerRun(100, func() {
			timer := tr.Start(ContextWithSpan(ctx, nil), StageUpstream, SpanStart{Method: "tools/call"})
			timer.End(nil)
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
