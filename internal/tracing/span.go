package tracing

import (
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// usualSpans is how many spans an ordinary call has: its own, that of the decision of policy, and an
// attempt. They are allocated together.
const usualSpans = 3

// record holds the spans of one request of a client until it ends. Spans are plain values until it is
// decided that they are exported: most are not.
type record struct {
	tracer   *Tracer
	trace    trace.TraceID
	flags    trace.TraceFlags // that upstreams see
	state    trace.TraceState
	baggage  string // that is passed on, or ""
	rootCall callInfo

	mu      sync.Mutex
	begun   int   // spans
	dropped int   // stages without a span
	ended   *span // the last one that has ended, see span.before
	over    bool  // it is decided whether the spans are exported
	keep    bool  // they are

	usual [usualSpans]span
}

// callInfo has the data about a call. The mutex of the record guards end.
type callInfo struct {
	request, message, profile string
	revision                  wire.Revision
	overHTTP                  bool
	end                       *call.SpanEnd
}

// span implements [call.Span].
type span struct {
	record       *record
	call         *callInfo // nil for a stage
	method, item string    // of the request that the stage sends, and of a call
	upstream     string
	peer         *call.Peer
	id, parent   trace.SpanID
	begin        time.Time
	stage        call.Stage
	kind         trace.SpanKind // unspecified for a span that stands for another one
	remote       bool           // the parent is a span of another program

	// The mutex of the record guards the rest.
	took     time.Duration
	hasEnded bool
	err      error
	revision wire.Revision // of the upstream that answered
	links    []trace.SpanContext
	before   *span // that has ended before
}

// add begins a span, or returns nil if there are enough.
func (r *record) add() *span {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun >= maxSpans {
		r.dropped++
		return nil
	}
	r.begun++
	if r.begun <= usualSpans {
		return &r.usual[r.begun-1]
	}
	return new(span)
}

// under begins a span below s. If there are too many, ok is false, and the span is one without effect
// that stands for s: what is below it is left out too.
func (s *span) under(at time.Time) (below *span, ok bool) {
	if below = s.record.add(); below == nil {
		return &span{record: s.record, id: s.id}, false
	}
	below.record, below.id, below.parent, below.begin = s.record, newSpanID(), s.id, at
	return below, true
}

// Start implements [call.Span].
func (s *span) Start(stage call.Stage, at time.Time, about call.SpanStart) call.Span {
	below, ok := s.under(at)
	if !ok {
		return below
	}
	below.stage, below.kind = stage, trace.SpanKindInternal
	below.method, below.item, below.upstream, below.peer = about.Method, about.Item, about.Upstream, about.Peer
	if about.Method != "" {
		below.kind = trace.SpanKindClient
	}
	if remote := parse(contextIn(about.Params)); remote.IsValid() {
		if remote.TraceID() == s.record.trace {
			below.parent, below.remote = remote.SpanID(), true
		} else {
			below.links = append(below.links, remote)
		}
	}
	return below
}

// isRoot reports whether s is the span of the request.
func (s *span) isRoot() bool { return s.call == &s.record.rootCall }

// isCounted reports whether s is a span, and not one that stands for another.
func (s *span) isCounted() bool { return s.kind != trace.SpanKindUnspecified }

// End implements [call.Span]. The end of the root decides about all spans.
func (s *span) End(at time.Time, end call.SpanEnd) (exported bool) {
	if !s.isCounted() {
		return false
	}
	r := s.record
	keep := false
	if s.isRoot() {
		slow := r.tracer.slow()
		keep = r.flags.IsSampled() || end.Keep || slow > 0 && at.Sub(s.begin) >= slow
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.took, s.hasEnded, s.err, s.revision = at.Sub(s.begin), true, end.Err, end.Revision
	if s.isRoot() {
		r.over, r.keep = true, keep
	}
	if r.over && !r.keep {
		r.ended = nil
		return false
	}
	if s.call != nil {
		s.call.end = new(end)
	}
	s.before, r.ended = r.ended, s
	if r.over {
		r.export()
	}
	return r.over
}

// export exports the spans that have ended, in the order of their ends. The caller holds mu.
func (r *record) export() {
	var all []*span
	for one := r.ended; one != nil; one = one.before {
		all = append(all, one)
	}
	r.ended = nil
	for _, one := range slices.Backward(all) {
		r.tracer.exports(one.finished())
	}
}

// Link implements [call.Span].
func (s *span) Link(to *call.TraceContext) {
	sc := parse(to)
	if !sc.IsValid() || !s.isCounted() {
		return
	}
	s.record.mu.Lock()
	defer s.record.mu.Unlock()
	if !s.hasEnded { // what has ended may be with the exporter
		s.links = append(slices.Clip(s.links), sc)
	}
}

// Context implements [call.Span].
func (s *span) Context() *call.TraceContext {
	return &call.TraceContext{Traceparent: traceparent(s.record.trace, s.id, s.record.flags), Tracestate: s.record.state.String(), Baggage: s.record.baggage}
}

// TraceID implements [call.Span].
func (s *span) TraceID() string { return s.record.trace.String() }
