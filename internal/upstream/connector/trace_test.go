package connector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// unreachedConn is a conversation whose server cannot be reached for the first calls. A ping takes a second.
type unreachedConn struct {
	protocol.Conn
	failures int
}

func (u *unreachedConn) Call(context.Context, *call.Call) (call.Result, error) {
	if u.failures--; u.failures >= 0 {
		return call.Result{}, &protocol.CallError{Reason: "cannot connect to the server", NotSent: true, ConnectionLost: true}
	}
	return call.Result{Raw: wire.Raw(`{"ok":1}`)}, nil
}

func (u *unreachedConn) Ping(ctx context.Context) error { return protocol.Sleep(ctx, time.Second) }

// The time that a call waits for its connection is in one stage: that between two attempts, that until there is a new
// connection, and that of the ping before a trial.
func TestWaitForTheConnectionIsTimed(t *testing.T) {
	for name, tc := range map[string]struct {
		failures int
		renewed  bool // the conversation ends while the call waits, and there is another one later
		trial    bool
		want     time.Duration
	}{
		"one attempt":             {0, false, false, 0},
		"several attempts":        {3, false, false, 3 * protocol.AttemptGap},
		"another connection":      {1000, true, false, 3 * time.Second},
		"the ping before a trial": {1, false, true, time.Second + protocol.AttemptGap},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := setup{Options: Options{Health: threeFailures()}}.connector()
				c.set(&unreachedConn{failures: tc.failures})
				if tc.trial {
					c.breaker.alerted.Store(true)
					c.breaker.state = breakerHalfOpen
				}
				if tc.renewed {
					go func() {
						time.Sleep(protocol.AttemptGap / 2)
						c.set(nil)
						time.Sleep(tc.want - protocol.AttemptGap/2)
						c.set(&unreachedConn{})
					}()
				}
				cl := upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{})
				cl.Trace = new(call.Trace)
				cl.Trace.Begin(time.Now, nil)
				began := time.Now()
				if got := upstreamtest.Outcome(c.Do(t.Context(), cl)); got != `{"ok":1}` {
					t.Fatal(got)
				}
				if took := time.Since(began); took != tc.want {
					t.Errorf("the call took %s, want %s", took, tc.want)
				}
				if got := cl.Trace.Spent(call.StageConnect); got != tc.want {
					t.Errorf("%s in the stage connect, want %s", got, tc.want)
				}
			})
		})
	}
}
