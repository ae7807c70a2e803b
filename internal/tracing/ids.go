package tracing

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// newTraceID returns the id of a new trace.
func newTraceID() (id trace.TraceID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id
}

// newSpanID returns the id of a new span.
func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// traceparent returns the header of W3C Trace Context, version 00.
func traceparent(trace trace.TraceID, span trace.SpanID, flags trace.TraceFlags) string {
	var text [55]byte
	out := append(text[:0], "00-"...)
	out = append(hex.AppendEncode(out, trace[:]), '-')
	out = append(hex.AppendEncode(out, span[:]), '-')
	return string(hex.AppendEncode(out, []byte{byte(flags)}))
}
