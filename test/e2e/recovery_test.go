package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// moody is a legacy server over streamable HTTP whose mood a test changes. Its only tool is named "tool".
type moody struct {
	*httptest.Server
	mood   atomic.Int32
	stream func(w http.ResponseWriter, r *http.Request) // serves GET; nil: there is no stream
}

// The moods of a server.
const (
	good  int32 = iota
	fails       // every request gets status 500
	hangs       // no request gets an answer
)

func startMoody(t *testing.T, stream func(w http.ResponseWriter, r *http.Request)) *moody {
	m := &moody{stream: stream}
	m.Server = httptest.NewServer(m)
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

// moodyAnswers are the results of a server in a good mood. The name of the server is its URL.
var moodyAnswers = map[string]string{
	"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"moody","version":"1"}}`,
	"tools/list": `{"tools":[{"name":"tool","inputSchema":{"type":"object"}}]}`,
	"tools/call": `{"content":[{"type":"text","text":"HOST"}]}`,
	"ping":       `{}`,
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch m.mood.Load() {
	case fails:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case hangs:
		<-r.Context().Done()
		return
	}
	if r.Method == http.MethodGet && m.stream != nil {
		m.stream(w, r)
		return
	}
	var request struct {
		ID     json.RawMessage
		Method string
	}
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case json.Unmarshal(body, &request) != nil || request.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		answer := strings.ReplaceAll(moodyAnswers[request.Method], "HOST", r.Host)
		w.Header().Set("Content-Type", "application/json")
		if answer == "" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, request.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, answer)
	}
}

// entry is the configuration of the upstream.
func (m *moody) entry(more rig.Config) rig.Config {
	entry := rig.Config{"url": m.URL, "transport": "streamable-http", "era": "legacy"}
	for key, value := range more {
		entry[key] = value
	}
	return entry
}

// callTool calls the tool of an upstream and returns the text of the result.
func callTool(ctx context.Context, c *raw.Client, upstream string) (string, error) {
	m, err := c.Call(ctx, "tools/call", `{"name":"`+upstream+`__tool","arguments":{}}`)
	return m.Text, err
}

// page returns a page of the admin address.
func page(t *testing.T, g *rig.Gateway, path string) string {
	t.Helper()
	response, err := http.Get(g.Admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metric returns the sum of the series of a metric whose labels contain all of these.
func metric(t *testing.T, g *rig.Gateway, name string, labels ...string) (sum float64) {
	t.Helper()
series:
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(\{.*\})? (\S+)$`).FindAllStringSubmatch(page(t, g, "/metrics"), -1) {
		for _, label := range labels {
			if !strings.Contains(m[1], label) {
				continue series
			}
		}
		value, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	return sum
}

// Calls of an upstream that fails, or hangs, fail at once when its breaker is open. Its lists and other upstreams are not affected, and it recovers
// by itself.
func TestUpstreamBreaker(t *testing.T) {
	t.Parallel()
	bad, other := startMoody(t, nil), startMoody(t, nil)
	g := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{
		"bad":   bad.entry(rig.Config{"timeout": "1s", "breaker": rig.Config{"failures": 3, "open": "2s"}}),
		"other": other.entry(nil),
	}})
	c, err := raw.Open(t.Context(), g.URL, raw.Modern)
	if err != nil {
		t.Fatal(err)
	}
	for name, mood := range map[string]int32{"fails": fails, "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			bad.mood.Store(mood)
			isOpen := func() bool { return metric(t, g, "mcp_gateway_upstream_breaker_state", `upstream="bad"`) == 1 }
			polltest.Until(t, "the breaker opens", func() bool {
				_, err := callTool(t.Context(), c, "bad") // with replicas, the breaker of another one may be open still
				fault, ok := errors.AsType[*raw.Fault](err)
				return ok && isOpen() && strings.Contains(string(fault.Data), `"retryAfter":`) && strings.Contains(fault.Message, "the circuit breaker is open")
			})
			if _, err := callTool(t.Context(), c, "other"); err != nil {
				t.Errorf("another upstream: %v", err)
			}
			if m, err := c.Call(t.Context(), "tools/list", `{}`); err != nil || !strings.Contains(m.Text, "bad__tool") {
				t.Errorf("the list: %s, %v", m.Text, err)
			}
			if text := page(t, g, "/readyz"); !strings.Contains(text, `"failing":["upstream bad`) || !strings.Contains(text, `"status":"ready"`) {
				t.Errorf("readyz: %s", text)
			}
			bad.mood.Store(good)
			polltest.Until(t, "the upstream recovers", func() bool { _, err := callTool(t.Context(), c, "bad"); return err == nil && !isOpen() })
		})
	}
}

// An upstream that hangs while nobody calls it is found, and connected to anew.
func TestUpstreamIdleHang(t *testing.T) {
	t.Parallel()
	s := startMoody(t, nil)
	g := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{"idle": s.entry(rig.Config{"health_interval": "1s"})}})
	s.mood.Store(hangs)
	polltest.Until(t, "the hang is found", func() bool { return metric(t, g, "mcp_gateway_upstream_hung_total") == 1 })
	s.CloseClientConnections()
	s.mood.Store(good)
	polltest.Until(t, "the upstream is up again", func() bool { return metric(t, g, "mcp_gateway_upstream_up") == 1 })
}

// chatty is a stdio server that prints a million log messages, as many lines to standard error, and answers calls meanwhile.
const chatty = `
const out = m => process.stdout.write(JSON.stringify({jsonrpc: "2.0", ...m}) + "\n");
const results = {
	initialize: {protocolVersion: "2025-11-25", capabilities: {tools: {}, logging: {}}, serverInfo: {name: "chatty", version: "1"}},
	"tools/list": {tools: [{name: "tool", inputSchema: {type: "object"}}]},
	"tools/call": {content: [{type: "text", text: "answered"}]},
};
let left = 0;
function flood() {
	for (let i = 0; i < 500 && left > 0; i++, left--) {
		out({method: "notifications/message", params: {level: "info", data: "line " + left}});
		if (i % 10 == 0) process.stderr.write("line " + left + "\n");
	}
	if (left > 0) process.stdout.writableNeedDrain ? process.stdout.once("drain", flood) : setImmediate(flood);
}
require("readline").createInterface({input: process.stdin}).on("line", line => {
	const m = JSON.parse(line);
	if (m.id === undefined) {
		if (m.method == "notifications/initialized") { left = 1e6; flood(); }
		return;
	}
	const result = results[m.method] || (m.method == "ping" || m.method == "logging/setLevel" ? {} : undefined);
	out(result ? {id: m.id, result} : {id: m.id, error: {code: -32601, message: "no"}});
});
`

// Floods of one upstream do not delay calls of the others, or fill the memory; the upstreams themselves go on to answer.
func TestUpstreamFloods(t *testing.T) {
	t.Parallel()
	const changes = 100_000
	event := []byte("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
	sent := make(chan struct{})
	end := sync.OnceFunc(func() { close(sent) }) // each replica opens a stream
	changing := startMoody(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		select {
		case <-sent: // the stream is opened again
		default:
			for range changes {
				if _, err := w.Write(event); err != nil {
					return
				}
			}
			end()
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	other := startMoody(t, nil)
	g := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{
		"chatty":   {"command": "node", "args": []string{"-e", chatty}},
		"changing": changing.entry(nil),
		"other":    other.entry(nil),
	}})
	c, err := raw.Open(t.Context(), g.URL, raw.Modern)
	if err != nil {
		t.Fatal(err)
	}
	<-sent
	for range 50 {
		for _, name := range []string{"other", "chatty", "changing"} {
			if _, err := callTool(t.Context(), c, name); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	for _, kind := range []string{`kind="log"`, `kind="list_changed"`, `kind="pauses"`} {
		polltest.Until(t, kind+" is counted", func() bool { return metric(t, g, "mcp_gateway_upstream_excess_messages_total", kind) > 0 })
	}
	if used := metric(t, g, "process_resident_memory_bytes"); used > 400<<20 {
		t.Errorf("the gateway uses %.0f MiB", used/(1<<20))
	}
	if swaps := metric(t, g, "mcp_gateway_table_swaps_total"); swaps > 200 {
		t.Errorf("%v tables for %d changes of a list", swaps, changes)
	}
}

// An upstream with several URLs is up as long as one of them works.
func TestUpstreamURLs(t *testing.T) {
	t.Parallel()
	a, b := startMoody(t, nil), startMoody(t, nil)
	g := rig.StartOne(t, "it reads the log of one process", rig.Config{"upstreams": rig.Upstreams{
		"replicated": {"urls": []string{a.URL + "/?key=s3cr3t", b.URL}, "transport": "streamable-http", "era": "legacy", "breaker": rig.Config{"failures": 3, "open": "1h"}},
	}})
	c, err := raw.Open(t.Context(), g.URL, raw.Modern)
	if err != nil {
		t.Fatal(err)
	}
	answers := func(from *moody) func() bool {
		return func() bool {
			text, err := callTool(t.Context(), c, "replicated")
			return err == nil && strings.Contains(text, strings.TrimPrefix(from.URL, "http://"))
		}
	}
	if _, err := callTool(t.Context(), c, "replicated"); err != nil {
		t.Fatal(err)
	}
	if answers(b)() { // the session of this client may use either
		a, b = b, a
	}
	a.mood.Store(fails) // the breaker opens for longer than the test lasts, and the session moves
	polltest.Until(t, "the other URL answers", answers(b))
	a.mood.Store(good)
	b.CloseClientConnections()
	b.Close()
	polltest.Until(t, "the first URL answers again", answers(a))
	if output := g.Process.Output(); !strings.Contains(output, "a URL of the server fails") && !strings.Contains(output, "no connection") || strings.Contains(output, "s3cr3t") {
		t.Errorf("the log: %s", output)
	}
}
