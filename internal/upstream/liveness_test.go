package upstream

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// A server that sends nothing at all is ended and started again. A server that sends
// anything, or that waits for an answer to its own request, is kept.
func TestUnresponsiveProcessIsRestarted(t *testing.T) {
	for name, tc := range map[string]struct {
		silent bool // the server answers nothing after the call
		after  func(l *upstreamtest.Instance, m wire.Message)
		asks   bool
		ended  bool
	}{
		"no messages":               {silent: true, ended: true},
		"it answers other requests": {},
		"it answers with an error": {silent: true, after: func(l *upstreamtest.Instance, m wire.Message) {
			l.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		}},
		"it sends something else": {silent: true, after: func(l *upstreamtest.Instance, _ wire.Message) { l.Line("still busy") }},
		"it asks the client":      {silent: true, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pings := 0
				normal := upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method == wire.MethodPing && m.IsRequest() {
						l.Result(m, `{}`)
					} else if m.Method == wire.MethodToolsCall {
						l.Result(m, `{"ok":1}`)
					}
				})
				called := false
				s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
					switch {
					case m.Method == wire.MethodPing:
						pings++
						if tc.after != nil {
							tc.after(l, m)
						}
					case m.Method == wire.MethodToolsCall && l.N == 1:
						called = true
						return
					}
					if tc.silent && called && l.N == 1 {
						return
					}
					normal(l, m)
				}}
				pipe := func(ctx context.Context) (io.WriteCloser, io.ReadCloser, func() error) {
					in, out, wait := s.Pipe(ctx)
					return in, out, func() error { return errors.Join(wait(), errors.New("killed")) } // as a process that is ended
				}
				r := start(t, Options{Server: Server{Pipe: pipe}, Limits: connector.Limits{Timeout: time.Minute}})
				r.watch.wait(t, isReady)
				ctx, cancel := context.WithCancel(t.Context())
				waiting := r.doing(ctx, upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{OnAsk: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}))
				synctest.Wait()
				if tc.asks {
					s.Instance(1).Line(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
					synctest.Wait()
				}
				got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{})))
				if !strings.Contains(got, "did not answer within 1m0s") {
					t.Errorf("the call: %s", got)
				}
				time.Sleep(protocol.ProbeTries*protocol.ProbeTime + time.Second)
				synctest.Wait()
				if ended := s.Starts() > 1; ended != tc.ended {
					t.Errorf("after %d pings the server was started again: %v, want %v", pings, ended, tc.ended)
				}
				if tc.ended {
					upstreamtest.Equal(t, "reason", r.watch.wait(t, isDown).Reason, protocol.ErrHung.Error())
					time.Sleep(10 * time.Second) // the backoff
					if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))); strings.HasPrefix(got, "error") {
						t.Errorf("first call afterwards: %s", got)
					}
				}
				cancel()
				<-waiting
			})
		})
	}
}
