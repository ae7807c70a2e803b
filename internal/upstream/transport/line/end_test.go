package line

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// While it is not known yet how a server has ended, calls are neither sent to it nor lost with it: they can be sent to
// the next one. All calls that it had get the same cause.
func TestCallsWhileTheEndIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		go func() { _, _ = io.Copy(io.Discard, in) }()
		known := make(chan struct{})
		why := errors.New("exit status 7")
		o := &protocol.Config{Logger: zap.NewNop(), MaxMessage: 1 << 20, Throttle: protocol.NewThrottle(func(string, int) {})}
		c := newConn(o, &protocol.Identity{}, &Link{
			In: toServer, Out: fromServer,
			Stop:  func() error { in.Close(); out.Close(); return why },
			Ended: func() error { <-known; return why },
		}, nil)
		send := func() <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := c.Call(context.Background(), &call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"x"}`), Back: protocol.NoClient{}})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		first, second := send(), send()
		out.Close()
		synctest.Wait()
		late, _ := errors.AsType[*protocol.CallError](<-send())
		if late == nil || !late.NotSent || !late.ConversationClosed {
			t.Errorf("a call after the end of the output got %+v", late)
		}
		close(known)
		for _, done := range []<-chan error{first, second} {
			lost, _ := errors.AsType[*protocol.CallError](<-done)
			if lost == nil || lost.NotSent || !lost.MayHaveExecuted || lost.Reason != protocol.ReasonConnectionLost || lost.Cause != why {
				t.Errorf("a call that the server had got %+v", lost)
			}
		}
		if err := c.shut(); err != why {
			t.Error(err)
		}
	})
}
