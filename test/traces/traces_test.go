package traces

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mcpgateway/test/internal/rig"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID    = "00f067aa0ba902b7"
	traceparent = "00-" + traceID + "-" + parentID + "-01"
)

// otlp is the configuration that exports everything to a collector.
func otlp(protocol, endpoint string) rig.Config {
	return rig.Config{"otlp": rig.Config{"endpoint": endpoint, "protocol": protocol}}
}

// traced adds the trace context to the headers of each request.
type traced struct{ base http.RoundTripper }

func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", traceparent)
	r.Header.Set("Tracestate", "vendor=1")
	r.Header.Set("Baggage", "user=alice")
	return t.base.RoundTrip(r)
}

// call calls a tool as a legacy client that consents to every question, with trace context in its
// headers.
func call(t *testing.T, url, tool string, meta mcp.Meta) *mcp.CallToolResult {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
	})
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: traced{base}}}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}, Meta: meta})
	if err != nil {
		t.Fatal(err)
	}
	if result.IsError {
		t.Fatalf("%v", result.Content)
	}
	return result
}

// callTree returns the tree of the spans of one call, without the other requests of the client.
func callTree(tree, call string) string {
	var out []string
	in := false
	for l := range strings.Lines(tree) {
		if !strings.HasPrefix(l, " ") {
			in = strings.HasPrefix(l, call)
		}
		if in {
			out = append(out, l)
		}
	}
	return strings.Join(out, "")
}

// isCall matches the span of a call of a tool.
func isCall(tool string) func(line) bool {
	return func(l line) bool { return l.Signal == "span" && l.Kind == "Server" && l.Name == "tools/call "+tool }
}

// A legacy client calls a tool of a modern upstream that asks two questions: one trace, whose parent
// is the client's span.
func TestLegacyClientAndModernUpstreamWithTwoAsks(t *testing.T) {
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			c := startCollector(t)
			server, url := startAsking(t)
			endpoint := map[string]string{"grpc": c.grpc, "http": c.http}[protocol]
			gateway := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{"cafe": {"url": url}}, "telemetry": otlp(protocol, endpoint)})
			call(t, gateway.URL, "cafe__book", nil)
			root := c.await(t, isCall("cafe__book"))
			if root.Trace != traceID || root.Parent != parentID || root.Resource["service.name"] != "mcpgateway" {
				t.Errorf("the span of the call is %+v", root)
			}
			want := `tools/call cafe__book (server)
  authorize (internal)
  tools/call book (client)
  elicitation/create (client)
  elicitation/create (client)
  tools/call book (client)
`
			if diff := cmp.Diff(want, callTree(c.trace(traceID), "tools/call")); diff != "" {
				t.Error(diff)
			}
			for _, got := range server.calls {
				up, ok := c.find(func(l line) bool { return l.Kind == "Client" && strings.Contains(got.header, traceID+"-"+l.Span) })
				if !ok || up.Name != "tools/call book" || got.header != got.meta {
					t.Errorf("the server got %+v", got)
				}
			}
			if len(server.calls) != 2 {
				t.Errorf("%d calls", len(server.calls))
			}
			c.await(t, func(l line) bool { return l.Signal == "log" && l.Name == "call" && l.Attrs["trace_id"] == traceID })
		})
	}
}

// A call through a chain of two gateways is one trace, with the spans of the second below the
// attempt of the first.
func TestChainOfGateways(t *testing.T) {
	c := startCollector(t)
	_, url := startAsking(t)
	second := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{"cafe": {"url": url}}, "telemetry": otlp("grpc", c.grpc)})
	first := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{"next": {"url": second.URL}}, "telemetry": otlp("grpc", c.grpc)})
	call(t, first.URL, "next__cafe__book", nil)
	c.await(t, isCall("next__cafe__book"))
	inner := c.await(t, isCall("cafe__book"))
	outer, ok := c.find(func(l line) bool { return l.Span == inner.Parent })
	if !ok || inner.Trace != traceID || outer.Name != "tools/call cafe__book" || outer.Kind != "Client" ||
		outer.Resource["service.instance.id"] == inner.Resource["service.instance.id"] {
		t.Errorf("the call of the second gateway is below %+v", outer)
	}
	if root, ok := c.find(isCall("next__cafe__book")); !ok || root.Parent != parentID || outer.Parent != root.Span {
		t.Errorf("the call of the first gateway is %+v", root)
	}
}

// The state and the baggage of the client's trace arrive behind a chain of two gateways, also at a server that reads _meta.
func TestContextBehindAChain(t *testing.T) {
	c := startCollector(t)
	second := rig.StartGateway(t, rig.Config{"upstreams": own(t), "telemetry": otlp("grpc", c.grpc)})
	first := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{"next": {"url": second.URL}}, "telemetry": otlp("grpc", c.grpc)})
	result := call(t, first.URL, "next__own__meta", nil)
	attempt := c.await(t, func(l line) bool { return l.Signal == "span" && l.Name == "tools/call meta" })
	inner, outer := c.await(t, isCall("own__meta")), c.await(t, isCall("next__own__meta"))
	if attempt.Parent != inner.Span || outer.Parent != parentID || inner.Trace != traceID {
		t.Errorf("the spans are %+v, %+v, %+v", outer, inner, attempt)
	}
	if len(inner.Links) > 0 { // the first gateway sends the same in headers and in _meta
		t.Errorf("the call of the second gateway has the links %v", inner.Links)
	}
	want := map[string]any{"traceparent": "00-" + traceID + "-" + attempt.Span + "-01", "tracestate": "vendor=1", "baggage": "user=alice"}
	if diff := cmp.Diff(want, metaOf(t, result)); diff != "" {
		t.Error(diff)
	}
}

// metaOf returns the _meta that the tool meta got, without the progress token.
func metaOf(t *testing.T, result *mcp.CallToolResult) map[string]any {
	t.Helper()
	var meta map[string]any
	if err := json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &meta); err != nil {
		t.Fatal(err)
	}
	delete(meta, "progressToken")
	return meta
}

// A question that a server on standard input and output asks during an attempt is below the attempt.
func TestQuestionOfAStdioUpstream(t *testing.T) {
	c := startCollector(t)
	gateway := rig.StartGateway(t, rig.Config{"upstreams": own(t), "telemetry": otlp("grpc", c.grpc)})
	call(t, gateway.URL, "own__ask", nil)
	c.await(t, isCall("own__ask"))
	want := `tools/call own__ask (server)
  authorize (internal)
  tools/call ask (client)
    elicitation/create (client)
`
	if diff := cmp.Diff(want, callTree(c.trace(traceID), "tools/call")); diff != "" {
		t.Error(diff)
	}
}

// A server on standard input and output gets the context of the attempt in _meta. The context that
// the client writes into _meta wins over that of the headers.
func TestStdioUpstreamReadsMeta(t *testing.T) {
	c := startCollector(t)
	gateway := rig.StartGateway(t, rig.Config{"upstreams": own(t), "telemetry": otlp("grpc", c.grpc)})
	const other = "0af7651916cd43dd8448eb211c80319c"
	result := call(t, gateway.URL, "own__meta", mcp.Meta{"traceparent": "00-" + other + "-b7ad6b7169203331-01", "tracestate": "vendor=2", "mine": "kept"})
	root := c.await(t, isCall("own__meta"))
	if root.Trace != other || root.Parent != "b7ad6b7169203331" || len(root.Links) != 1 || root.Links[0] != traceID+"-"+parentID {
		t.Errorf("the span of the call is %+v", root)
	}
	attempt := c.await(t, func(l line) bool { return l.Signal == "span" && l.Name == "tools/call meta" })
	if attempt.Trace != other || attempt.Parent != root.Span {
		t.Errorf("the span of the attempt is %+v", attempt)
	}
	want := map[string]any{"traceparent": "00-" + other + "-" + attempt.Span + "-01", "tracestate": "vendor=2", "baggage": "user=alice", "mine": "kept"}
	if diff := cmp.Diff(want, metaOf(t, result)); diff != "" {
		t.Error(diff)
	}
}
