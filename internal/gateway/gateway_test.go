package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/ruleset"
)

// testTimeout bounds the wait for events that normally happen at once.
const testTimeout = 20 * time.Second

// start runs a gateway until the test ends, and returns it with a function that
// ends it early and waits for its end.
func start(t *testing.T, yaml string, demo bool) (g *Gateway, end func()) {
	t.Helper()
	return startLogged(t, yaml, demo, zap.NewNop())
}

// startLogged is start with a log.
func startLogged(t *testing.T, yaml string, demo bool, log *zap.Logger) (g *Gateway, end func()) {
	t.Helper()
	return startWith(t, yaml, Options{Demo: demo, Logger: log})
}

// startWith is start with further options.
func startWith(t *testing.T, yaml string, o Options) (g *Gateway, end func()) {
	t.Helper()
	cfg := config.Default(func(string) (string, bool) { return "", false })
	if yaml != "" {
		var err error
		if cfg, err = config.Parse("gateway.yaml", []byte(yaml), os.LookupEnv, ruleset.CheckConditions()); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Listen, cfg.Admin.Listen, cfg.StateDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	o.Config, o.Version = cfg, "test"
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(testTimeout):
			t.Error("Run has not returned")
		}
		http.DefaultClient.CloseIdleConnections()
	}
	t.Cleanup(end)
	return g, end
}

// post sends one JSON-RPC message and returns the answer.
func post(t *testing.T, g *Gateway, session, body string) (*http.Response, string) {
	t.Helper()
	return postTo(t, g, pathMCP, session, body)
}

// postTo sends one JSON-RPC message to the endpoint with this path and returns the answer.
func postTo(t *testing.T, g *Gateway, path, session, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.Addr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

func TestDemoAnswersAtOnce(t *testing.T) {
	g, _ := start(t, "", true)
	// The first list waits for the upstreams, so the test does not poll.
	_, list := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	for _, name := range []string{"cafe__menu", "clock__search", "notes__search"} {
		if !strings.Contains(list, `"`+name+`"`) {
			t.Errorf("no %s in %s", name, list)
		}
	}
	_, now := post(t, g, "", `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"clock__now","arguments":{}}}`)
	if !strings.HasPrefix(now, `{"jsonrpc":"2.0","id":"x","result":{`) {
		t.Errorf("clock__now answered %s", now)
	}
	polltest.Until(t, "the gateway is ready", func() bool { return len(g.waitingFor(reasonForAll)) == 0 }) // just after the first lists
}

func TestChangedListReachesAnOpenStream(t *testing.T) {
	g, end := start(t, "", true)
	resp, _ := post(t, g, "", initialize)
	session := resp.Header.Get("Mcp-Session-Id")
	post(t, g, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	post(t, g, session, `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`)

	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.Addr()+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)

	_, added := post(t, g, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"notes__add","arguments":{"title":"Milk","body":"Buy some."}}}`)
	if !strings.Contains(added, "note:///milk") {
		t.Fatalf("notes__add answered %s", added)
	}
	// A change from the start may be announced first. The expected one is sent after the
	// new table, so a list that is requested then contains the note.
	for list := ""; !strings.Contains(list, "notes+note:///milk"); {
		for !strings.Contains(lines.Text(), "notifications/resources/list_changed") {
			if !lines.Scan() {
				t.Fatalf("the stream ended (%v), and the last list was %s", lines.Err(), list)
			}
		}
		_, list = post(t, g, session, `{"jsonrpc":"2.0","id":3,"method":"resources/list"}`)
		lines.Scan() // the blank line after the event
	}

	end() // draining ends the stream
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream broke at the drain: %v", err)
	}
}

// page returns the body of a page of the admin address.
func page(t *testing.T, g *Gateway, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + g.AdminAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestMetricsAndHealth(t *testing.T) {
	g, _ := start(t, "", true)
	post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`) // waits for all upstreams
	post(t, g, "", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"clock__now","arguments":{}}}`)
	if got := page(t, g, "/healthz"); !strings.Contains(got, "ok") {
		t.Errorf("/healthz answers %s", got)
	}
	if got := page(t, g, "/readyz"); !strings.Contains(got, "ready") {
		t.Errorf("/readyz answers %s", got)
	}
	metrics := page(t, g, "/metrics")
	for _, want := range []string{
		`mcp_gateway_requests_total{method="tools/call",outcome="ok",upstream="clock"} 1`,
		`mcp_gateway_request_duration_seconds_count{method="tools/call",upstream="clock"} 1`,
		`mcp_gateway_inflight_requests{upstream="clock"} 0`,
		`mcp_gateway_upstream_up{upstream="clock"} 1`,
		`mcp_gateway_sessions{era="legacy"} 0`,
		`mcp_gateway_streams{era="legacy"} 0`,
		`mcp_gateway_table_items{kind="tool"} 9`,
		`mcp_gateway_policy_decisions_total{effect="allow",rule=`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in /metrics", want)
		}
	}
}

func TestPolicyFiltersListsAndCalls(t *testing.T) {
	// The upstream is the demo's clock, reached through a second gateway.
	inner, _ := start(t, "", true)
	g, _ := start(t, `
upstreams:
  inner:
    url: http://`+inner.Addr()+`/mcp
    tools: {allow: ["clock__*"], deny: ["clock__countdown"]}
`, false)
	_, list := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var got struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(list), &got); err != nil {
		t.Fatalf("%v in %s", err, list)
	}
	var names []string
	for _, tool := range got.Result.Tools {
		names = append(names, tool.Name)
	}
	if want := "inner__clock__face inner__clock__now inner__clock__search"; strings.Join(names, " ") != want {
		t.Errorf("listed: %q, want %s", names, want)
	}
	_, refused := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"inner__clock__countdown","arguments":{}}}`)
	if !strings.Contains(refused, `"code":-32602`) {
		t.Errorf("a refused tool answered %s", refused)
	}
}

func TestTakenAddress(t *testing.T) {
	g, _ := start(t, "", true)
	cfg := config.Default(func(string) (string, bool) { return "", false })
	cfg.Listen, cfg.Admin.Listen, cfg.StateDir = g.Addr(), "127.0.0.1:0", t.TempDir()
	_, err := New(Options{Config: cfg, Demo: true, Version: "test", Logger: zap.NewNop()})
	want := "listen on " + g.Addr() + ": address already in use by another program: choose another with --listen or the key listen"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", g.AdminAddr()
	_, err = New(Options{Config: cfg, Demo: true, Version: "test", Logger: zap.NewNop()})
	want = "listen on " + g.AdminAddr() + " for health and metrics: address already in use by another program, such as a second gateway: choose another with --admin-listen or the key admin.listen"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	cfg.Listen = g.Addr()
	other, err := New(Options{Config: cfg, Demo: true, Version: "test", Logger: zap.NewNop(), AnyPort: true, AnyAdminPort: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Addr() == g.Addr() || other.AdminAddr() == g.AdminAddr() {
		t.Errorf("two gateways have %s and %s", other.Addr(), other.AdminAddr())
	}
}

// The admin address refuses web pages that use DNS rebinding.
func TestAdminRefusesPages(t *testing.T) {
	g, _ := start(t, aDisabledUpstream, false)
	for _, tt := range []struct {
		method, path, host, origin string
		want                       int
	}{
		{"GET", "/metrics", "", "", 200},
		{"GET", "/metrics", "page.example", "", 403},
		{"GET", "/healthz", "page.example", "", 403},
		{"POST", "/-/reload", "", "http://" + g.AdminAddr(), 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+g.AdminAddr()+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		if tt.origin != "" {
			req.Header.Set("Origin", tt.origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s %s for %q from %q: %d, want %d", tt.method, tt.path, tt.host, tt.origin, resp.StatusCode, tt.want)
		}
	}
}

// The answer to a wrong path names the right path.
func TestLost(t *testing.T) {
	g, _ := start(t, aDisabledUpstream, false)
	base := "http://" + g.Addr()
	both := "MCP is served at " + base + "/mcp, and for clients that only speak HTTP+SSE at " + base + "/sse"
	for path, want := range map[string]string{
		"":                   both,
		"/":                  both,
		"/mcp/team":          both,
		"/favicon.ico":       both,
		"/mcp/":              "MCP is served at exactly " + base + "/mcp",
		"//mcp":              "MCP is served at exactly " + base + "/mcp",
		"/sse/":              "HTTP+SSE is served at exactly " + base + "/sse",
		"/message?session=1": "HTTP+SSE begins with GET " + base + "/sse, whose first event",
		"/messages/":         "HTTP+SSE begins with GET " + base + "/sse, whose first event",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusNotFound || !strings.HasPrefix(string(body), "nothing is here: "+want) || strings.Count(string(body), "\n") != 1 {
				t.Errorf("%s %q: %d %s, %v", method, path, resp.StatusCode, body, err)
			}
		}
	}
	if n := gauge(t, g, `mcp_gateway_refused_requests_total{reason="endpoint"}`); n != "18" {
		t.Errorf("%s requests are counted as refused, want each of 18", n)
	}
	for path, method := range map[string]string{"/mcp": http.MethodPut, "/sse": http.MethodPost, "/sse/message": http.MethodDelete} {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") == "" {
			t.Errorf("%s %s: %d, Allow %q", method, path, resp.StatusCode, resp.Header.Get("Allow"))
		}
	}
}
