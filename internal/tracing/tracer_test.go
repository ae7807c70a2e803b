package tracing

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

var start = time.Unix(1_800_000_000, 0)

const (
	sampled   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	other     = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// exported collects exported spans.
type exported struct{ spans []sdktrace.ReadOnlySpan }

func tracerWith(ratio float64, slow time.Duration) (*Tracer, *exported) {
	e := new(exported)
	return newTracer(ratio, resource.Empty(), func() time.Duration { return slow }, func(s sdktrace.ReadOnlySpan) { e.spans = append(e.spans, s) }), e
}

func newCall(params string, headers *call.TraceContext) *call.Call {
	c := &call.Call{
		ID: "r1", Method: wire.MethodToolsCall, Params: wire.Raw(params), Principal: call.Anonymous, Remote: "192.0.2.1:1",
		Client: &call.Client{Revision: wire.Rev20251125}, Trace: &call.Trace{Incoming: headers, Message: wire.IDOf(`"seven"`)},
	}
	return c
}

func begin(t *Tracer, c *call.Call) call.Span { return t.Begin(c, c.Method, nil, start) }

// The parent of a call is the context in _meta, then that of the headers; a malformed one counts as
// none.
func TestParents(t *testing.T) {
	inMeta := func(traceparent string) string { return `{"_meta":{"traceparent":"` + traceparent + `"}}` }
	for _, tt := range []struct {
		name, params string
		headers      *call.TraceContext
		parent       string
		links        int
	}{
		{"none", `{}`, nil, "", 0},
		{"no params", ``, nil, "", 0},
		{"headers", `{}`, &call.TraceContext{Traceparent: sampled}, sampled, 0},
		{"meta", inMeta(sampled), nil, sampled, 0},
		{"both", inMeta(sampled), &call.TraceContext{Traceparent: other}, sampled, 1},
		{"the same in both", inMeta(sampled), &call.TraceContext{Traceparent: sampled}, sampled, 0},
		{"malformed", inMeta("00-zz"), nil, "", 0},
		{"malformed in meta", inMeta("00-zz"), &call.TraceContext{Traceparent: other}, other, 0},
		{"not a string", `{"_meta":{"traceparent":7}}`, nil, "", 0},
		{"meta is no object", `{"_meta":"x"}`, nil, "", 0},
		{"zero", inMeta("00-00000000000000000000000000000000-0000000000000000-01"), nil, "", 0},
	} {
		tr, out := tracerWith(1, 0)
		begin(tr, newCall(tt.params, tt.headers)).End(start, call.SpanEnd{})
		if len(out.spans) != 1 {
			t.Errorf("%s: %d spans", tt.name, len(out.spans))
			continue
		}
		s, want := out.spans[0], parse(&call.TraceContext{Traceparent: tt.parent})
		if s.Parent().SpanID() != want.SpanID() || want.IsValid() && s.SpanContext().TraceID() != want.TraceID() || len(s.Links()) != tt.links {
			t.Errorf("%s: parent %v, trace %s, %d links", tt.name, s.Parent(), s.SpanContext().TraceID(), len(s.Links()))
		}
	}
}

// A trace is exported if its parent is sampled, by ratio if it begins here, and always if the call
// says so or is slow. What goes to the upstream says what was known at the beginning.
func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		name, parent string
		ratio        float64
		end          call.SpanEnd
		took         time.Duration
		want         bool
		flags        string
	}{
		{"ratio 1", "", 1, call.SpanEnd{}, 0, true, "01"},
		{"ratio 0", "", 0, call.SpanEnd{}, 0, false, "00"},
		{"sampled parent", sampled, 0, call.SpanEnd{}, 0, true, "01"},
		{"parent that is not", unsampled, 1, call.SpanEnd{}, 0, false, "00"},
		{"a failure", unsampled, 0, call.SpanEnd{Keep: true}, 0, true, "00"},
		{"an error of the client", unsampled, 0, call.SpanEnd{Err: wire.Errorf(wire.CodeInvalidParams, "no")}, 0, false, "00"},
		{"a slow call", unsampled, 0, call.SpanEnd{}, time.Second, true, "00"},
		{"a fast call", unsampled, 0, call.SpanEnd{}, time.Second - 1, false, "00"},
	} {
		tr, out := tracerWith(tt.ratio, time.Second)
		s := begin(tr, newCall(`{}`, &call.TraceContext{Traceparent: tt.parent}))
		below := s.Start(call.StageUpstream, start, call.SpanStart{Method: wire.MethodToolsCall})
		if got := below.Context().Traceparent; !strings.HasSuffix(got, "-"+tt.flags) {
			t.Errorf("%s: sent %s", tt.name, got)
		}
		below.End(start, call.SpanEnd{})
		got := s.End(start.Add(tt.took), tt.end)
		n := 0
		if tt.want {
			n = 2
		}
		if got != tt.want || len(out.spans) != n {
			t.Errorf("%s: exported %v, %d spans", tt.name, got, len(out.spans))
		}
		for _, one := range out.spans {
			if !one.SpanContext().IsSampled() {
				t.Errorf("%s: an exporter would skip %s", tt.name, one.Name())
			}
		}
	}
}

// A span that ends after its call is exported as the call was.
func TestLateSpans(t *testing.T) {
	for ratio, want := range map[float64]int{0: 0, 1: 2} {
		tr, out := tracerWith(ratio, 0)
		s := begin(tr, newCall(`{}`, nil))
		late := s.Start(call.StageAsk, start, call.SpanStart{Method: wire.MethodElicit})
		s.End(start, call.SpanEnd{})
		late.End(start, call.SpanEnd{})
		if len(out.spans) != want {
			t.Errorf("ratio %v: %d spans", ratio, len(out.spans))
		}
	}
}

func attributesOfSpan(s sdktrace.ReadOnlySpan) (out []string) {
	for _, a := range s.Attributes() {
		out = append(out, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
	}
	slices.Sort(out)
	return out
}

func TestAttributes(t *testing.T) {
	tr, out := tracerWith(1, 0)
	s := begin(tr, newCall(`{"name":"files__read","arguments":{"path":"secret"}}`, nil))
	up := s.Start(call.StageUpstream, start, call.SpanStart{Method: wire.MethodToolsCall, Item: "read", Upstream: "files"})
	up.End(start, call.SpanEnd{Err: wire.Errorf(wire.CodeInternal, "secret")})
	s.End(start, call.SpanEnd{
		Err: wire.Errorf(wire.CodeInternal, "secret"), Outcome: "error", Item: "files__read", Upstream: "files", Rule: "default",
	})
	if len(out.spans) != 2 {
		t.Fatalf("%d spans", len(out.spans))
	}
	for i, want := range []struct {
		name, kind string
		attrs      []string
	}{
		{"tools/call read", "client", []string{
			"error.type=-32603", "gen_ai.operation.name=execute_tool", "gen_ai.tool.name=read", "mcp.method.name=tools/call",
			"mcpgateway.upstream=files", "rpc.response.status_code=-32603",
		}},
		{"tools/call files__read", "server", []string{
			"error.type=-32603", "gen_ai.operation.name=execute_tool", "gen_ai.tool.name=files__read", "jsonrpc.request.id=seven",
			"mcp.method.name=tools/call", "mcp.protocol.version=2025-11-25", "mcpgateway.outcome=error", "mcpgateway.request.id=r1",
			"mcpgateway.rule=default", "mcpgateway.upstream=files", "network.protocol.name=http", "network.transport=tcp", "rpc.response.status_code=-32603",
		}},
	} {
		got := out.spans[i]
		if diff := cmp.Diff(want.attrs, attributesOfSpan(got)); diff != "" || got.Name() != want.name || got.SpanKind().String() != want.kind {
			t.Errorf("%s %s: %s", got.SpanKind(), got.Name(), diff)
		}
		if got.Status().Code != codes.Error || strings.Contains(got.Status().Description, "secret") {
			t.Errorf("%s: status %v", got.Name(), got.Status())
		}
	}
}

func TestErrorTypes(t *testing.T) {
	for want, end := range map[string]call.SpanEnd{
		"": {}, "cancelled": {Err: context.Canceled}, "timeout": {Err: context.DeadlineExceeded}, "tool_error": {ToolError: true},
		"_OTHER": {Err: errors.New("secret")}, "-32602": {Err: wire.Errorf(wire.CodeInvalidParams, "secret")},
	} {
		if got := errorType(end.Err, end.ToolError); got != want {
			t.Errorf("%+v: %q, want %q", end, got, want)
		}
	}
}

// A call has a bounded number of spans, and says how many it left out.
func TestSpansAreBounded(t *testing.T) {
	tr, out := tracerWith(1, 0)
	s := begin(tr, newCall(`{}`, nil))
	for range maxSpans + 9 {
		below := s.Start(call.StageUpstream, start, call.SpanStart{Method: wire.MethodToolsCall})
		if below.Context().Traceparent == "" {
			t.Fatal("a stage without a span has no context")
		}
		below.Start(call.StageAsk, start, call.SpanStart{}).End(start, call.SpanEnd{})
		below.End(start, call.SpanEnd{})
	}
	s.End(start, call.SpanEnd{})
	if len(out.spans) != maxSpans {
		t.Errorf("%d spans", len(out.spans))
	}
	root := out.spans[len(out.spans)-1]
	if !slices.Contains(root.Attributes(), attribute.Int("mcpgateway.dropped_spans", 2*(maxSpans+9)+1-maxSpans)) {
		t.Errorf("%v", attributesOfSpan(root))
	}
}

// A call inside of another one is a span of its trace.
func TestInnerCalls(t *testing.T) {
	tr, out := tracerWith(1, 0)
	s := begin(tr, newCall(`{}`, nil))
	inner := tr.Begin(newCall(`{"_meta":{"traceparent":"`+other+`"}}`, nil), wire.MethodToolsCall, s, start)
	inner.End(start, call.SpanEnd{Item: "files__read"})
	s.End(start, call.SpanEnd{})
	if len(out.spans) != 2 || out.spans[0].Parent().SpanID() != out.spans[1].SpanContext().SpanID() || out.spans[0].Name() != "tools/call files__read" {
		t.Errorf("%v", out.spans)
	}
}

// A question that an upstream asks is below the span that the upstream names in this trace. A span
// of another trace is a link.
func TestAsks(t *testing.T) {
	tr, out := tracerWith(1, 0)
	s := begin(tr, newCall(`{}`, &call.TraceContext{Traceparent: sampled}))
	for _, traceparent := range []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01", other} {
		params := wire.Raw(`{"_meta":{"traceparent":"` + traceparent + `"}}`)
		s.Start(call.StageAsk, start, call.SpanStart{Method: wire.MethodElicit, Params: params}).End(start, call.SpanEnd{})
	}
	s.End(start, call.SpanEnd{})
	if got := out.spans[0].Parent().SpanID().String(); got != "1111111111111111" {
		t.Errorf("parent %s", got)
	}
	if got := out.spans[1]; got.Parent().SpanID() != out.spans[2].SpanContext().SpanID() || len(got.Links()) != 1 {
		t.Errorf("parent %v, %d links", got.Parent(), len(got.Links()))
	}
}

// The context that is passed on fits into a header, whatever a client sends.
func TestBaggageAndStateArePassedOn(t *testing.T) {
	for _, tt := range []struct{ meta, header, want string }{
		{`"baggage":"user=alice,x=1"`, "", "user=alice,x=1"},
		{`"baggage":"a=1"`, "b=2", "a=1"},
		{``, "b=2", "b=2"},
		{`"baggage":"a=1\r\nAuthorization: x"`, "", ""},
		{`"baggage":"` + strings.Repeat("a=1,", 3000) + `"`, "", ""},
		{`"baggage":7`, "b=2", "b=2"},
	} {
		tr, _ := tracerWith(1, 0)
		meta := `{"_meta":{"traceparent":"` + sampled + `","tracestate":"vendor=1\r\nX: y"`
		if tt.meta != "" {
			meta += "," + tt.meta
		}
		got := begin(tr, newCall(meta+"}}", &call.TraceContext{Baggage: tt.header})).Context()
		parts := strings.Split(got.Baggage, ",")
		slices.Sort(parts)
		if strings.Join(parts, ",") != tt.want || got.Tracestate != "" {
			t.Errorf("%.60s, %s: %+v", tt.meta, tt.header, got)
		}
	}
	tr, _ := tracerWith(1, 0)
	c := begin(tr, newCall(`{}`, &call.TraceContext{Traceparent: sampled, Tracestate: "vendor=1,other=2"})).Context()
	if c.Tracestate != "vendor=1,other=2" || !strings.HasPrefix(c.Traceparent, sampled[:36]) || strings.HasPrefix(c.Traceparent, sampled[:52]) {
		t.Errorf("%+v", c)
	}
}

func TestLinks(t *testing.T) {
	tr, out := tracerWith(1, 0)
	s := begin(tr, newCall(`{}`, nil))
	s.Link(&call.TraceContext{Traceparent: other})
	s.Link(&call.TraceContext{Traceparent: "malformed"})
	s.End(start, call.SpanEnd{})
	if links := out.spans[0].Links(); len(links) != 1 || links[0].SpanContext.TraceID().String() != other[3:35] {
		t.Errorf("%v", links)
	}
}

// The type of exported spans implements every method of the SDK's interface itself: the embedded interface is nil.
func TestEveryMethodOfAnExportedSpan(t *testing.T) {
	tr, out := tracerWith(1, 0)
	begin(tr, newCall(`{}`, nil)).End(start, call.SpanEnd{})
	span := reflect.ValueOf(out.spans[0])
	all := reflect.TypeFor[sdktrace.ReadOnlySpan]()
	for i := range all.NumMethod() {
		if m := all.Method(i); m.IsExported() {
			span.MethodByName(m.Name).Call(nil) // panics if it is that of the nil interface
		}
	}
}

// A call that is not exported allocates its record, and what its attempt sends to the upstream.
func TestAllocationsOfACallThatIsNotExported(t *testing.T) {
	tr, _ := tracerWith(0, time.Hour)
	c := newCall(`{"name":"files__read","arguments":{"path":"x"}}`, nil)
	var span call.Span
	n := testing.AllocsPerRun(100, func() {
		span = begin(tr, c)
		span.Start(call.StageAuthorize, start, call.SpanStart{}).End(start, call.SpanEnd{})
		up := span.Start(call.StageUpstream, start, call.SpanStart{Method: wire.MethodToolsCall, Item: "read", Upstream: "files"})
		up.End(start, call.SpanEnd{Revision: wire.Rev20251125})
		span.End(start, call.SpanEnd{Item: "files__read", Upstream: "files", Outcome: "ok"})
	})
	if n != 1 {
		t.Errorf("%v allocations, want 1", n)
	}
	if n := testing.AllocsPerRun(100, func() { span.Context() }); n != 2 {
		t.Errorf("a context takes %v allocations, want 2", n)
	}
}

// A server has not failed if the client has sent what it cannot serve; for a client every error is one.
func TestFaultsOfTheCaller(t *testing.T) {
	for code, failed := range map[int64]bool{
		wire.CodeParse: false, wire.CodeInvalidRequest: false, wire.CodeMethodNotFound: false, wire.CodeInvalidParams: false,
		wire.CodeResourceNotFound: false, wire.CodeInternal: true, -32001: true, wire.CodeURLElicitation: true, 7: true,
	} {
		tr, out := tracerWith(1, 0)
		s, err := begin(tr, newCall(`{}`, nil)), wire.Errorf(code, "secret")
		s.Start(call.StageUpstream, start, call.SpanStart{Method: wire.MethodToolsCall}).End(start, call.SpanEnd{Err: err})
		s.End(start, call.SpanEnd{Err: err})
		for i, want := range []bool{true, failed} {
			got := attributesOfSpan(out.spans[i])
			text := strconv.FormatInt(code, 10)
			if (out.spans[i].Status().Code == codes.Error) != want || slices.Contains(got, "error.type="+text) != want || !slices.Contains(got, "rpc.response.status_code="+text) {
				t.Errorf("%d, span %d: status %v, %v", code, i, out.spans[i].Status(), got)
			}
		}
	}
}

// The span of a request says how its peer is reached, and which revision both speak.
func TestAttributesOfPeers(t *testing.T) {
	for _, tt := range []struct {
		stage call.Stage
		about call.SpanStart
		want  string
	}{
		{call.StageUpstream, call.SpanStart{Method: "ping", Peer: &call.Peer{OverHTTP: true, Address: "mcp.example", Port: 443}},
			"mcp.method.name=ping mcp.protocol.version=2026-07-28 network.protocol.name=http network.transport=tcp server.address=mcp.example server.port=443"},
		{call.StageUpstream, call.SpanStart{Method: "ping", Peer: &call.Peer{}}, "mcp.method.name=ping mcp.protocol.version=2026-07-28 network.transport=pipe"},
		{call.StageUpstream, call.SpanStart{Method: "ping"}, "mcp.method.name=ping mcp.protocol.version=2026-07-28"},
		{call.StageAsk, call.SpanStart{Method: wire.MethodElicit, Upstream: "files"},
			"mcp.method.name=elicitation/create mcp.protocol.version=2025-11-25 mcpgateway.upstream=files network.protocol.name=http network.transport=tcp"},
		{call.StageConnect, call.SpanStart{Upstream: "files"}, "mcpgateway.upstream=files"},
	} {
		tr, out := tracerWith(1, 0)
		s := begin(tr, newCall(`{}`, nil))
		s.Start(tt.stage, start, tt.about).End(start, call.SpanEnd{Revision: wire.Rev20260728})
		s.End(start, call.SpanEnd{})
		if got := strings.Join(attributesOfSpan(out.spans[0]), " "); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.stage, got, tt.want)
		}
	}
}

// A link that comes after the end of a span changes nothing: the span may be with the exporter.
func TestLinkAfterTheEnd(t *testing.T) {
	tr, out := tracerWith(1, 0)
	s := begin(tr, newCall(`{}`, nil))
	s.End(start.Add(time.Second), call.SpanEnd{})
	s.Link(&call.TraceContext{Traceparent: other})
	if got := out.spans[0]; len(got.Links()) != 0 || !got.EndTime().Equal(start.Add(time.Second)) || !got.StartTime().Equal(start) {
		t.Errorf("%v, %v to %v", got.Links(), got.StartTime(), got.EndTime())
	}
}
