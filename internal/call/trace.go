package call

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"mcpgateway/internal/wire"
)

// Stage is a part of the way of a call that takes time.
type Stage uint8

// The stages. The time of StageUpstream contains that of the questions which the upstream asks
// meanwhile, and StageAsk contains StageParked. StageReplica contains the stages of the call at
// the other replica, which are added when it has answered.
const (
	StageAuthorize Stage = iota // policy decides, and the audit has the decision
	StageConfirm                // the client's user confirms the call
	StageReplica                // another replica has the call, because it has the session with the upstream
	StageSlot                   // the call waits for a slot at its upstream
	StageConnect                // the call waits for the connection with its upstream
	StageUpstream               // one attempt: the upstream has the call
	StageAsk                    // the client has a question of the upstream
	StageParked                 // a modern client is expected to come back with answers
	NumStages
)

var stageNames = [NumStages]string{"authorize", "confirm", "replica", "slot", "connect", "upstream", "ask", "parked"}

// String returns the name of the stage in logs and traces.
func (s Stage) String() string { return stageNames[s] }

// TraceContext is a trace context as it travels between programs (W3C Trace Context, W3C Baggage;
// SEP-414 for its place in _meta). Empty members are absent.
type TraceContext struct{ Traceparent, Tracestate, Baggage string }

// TraceID returns the id of the trace, in hexadecimal digits, "" if c is nil or malformed.
func (c *TraceContext) TraceID() string {
	if c == nil {
		return ""
	}
	parts := strings.Split(c.Traceparent, "-") // version, trace, parent, flags
	if len(parts) < 4 {
		return ""
	}
	return parts[1]
}

// Tracer begins the spans of calls. Its methods may be called concurrently.
type Tracer interface {
	// Begin begins the span of a call. method is a method of the protocol, or "other". parent is the span of the call that makes it, nil for a
	// request of a client: then the parent is the trace context that the client has sent.
	Begin(c *Call, method string, parent Span, at time.Time) Span
}

// Span is a span of a trace. Its methods may be called concurrently. No text that it gets is an argument of a call or a
// secret.
type Span interface {
	// Start begins a span below this one.
	Start(stage Stage, at time.Time, about SpanStart) Span
	// End ends the span. It is called once. It reports whether the trace of a call is exported.
	End(at time.Time, end SpanEnd) (exported bool)
	// Link says that this span continues what another span began, in another trace or in this one.
	Link(to *TraceContext)
	// Context returns the trace context whose parent is this span.
	Context() *TraceContext
	// TraceID returns the id of the trace, in hexadecimal digits.
	TraceID() string
}

// SpanStart has the data about a stage at its beginning. Empty members are not known.
type SpanStart struct {
	Method, Item, Upstream string
	Peer                   *Peer // that gets the request, if it is an upstream
	// Params have the trace context of the request that begins the stage, in _meta.
	Params wire.Raw
}

// Peer says how the gateway reaches an upstream. It is immutable.
type Peer struct {
	OverHTTP bool
	Address  string // the host, "" for a program on this machine
	Port     int    // 0 without an address
}

// SpanEnd has the data about a call or a stage at its end. Empty members are not known.
type SpanEnd struct {
	Err       error
	Outcome   string // of a call
	ToolError bool   // the result of a tool says that it failed
	Keep      bool   // the trace is exported, whether or not it is sampled
	Item      string // public name
	Upstream  string
	Rule      string
	Revision  wire.Revision // of the upstream that answered
}

// Trace records how long a call spends in each stage, and has the call's span if calls are traced. The
// zero Trace records nothing. It must not be copied after Begin. Methods may be called on nil, and,
// after Begin, concurrently.
type Trace struct {
	// Message is the id of the request, as the client has sent it.
	Message wire.ID
	// Incoming is the trace context that came with the request outside of its params, or nil.
	Incoming *TraceContext
	// Parent is the span of the call that makes this one, or nil.
	Parent Span
	// Resumed is the public name of the item of the parked call that the request has resumed, "" if
	// it has resumed none.
	Resumed string
	// First is the id of the request that began that call, "" for none.
	First string

	clock   func() time.Time
	span    Span
	spent   [NumStages]atomic.Int64
	replica atomic.Pointer[string]
}

// Begin makes the trace record stages. span may be nil. It is called at most once.
func (t *Trace) Begin(clock func() time.Time, span Span) {
	if t != nil {
		t.clock, t.span = clock, span
	}
}

// Follow copies the id, the trace context and the parent of a request to the trace of a call that the request begins.
func (t *Trace) Follow(request *Trace) {
	if request != nil {
		t.Message, t.Incoming, t.Parent = request.Message, request.Incoming, request.Parent
	}
}

// Span returns the span of the call, nil if calls are not traced.
func (t *Trace) Span() Span {
	if t == nil {
		return nil
	}
	return t.span
}

// ID returns the id of the call's trace, "" if calls are not traced.
func (t *Trace) ID() string {
	if t == nil || t.span == nil {
		return ""
	}
	return t.span.TraceID()
}

// Traceparent returns the trace context of the call's span, "" if calls are not traced.
func (t *Trace) Traceparent() string {
	if span := t.Span(); span != nil {
		return span.Context().Traceparent
	}
	return ""
}

// Continue links the span of the call to the span with this trace context, which began the work; "" means that there is
// none.
func (t *Trace) Continue(traceparent string) {
	if span := t.Span(); span != nil && traceparent != "" {
		span.Link(&TraceContext{Traceparent: traceparent})
	}
}

// Spent returns the time that the call has spent in a stage so far. The times of overlapping stages of the same kind
// are added.
func (t *Trace) Spent(s Stage) time.Duration {
	if t == nil {
		return 0
	}
	return time.Duration(t.spent[s].Load())
}

// Add adds the time that the call has spent in a stage at another replica.
func (t *Trace) Add(s Stage, spent time.Duration) {
	if t != nil && t.clock != nil {
		t.spent[s].Add(int64(spent))
	}
}

// Forward notes that the call is forwarded to another replica, whether or not the trace has begun.
func (t *Trace) Forward(replica string) {
	if t != nil {
		t.replica.Store(&replica)
	}
}

// Unforward notes that this replica makes the call after all, because the replica to which it was forwarded has ended or no
// longer has the session or the task. The trace then has neither the name of that replica nor the time of StageReplica.
func (t *Trace) Unforward() {
	if t != nil {
		t.replica.Store(nil)
		t.spent[StageReplica].Store(0)
	}
}

// Replica returns the name of the replica to which the call was forwarded last, "" if this replica made it.
func (t *Trace) Replica() string {
	if t == nil {
		return ""
	}
	if name := t.replica.Load(); name != nil {
		return *name
	}
	return ""
}

// Start begins a stage. Its span is below that of ctx, see [ContextWithSpan], or else below that
// of the call. The caller calls [Timer.End].
func (t *Trace) Start(ctx context.Context, s Stage, about SpanStart) Timer {
	if t == nil || t.clock == nil {
		return Timer{}
	}
	m := Timer{trace: t, stage: s, began: t.clock()}
	if t.span != nil {
		parent := t.span
		if own, ok := ctx.Value(spanKey{}).(Span); ok {
			parent = own
		}
		m.Span = parent.Start(s, m.began, about)
	}
	return m
}

// Timer is a stage that has begun. The zero Timer records nothing.
type Timer struct {
	Span  Span // nil if calls are not traced
	trace *Trace
	began time.Time
	stage Stage
}

// End ends the stage. err is why it failed, nil if it did not.
func (m *Timer) End(err error) { m.EndWith(SpanEnd{Err: err}) }

// EndWith is End with more to say about the stage.
func (m *Timer) EndWith(end SpanEnd) {
	if m.trace == nil {
		return
	}
	now := m.trace.clock()
	m.trace.spent[m.stage].Add(int64(now.Sub(m.began)))
	if m.Span != nil {
		m.Span.End(now, end)
	}
}

// Context returns the trace context whose parent is the stage, nil if calls are not traced.
func (m *Timer) Context() *TraceContext {
	if m.Span == nil {
		return nil
	}
	return m.Span.Context()
}

type spanKey struct{}

// ContextWithSpan returns a context below whose span [Trace.Start] begins spans. It is ctx itself
// if span is nil.
func ContextWithSpan(ctx context.Context, span Span) context.Context {
	if span == nil {
		return ctx
	}
	return context.WithValue(ctx, spanKey{}, span)
}
