package connector

import (
	"context"
	"errors"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// Messages that arrive after the end of a call do not reach its back channel.
func TestMessagesAfterTheCall(t *testing.T) {
	back := &upstreamtest.Peer{OnAsk: func(context.Context, string, wire.Raw) (wire.Raw, error) {
		t.Error("the client was asked after the end")
		return nil, nil
	}}
	g := newCallGuard(t.Context(), &call.Call{Back: back, LogLevel: wire.LevelDebug}, time.Minute, time.Hour)
	g.Notify(wire.NoteMessage, wire.Raw(`{"level":"info"}`))
	g.close()
	g.Notify(wire.NoteMessage, wire.Raw(`{"level":"info"}`))
	if _, err := g.Ask(t.Context(), wire.MethodElicit, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Ask: %v", err)
	}
	if got := len(back.Got()); got != 1 {
		t.Errorf("%d notifications, want 1", got)
	}
}

// A call that waits for its client's answer holds no slot, and it releases its slot
// once.
func TestAskReleasesTheSlot(t *testing.T) {
	slots := newFairLimiter(1, newLimiterQueue(1))
	back := &upstreamtest.Peer{OnAsk: func(context.Context, string, wire.Raw) (wire.Raw, error) {
		if slots.free != 1 {
			t.Error("the slot is held during the ask")
		}
		return nil, nil
	}}
	g := newCallGuard(t.Context(), &call.Call{Back: back}, time.Minute, time.Hour)
	if err := slots.acquire(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	g.holdSlot(slots)
	for range 2 {
		if _, err := g.Ask(t.Context(), wire.MethodElicit, nil); err != nil {
			t.Error(err)
		}
		if slots.free != 0 {
			t.Error("the slot is not held after the answer")
		}
	}
	for range 2 {
		g.close()
		if slots.free != 1 {
			t.Errorf("%d slots are free after the end, want 1", slots.free)
		}
	}
}
