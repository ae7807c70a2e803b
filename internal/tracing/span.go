package tracing

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// record holds the spans of one request of a client until it ends.
type record struct {
	tracer  *Tracer
	begin   time.Time
	baggage string // that is passed on, or ""

	mu      sync.Mutex
	begun   int // spans
	dropped int // stages without a span
	ended   []sdktrace.ReadOnlySpan
	over    bool // it is decided whether the spans are exported
	keep    bool // they are
}

// start begins a span, or returns nil if there are enough.
func (r *record) start(ctx context.Context, name string, options []trace.SpanStartOption) *span {
	r.mu.Lock()
	if r.begun >= maxSpans {
		r.dropped++
		r.mu.Unlock()
		return nil
	}
	r.begun++
	r.mu.Unlock()
	ctx, otel := r.tracer.tracer.Start(ctx, name, options...)
	return &span{record: r, ctx: ctx, otel: otel, id: otel.SpanContext().TraceID().String()}
}

// end takes a span that has ended. The end of the root decides about all.
func (r *record) end(s *span, keep bool) (exported bool) {
	one, ok := s.otel.(sdktrace.ReadOnlySpan)
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.isRoot {
		r.over, r.keep = true, keep
	}
	r.ended = append(r.ended, one)
	if !r.over {
		return false
	}
	if r.keep {
		for _, one := range r.ended {
			r.tracer.exports(keptSpan{one})
		}
	}
	r.ended = nil
	return r.keep
}

// keptSpan is a span that is exported, whether or not its trace is sampled: exporters skip spans
// that are not.
type keptSpan struct{ sdktrace.ReadOnlySpan }

// SpanContext implements sdktrace.ReadOnlySpan.
func (s keptSpan) SpanContext() trace.SpanContext {
	sc := s.ReadOnlySpan.SpanContext()
	return sc.WithTraceFlags(sc.TraceFlags() | trace.FlagsSampled)
}

// span implements [call.Span].
type span struct {
	*record
	ctx            context.Context // of the spans below it
	otel           trace.Span
	id             string // of the trace
	isCall, isRoot bool
}

// Start implements [call.Span].
func (s *span) Start(stage call.Stage, at time.Time, about call.SpanStart) call.Span {
	options := []trace.SpanStartOption{trace.WithTimestamp(at)}
	name, kind := stage.String(), trace.SpanKindInternal
	var attrs []attribute.KeyValue
	if about.Upstream != "" {
		attrs = append(attrs, attrUpstream.String(about.Upstream))
	}
	if about.Method != "" {
		name, kind = about.Method, trace.SpanKindClient
		attrs = append(attrs, attrMethod.String(about.Method))
		if about.Item != "" {
			name += " " + about.Item
			attrs = append(attrs, itemAttributes(about.Method, about.Item)...)
		}
	}
	ctx := s.ctx
	if remote := parse(contextIn(about.Params)); remote.IsValid() {
		if remote.TraceID() == s.otel.SpanContext().TraceID() {
			ctx = trace.ContextWithRemoteSpanContext(context.Background(), remote)
		} else {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: remote}))
		}
	}
	below := s.start(ctx, name, kind, append(options, trace.WithAttributes(attrs...)))
	return below
}

// start begins a span below s. If there are too many, it returns one without effect that stands
// for s.
func (s *span) start(ctx context.Context, name string, kind trace.SpanKind, options []trace.SpanStartOption) *span {
	if below := s.record.start(ctx, name, append(options, trace.WithSpanKind(kind))); below != nil {
		return below
	}
	return &span{record: s.record, ctx: s.ctx, otel: trace.SpanFromContext(trace.ContextWithSpanContext(context.Background(), s.otel.SpanContext())), id: s.id}
}

// itemAttributes returns the attributes of the item that a request names.
func itemAttributes(method, item string) []attribute.KeyValue {
	switch item = plaintext.Clip(item, maxText); wire.MethodOf(method).Item {
	case wire.ItemTool:
		return []attribute.KeyValue{attrTool.String(item), attrAction.String("execute_tool")}
	case wire.ItemPrompt:
		return []attribute.KeyValue{attrPrompt.String(item)}
	default:
		return []attribute.KeyValue{attrResource.String(item)}
	}
}

// End implements [call.Span].
func (s *span) End(at time.Time, end *call.SpanEnd) (exported bool) {
	if s.isCall {
		s.describe(end)
	}
	if end.Revision != "" && !s.isCall {
		s.otel.SetAttributes(attrRevision.String(string(end.Revision)))
	}
	if kind := errorType(end); kind != "" {
		s.otel.SetAttributes(attrError.String(kind))
		if _, ok := errors.AsType[*wire.Error](end.Err); ok {
			s.otel.SetAttributes(attrCode.String(kind))
		}
		s.otel.SetStatus(codes.Error, "") // the message may have arguments
	}
	if s.isRoot {
		s.mu.Lock()
		if s.dropped > 0 {
			s.otel.SetAttributes(attrDropped.Int(s.dropped))
		}
		s.mu.Unlock()
	}
	s.otel.End(trace.WithTimestamp(at))
	slow := s.tracer.slow()
	return s.end(s, s.otel.SpanContext().IsSampled() || end.Keep || slow > 0 && at.Sub(s.begin) >= slow)
}

// describe sets what is known of a call at its end.
func (s *span) describe(end *call.SpanEnd) {
	var attrs []attribute.KeyValue
	if one, ok := s.otel.(sdktrace.ReadOnlySpan); ok && end.Item != "" {
		method := one.Name()
		attrs = append(attrs, itemAttributes(method, end.Item)...)
		if wire.MethodOf(method).Item != wire.ItemResource {
			s.otel.SetName(method + " " + plaintext.Clip(end.Item, maxText))
		}
	}
	for key, value := range map[attribute.Key]string{attrUpstream: end.Upstream, attrRule: end.Rule, attrOutcome: end.Outcome} {
		if value != "" {
			attrs = append(attrs, key.String(value))
		}
	}
	s.otel.SetAttributes(attrs...)
}

// errorType returns the class of the error with which a call or stage ended, "" for none.
func errorType(end *call.SpanEnd) string {
	switch rpc, ok := errors.AsType[*wire.Error](end.Err); {
	case ok:
		return strconv.FormatInt(rpc.Code, 10)
	case errors.Is(end.Err, context.Canceled):
		return "cancelled"
	case errors.Is(end.Err, context.DeadlineExceeded):
		return "timeout"
	case end.Err != nil:
		return "_OTHER"
	case end.ToolError:
		return "tool_error"
	default:
		return ""
	}
}

// Link implements [call.Span].
func (s *span) Link(to *call.TraceContext) {
	if sc := parse(to); sc.IsValid() {
		s.otel.AddLink(trace.Link{SpanContext: sc})
	}
}

// Context implements [call.Span].
func (s *span) Context() *call.TraceContext {
	sc := s.otel.SpanContext()
	return &call.TraceContext{
		Traceparent: "00-" + s.id + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String(),
		Tracestate:  sc.TraceState().String(),
		Baggage:     s.baggage,
	}
}

// TraceID implements [call.Span].
func (s *span) TraceID() string { return s.id }
