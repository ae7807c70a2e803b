package tracing

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// scope names the instrumentation in what is exported.
const scope = "mcpgateway"

// Names of attributes. Those of the gateway begin with its name.
const (
	attrMethod   = attribute.Key("mcp.method.name")
	attrRevision = attribute.Key("mcp.protocol.version")
	attrResource = attribute.Key("mcp.resource.uri")
	attrID       = attribute.Key("jsonrpc.request.id")
	attrCode     = attribute.Key("rpc.response.status_code")
	attrError    = attribute.Key("error.type")
	attrTool     = attribute.Key("gen_ai.tool.name")
	attrPrompt   = attribute.Key("gen_ai.prompt.name")
	attrAction   = attribute.Key("gen_ai.operation.name")
	attrNetwork  = attribute.Key("network.transport")
	attrProtocol = attribute.Key("network.protocol.name")

	attrRequest  = attribute.Key("mcpgateway.request.id")
	attrProfile  = attribute.Key("mcpgateway.profile")
	attrUpstream = attribute.Key("mcpgateway.upstream")
	attrRule     = attribute.Key("mcpgateway.rule")
	attrOutcome  = attribute.Key("mcpgateway.outcome")
	attrDropped  = attribute.Key("mcpgateway.dropped_spans")
)

const (
	// maxSpans bounds the spans of one call, with those of the calls that it makes.
	maxSpans = 256
	// maxText bounds text of clients in an attribute, in bytes.
	maxText = 128
)

// Tracer implements [call.Tracer].
type Tracer struct {
	tracer  trace.Tracer
	exports func(sdktrace.ReadOnlySpan)
	slow    func() time.Duration
}

// newTracer returns a tracer. It samples the ratio of the traces that begin here, exports kept
// spans with export, and keeps calls that take as long as slow returns; 0 keeps none.
func newTracer(ratio float64, res *resource.Resource, slow func() time.Duration, export func(sdktrace.ReadOnlySpan)) *Tracer {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(headSampler{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))}),
		sdktrace.WithResource(res),
	)
	return &Tracer{tracer: provider.Tracer(scope), exports: export, slow: slow}
}

// headSampler records the traces that are not sampled too, because their end may show that they
// are worth keeping.
type headSampler struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (s headSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r := s.Sampler.ShouldSample(p)
	if r.Decision == sdktrace.Drop {
		r.Decision = sdktrace.RecordOnly
	}
	return r
}

// Begin implements [call.Tracer].
func (t *Tracer) Begin(c *call.Call, method string, parent call.Span, at time.Time) call.Span {
	options := []trace.SpanStartOption{trace.WithTimestamp(at), trace.WithAttributes(attributesOf(c, method)...)}
	if p, ok := parent.(*span); ok {
		s := p.start(p.ctx, method, trace.SpanKindInternal, options)
		s.isCall = true
		return s
	}
	owner := &record{tracer: t, begin: at}
	var ctx context.Context
	var other trace.SpanContext
	ctx, other, owner.baggage = remoteContext(c)
	if other.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: other}))
	}
	s := owner.start(ctx, method, append(options, trace.WithSpanKind(trace.SpanKindServer)))
	s.isCall, s.isRoot = true, true
	return s
}

// attributesOf returns what is known of a call when it begins.
func attributesOf(c *call.Call, method string) []attribute.KeyValue {
	out := []attribute.KeyValue{attrMethod.String(method), attrRequest.String(c.ID)}
	if c.Trace != nil && !c.Trace.Message.IsZero() {
		out = append(out, attrID.String(plaintext.Clip(strings.Trim(c.Trace.Message.String(), `"`), maxText)))
	}
	if c.Client.Era() != wire.EraUnknown { // otherwise the client may have invented it
		out = append(out, attrRevision.String(string(c.Client.Revision)))
	}
	if c.Principal.Profile != "" {
		out = append(out, attrProfile.String(c.Principal.Profile))
	}
	if c.Remote == "" {
		return append(out, attrNetwork.String("pipe"))
	}
	return append(out, attrNetwork.String("tcp"), attrProtocol.String("http"))
}
