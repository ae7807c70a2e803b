package traces

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

// own is the test program as an upstream over stdio.
func own(t *testing.T) rig.Upstreams {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return rig.Upstreams{"own": {"command": self, "env": map[string]string{asServer: "1"}}}
}

// startQuick runs a gateway that exports every 100 ms, with more variables of its environment.
func startQuick(t *testing.T, config rig.Config, env ...string) *rig.Gateway {
	t.Helper()
	listen, admin := netns.Addr(), netns.Addr()
	config["listen"], config["admin"], config["state_dir"] = listen, rig.Config{"listen": admin}, t.TempDir()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	g := &rig.Gateway{URL: "http://" + listen + "/mcp", Admin: "http://" + admin}
	g.Process = process.Start(t, process.Options{
		Name: "gateway", Args: []string{rig.Binary(t), "run", "-c", file},
		Env: append([]string{"OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_BLRP_SCHEDULE_DELAY=100", "OTEL_METRIC_EXPORT_INTERVAL=100"}, env...),
	})
	g.Process.WaitReady(t, func() error {
		answer, err := http.Get(g.Admin + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	t.Cleanup(func() { http.DefaultClient.CloseIdleConnections() })
	return g
}

// stop ends a gateway, which exports what is left.
func stop(t *testing.T, g *rig.Gateway) {
	t.Helper()
	if err := g.Process.Stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// ask calls a tool as a modern client that answers forms, and returns the result or the error. more are members of params.
func ask(t *testing.T, url, tool string, headers http.Header, more map[string]any) map[string]any {
	t.Helper()
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
	}
	params := map[string]any{"name": tool, "arguments": map[string]any{}, "_meta": meta}
	for name, value := range more {
		if own, ok := value.(map[string]any); ok && name == "_meta" {
			for name, value := range own {
				meta[name] = value
			}
			continue
		}
		params[name] = value
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"},
		"Mcp-Method": {"tools/call"}, "Mcp-Name": {tool},
	}
	for name, values := range headers {
		r.Header[name] = values
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if at := strings.Index(string(text), "data: {"); at >= 0 { // an event stream: its last event is the answer
		text = text[strings.LastIndex(string(text), "data: ")+len("data: "):]
	}
	var m struct{ Result, Error map[string]any }
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%s: %s", answer.Status, text)
	}
	if m.Result == nil {
		return m.Error
	}
	return m.Result
}

// of returns the header with a context of a trace.
func of(trace string, flags string) http.Header {
	return http.Header{"Traceparent": {"00-" + trace + "-" + parentID + "-" + flags}}
}

// Ids of traces of the tests.
const (
	sampledID, quietID = "11111111111111111111111111111111", "22222222222222222222222222222222"
	failedID, slowID   = "33333333333333333333333333333333", "44444444444444444444444444444444"
)

// At the ratio 0, traces are exported that the client samples, and those of failed and slow calls.
func TestFailedAndSlowCallsAreExportedAtRatioZero(t *testing.T) {
	c := startCollector(t)
	telemetry := rig.Config{"slow": "1500ms", "otlp": rig.Config{"endpoint": c.grpc, "sample": 0}}
	g := startQuick(t, rig.Config{"upstreams": own(t), "telemetry": telemetry})
	ask(t, g.URL, "own__meta", nil, nil)
	ask(t, g.URL, "own__meta", of(quietID, "00"), nil)
	ask(t, g.URL, "own__nothing", of(quietID, "00"), nil) // refused: clients can cause any number of them
	ask(t, g.URL, "own__meta", of(sampledID, "01"), nil)
	ask(t, g.URL, "own__fail", of(failedID, "00"), nil)
	ask(t, g.URL, "own__slow", of(slowID, "00"), nil)
	stop(t, g)
	c.end()
	for id, calls := range map[string]int{sampledID: 1, failedID: 1, slowID: 1, quietID: 0} {
		if tree := c.trace(id); strings.Count(tree, "(server)") != calls || strings.Count(tree, "(client)") != calls {
			t.Errorf("the trace %s:\n%s", id, tree)
		}
	}
	if l, ok := c.find(func(l line) bool {
		return l.Signal == "span" && !slices.Contains([]string{sampledID, failedID, slowID}, l.Trace)
	}); ok {
		t.Errorf("the span %+v is exported", l)
	}
}

// The lines of a call in the log, in the audit and by OTLP name its trace, and metrics have it as an exemplar if it is exported.
func TestFromALineToItsTrace(t *testing.T) {
	c := startCollector(t)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	g := startQuick(t, rig.Config{"upstreams": own(t), "telemetry": rig.Config{
		"otlp": rig.Config{"endpoint": c.grpc, "sample": 0}, "audit": rig.Config{"file": audit},
	}})
	ask(t, g.URL, "own__meta", of(sampledID, "01"), nil)
	ask(t, g.URL, "own__meta", of(quietID, "00"), nil)

	exemplar := regexp.MustCompile(`(?m)^mcp_gateway_request_duration_seconds_bucket.*# {trace_id="([^"]*)"}`)
	found := exemplar.FindAllStringSubmatch(scrape(t, g, "application/openmetrics-text; version=1.0.0"), -1)
	if len(found) != 1 || found[0][1] != sampledID {
		t.Errorf("the exemplars are %q", found)
	}
	if plain := scrape(t, g, "text/plain"); strings.Contains(plain, "trace_id") || !strings.Contains(plain, "mcp_gateway_request_duration_seconds_bucket") {
		t.Error("the text format has exemplars, or no histogram")
	}
	m := c.await(t, func(l line) bool {
		return l.Signal == "metric" && l.Name == "mcp_gateway_request_duration_seconds" && len(l.Exemplars) > 0
	})
	if !slices.Equal(m.Exemplars, []string{sampledID}) || m.Resource["service.name"] != "mcpgateway" {
		t.Errorf("the metric by OTLP is %+v", m)
	}
	for _, id := range []string{sampledID, quietID} {
		c.await(t, func(l line) bool {
			return l.Signal == "log" && l.Name == "call" && l.Status == "info" && l.Trace == id && l.Attrs["trace_id"] == id
		})
	}
	stop(t, g)
	record, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"log": g.Process.Output(), "audit": string(record)} {
		for _, id := range []string{sampledID, quietID} {
			if !strings.Contains(text, `"trace_id":"`+id+`"`) {
				t.Errorf("the %s has no line of the trace %s:\n%s", what, id, text)
			}
		}
	}
}

// A collector gets the same series as Prometheus, with the same kinds, cumulative, and with units.
func TestMetricsAreThoseOfPrometheus(t *testing.T) {
	c := startCollector(t)
	g := startQuick(t, rig.Config{"upstreams": own(t), "telemetry": otlp("grpc", c.grpc)})
	ask(t, g.URL, "own__meta", of(sampledID, "01"), nil)
	ask(t, g.URL, "own__fail", of(failedID, "00"), nil)
	kinds := map[string]string{"counter": "Sum", "gauge": "Gauge", "histogram": "Histogram", "summary": "Summary"}
	for _, family := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(scrape(t, g, "text/plain"), -1) {
		name, kind := family[1], kinds[family[2]]
		m := c.await(t, func(l line) bool { return l.Signal == "metric" && l.Name == name })
		unit, cumulative := "", "Cumulative"
		switch base := strings.TrimSuffix(name, "_total"); {
		case strings.HasSuffix(base, "_seconds"):
			unit = "s"
		case strings.HasSuffix(base, "_bytes"):
			unit = "By"
		}
		if kind == "Gauge" || kind == "Summary" {
			cumulative = ""
		}
		if m.Kind != kind || m.Unit != unit || m.Temporality != cumulative {
			t.Errorf("%s is %s %q %s, want %s %q %s", name, m.Kind, m.Unit, m.Temporality, kind, unit, cumulative)
		}
	}
}

// scrape returns the metrics in a format.
func scrape(t *testing.T, g *rig.Gateway, accept string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The round of a modern client that answers a question is linked with the call that asked: with the span of the pause if the call
// was parked, and with its first round if the upstream is modern.
func TestRoundsAreLinked(t *testing.T) {
	c := startCollector(t)
	_, url := startAsking(t)
	upstreams := own(t)
	upstreams["cafe"] = rig.Config{"url": url}
	g := startQuick(t, rig.Config{"upstreams": upstreams, "telemetry": otlp("grpc", c.grpc)})
	for tool, again := range map[string]string{"own__ask": "55555555555555555555555555555555", "cafe__book": "66666666666666666666666666666666"} {
		first := ask(t, g.URL, tool, of(sampledID, "01"), nil)
		answers := map[string]any{}
		for key := range first["inputRequests"].(map[string]any) {
			answers[key] = map[string]any{"action": "accept", "content": map[string]any{}}
		}
		second := ask(t, g.URL, tool, of(again, "01"), map[string]any{"requestState": first["requestState"], "inputResponses": answers})
		if second["content"] == nil {
			t.Fatalf("%s: %v", tool, second)
		}
		call := c.await(t, func(l line) bool { return isServer(l, tool) && l.Trace == sampledID })
		resumed := c.await(t, func(l line) bool { return isServer(l, tool) && l.Trace == again })
		if !slices.ContainsFunc(resumed.Links, func(link string) bool { return strings.HasPrefix(link, sampledID+"-") }) {
			t.Errorf("%s: the second round has the links %v; the first is %+v", tool, resumed.Links, call)
		}
		if tool == "own__ask" {
			parked := c.await(t, func(l line) bool { return l.Name == "parked" && l.Trace == sampledID })
			if !slices.Contains(parked.Links, again+"-"+resumed.Span) {
				t.Errorf("the pause has the links %v, not the round %s", parked.Links, resumed.Span)
			}
		} else if !slices.Contains(resumed.Links, sampledID+"-"+call.Span) {
			t.Errorf("the second round has the links %v, not the call %s", resumed.Links, call.Span)
		}
	}
}

// isServer matches spans of requests with a tool.
func isServer(l line, tool string) bool {
	return l.Signal == "span" && l.Kind == "Server" && l.Name == "tools/call "+tool && l.Attrs["gen_ai.tool.name"] == tool
}
