package protocol

import (
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// The trace context takes the place of the client's; everything else stays byte for byte.
func TestWithTrace(t *testing.T) {
	full := &call.TraceContext{Traceparent: "00-a-b-01", Tracestate: "v=1", Baggage: "u=1"}
	parent := &call.TraceContext{Traceparent: "00-a-b-01"}
	for _, tt := range []struct {
		params string
		trace  *call.TraceContext
		want   string
	}{
		{``, parent, `{"_meta":{"traceparent":"00-a-b-01"}}`},
		{`{"name": "a"}`, full, `{"name": "a","_meta":{"traceparent":"00-a-b-01","tracestate":"v=1","baggage":"u=1"}}`},
		{`{"_meta":{ "x" : 1.0 },"name":"a"}`, parent, `{"_meta":{ "x" : 1.0 ,"traceparent":"00-a-b-01"},"name":"a"}`},
		{`{"_meta":{"traceparent":"00-c-d-00","tracestate":"w=2","baggage":"z","x":1}}`, parent, `{"_meta":{"traceparent":"00-a-b-01","x":1}}`},
		{`{"_meta":7}`, full, `{"_meta":7}`},
		{`[1]`, full, `[1]`},
	} {
		var params wire.Raw
		if tt.params != "" {
			params = wire.Raw(tt.params)
		}
		if got := string(WithTrace(params, tt.trace)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.params, got, tt.want)
		}
	}
}
