package tracing

import (
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// BenchmarkCall is what the spans of an ordinary call cost, by whether it is exported.
func BenchmarkCall(b *testing.B) {
	for name, ratio := range map[string]float64{"dropped": 0, "exported": 1} {
		b.Run(name, func(b *testing.B) {
			tr, out := tracerWith(ratio, time.Hour)
			c := newCall(`{"name":"files__read","arguments":{"path":"x"}}`, nil)
			b.ReportAllocs()
			for b.Loop() {
				span := begin(tr, c)
				span.Start(call.StageAuthorize, start, call.SpanStart{}).End(start, call.SpanEnd{})
				up := span.Start(call.StageUpstream, start, call.SpanStart{Method: wire.MethodToolsCall, Item: "read", Upstream: "files"})
				up.Context()
				up.End(start, call.SpanEnd{Revision: wire.Rev20251125})
				span.End(start, call.SpanEnd{Item: "files__read", Upstream: "files", Outcome: "ok"})
				out.spans = out.spans[:0]
			}
		})
	}
}
