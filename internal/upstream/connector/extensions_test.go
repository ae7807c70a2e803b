package connector

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// Extensions that the gateway does not relay are counted once for each connection of
// the catalog session. Other sessions are not counted.
func TestUnrelayedExtensionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method == wire.MethodInitialize {
				l.Result(m, `{"protocolVersion":"2025-11-25","capabilities":{"extensions":{"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/ui":{},"x/y":{}}}}`)
				return
			}
			upstreamtest.Legacy(nil)(l, m)
		}}
		core, logs := observer.New(zap.InfoLevel)
		metrics := NewMetrics()
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Metrics: metrics, Logger: zap.New(core)}})
		r.watch.wait(t, isReady)
		if got := testutil.ToFloat64(metrics.left); got != 2 {
			t.Errorf("%v extensions are counted, want 2", got)
		}
		if n := logs.FilterMessage("extensions of the server are not relayed, and not declared to clients").Len(); n != 1 {
			t.Errorf("%d log lines report the extensions", n)
		}
	})
}
