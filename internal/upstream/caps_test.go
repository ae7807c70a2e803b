package upstream

import (
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
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
		upstreamtest.Equal(t, tc.declared, string(protocol.CallCapabilities(&call.Client{Capabilities: wire.Raw(tc.declared)})), tc.want)
	}
}
