package gateway

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/upstream"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// A reload of an unchanged configuration has an upstream that is down tried again, and lists that have failed gathered.
func TestReloadTriesAgain(t *testing.T) {
	for method, state := range map[string]connector.State{wire.MethodInitialize: connector.Down, wire.MethodToolsList: connector.Degraded} {
		t.Run(state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				broken.Store(true)
				s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
					switch {
					case m.Method == method && broken.Load():
						l.Refuse(m, -32000, "no")
					case m.Method == wire.MethodInitialize:
						l.Result(m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}`)
					case m.Method == wire.MethodToolsList:
						l.Result(m, upstreamtest.TwoTools)
					}
				}}
				g := newIdleGateway(t, "upstreams: {files: {command: cat}}")
				o := g.commonOptions("files")
				o.Pipe = s.Pipe
				conn := g.generation.Load().entry("files").conn
				conn.sessions = upstream.NewSessions(o)
				ctx, cancel := context.WithCancel(t.Context())
				g.group = new(errgroup.Group)
				g.startConnection(ctx, conn)
				time.Sleep(10 * time.Minute)
				if got := conn.sessions.Snapshot().State; got != state {
					t.Errorf("the upstream is %s, want %s", got, state)
				}
				broken.Store(false)
				if changes, _, err := g.applyConfig(ctx, g.cfg, nil); err != nil || changes.Any() {
					t.Errorf("changes %+v, %v", changes, err)
				}
				time.Sleep(protocol.AttemptGap)
				synctest.Wait()
				if got := conn.sessions.Snapshot().State; got != connector.Ready {
					t.Errorf("after a reload the upstream is %s", got)
				}
				cancel()
				<-conn.ended
			})
		})
	}
}
