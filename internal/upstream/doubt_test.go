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
	"mcpgateway/internal/wire"
)

// A server that does nothing any more is ended and started again. One that says
// anything at all is not, nor one that waits for an answer itself.
func TestHungServersAreEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		silent bool // from the call on
		after  func(l *fakeLife, m wire.Message)
		asks   bool
		ended  bool
	}{
		"nothing comes":                {silent: true, ended: true},
		"it answers, but not the call": {},
		"it answers with an error": {silent: true, after: func(l *fakeLife, m wire.Message) {
			l.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		}},
		"it says something else": {silent: true, after: func(l *fakeLife, _ wire.Message) { l.line("still busy") }},
		"it waits for an answer": {silent: true, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pings := 0
				normal := legacy(func(l *fakeLife, m wire.Message) {
					if m.Method == wire.MethodPing && m.IsRequest() {
						l.result(m, `{}`)
					} else if m.Method == wire.MethodToolsCall {
						l.result(m, `{"ok":1}`)
					}
				})
				hung := false
				s := &fakeServer{handle: func(l *fakeLife, m wire.Message) {
					switch {
					case m.Method == wire.MethodPing:
						pings++
						if tc.after != nil {
							tc.after(l, m)
						}
					case m.Method == wire.MethodToolsCall && l.n == 1:
						hung = true
						return
					}
					if tc.silent && hung && l.n == 1 {
						return
					}
					normal(l, m)
				}}
				pipe := func(ctx context.Context) (io.WriteCloser, io.ReadCloser, func() error) {
					in, out, wait := s.pipe(ctx)
					return in, out, func() error { return errors.Join(wait(), errors.New("killed")) } // as a process that is ended
				}
				r := start(t, Options{Server: Server{Pipe: pipe}, Limits: connector.Limits{Timeout: time.Minute}})
				r.watch.wait(t, isReady)
				ctx, cancel := context.WithCancel(t.Context())
				waiting := r.doing(ctx, toolCall("echo", "ann", &peer{ask: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}))
				synctest.Wait()
				if tc.asks {
					s.life(1).line(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
					synctest.Wait()
				}
				got := outcomeOf(r.Do(t.Context(), toolCall("echo", "ann", &peer{})))
				if !strings.Contains(got, "did not answer within 1m0s") {
					t.Errorf("the call: %s", got)
				}
				time.Sleep(protocol.ProbeTries*protocol.ProbeTime + time.Second)
				synctest.Wait()
				if ended := s.starts() > 1; ended != tc.ended {
					t.Errorf("after %d pings the server was started again: %v, want %v", pings, ended, tc.ended)
				}
				if tc.ended {
					equal(t, "reason", r.watch.wait(t, isDown).Reason, protocol.ErrHung.Error())
					time.Sleep(10 * time.Second) // the backoff
					if got := outcomeOf(r.Do(t.Context(), toolCall("echo", "ann", &peer{}))); strings.HasPrefix(got, "error") {
						t.Errorf("the first call after that: %s", got)
					}
				}
				cancel()
				<-waiting
			})
		})
	}
}
