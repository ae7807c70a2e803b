package upstream

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

func TestCallCapabilities(t *testing.T) {
	for _, tc := range []struct{ declared, want string }{
		{``, `{}`},
		{`7`, `{}`},
		{`{"sampling":{"context":{}},"x":1.0}`, `{"sampling":{},"x":1.0}`},
		{`{"extensions":{"io.modelcontextprotocol/tasks":{}, "io.modelcontextprotocol/ui":{"a":1e2}}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}, "io.modelcontextprotocol/ui":{"a":1e2}}}`},
		{`{"extensions":{"a/b":{},"io.modelcontextprotocol/ui":{},"c/d":{},"e/f":{}}}`, `{"extensions":{"io.modelcontextprotocol/ui":{}}}`},
		{`{"extensions":{"a/b":{},"c/d":{}}}`, `{"extensions":{}}`},
		{`{"extensions":[]}`, `{"extensions":[]}`},
	} {
		equal(t, tc.declared, string(protocol.CallCapabilities(&call.Client{Capabilities: wire.Raw(tc.declared)})), tc.want)
	}
}

// Extensions of a server that the gateway does not relay are counted once for each
// conversation, whatever sessions of clients there are beside it.
func TestUnrelayedExtensionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{handle: func(l *fakeLife, m wire.Message) {
			if m.Method == wire.MethodInitialize {
				l.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"extensions":{"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/ui":{},"x/y":{}}}}`)
				return
			}
			legacy(nil)(l, m)
		}}
		core, logs := observer.New(zap.InfoLevel)
		metrics := NewMetrics()
		r := start(t, Options{Pipe: s.pipe, Metrics: metrics, Logger: zap.New(core)})
		r.watch.wait(t, isReady)
		if got := testutil.ToFloat64(metrics.left); got != 2 {
			t.Errorf("%v extensions are counted, want 2", got)
		}
		if n := logs.FilterMessage("extensions of the server are not relayed, and not declared to clients").Len(); n != 1 {
			t.Errorf("%d lines of the log tell of them", n)
		}
	})
}
