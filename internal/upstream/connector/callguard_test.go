package connector

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
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

// silentConn is a conversation whose server does not answer calls.
type silentConn struct{ protocol.Conn }

func (silentConn) Call(ctx context.Context, _ *call.Call) (call.Result, error) {
	<-ctx.Done()
	return call.Result{}, ctx.Err()
}

func (silentConn) Probe(protocol.Suspicion) {}

// A call that timed out says how much of its time it waited for the connection, beside the time that it waited for a slot.
func TestTimeoutSaysHowLongTheConnectionTook(t *testing.T) {
	for name, tc := range map[string]struct {
		slot, connection time.Duration // the waits for them
		unreached        int           // attempts that do not reach the server
		want             string
	}{
		"for the connection": {0, 3800 * time.Millisecond, 0, "the call waited 3.8s for the connection with the server, and the server did not answer within the 1.2s that were left of the timeout of 5s"},
		"for both": {time.Second, 2 * time.Second, 0, "the call waited 1s in the queue (max_concurrent 1) and 2s for the connection with the server, " +
			"and the server did not answer within the 2s that were left of the timeout of 5s"},
		"for attempts": {0, 0, 1000, "the call waited 5s for the connection with the server, which is all of the timeout of 5s"},
		"for nothing":  {0, 0, 0, "the server did not answer within 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := setup{Options: Options{Limits: Limits{MaxConcurrent: 1, Timeout: 5 * time.Second}}}.connector()
				c.slots.tryAcquire() // as a call that runs does
				go func() {
					time.Sleep(tc.slot)
					c.slots.release()
					time.Sleep(tc.connection)
					if tc.unreached > 0 {
						c.set(&unreachedConn{Conn: silentConn{}, failures: tc.unreached})
					} else {
						c.set(silentConn{})
					}
				}()
				got := upstreamtest.Outcome(c.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{})))
				if !strings.Contains(got, ": "+tc.want+" (") {
					t.Errorf("got %s, want %s", got, tc.want)
				}
			})
		})
	}
}
