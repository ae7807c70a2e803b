package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/upstream/connector"
)

// The history has the differences between samples, and forgets the oldest.
func TestHistory(t *testing.T) {
	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mcp_gateway_requests_total"}, []string{"method", "upstream", "outcome"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mcp_gateway_request_duration_seconds", Buckets: []float64{.01, .1, 1},
	}, []string{"method", "upstream"})
	registry.MustRegister(requests, durations)
	calls := func(n int, upstream, outcome string, took float64) {
		requests.WithLabelValues("tools/call", upstream, outcome).Add(float64(n))
		for range n {
			durations.WithLabelValues("tools/call", upstream).Observe(took)
		}
	}
	h, now := NewHistory(registry, always(time.Second)), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if r := h.Rates(""); r.Calls != 0 || r.P50 != -1 {
		t.Errorf("without a sample: %+v", r)
	}
	calls(100, "a", "ok", .005)
	h.Sample(now)
	calls(10, "a", "ok", .05)
	calls(10, "b", "error", .5)
	h.Sample(now.Add(HistoryStep))
	if p := h.Points("a"); len(p) != 1 || p[0].Calls != 10 || p[0].Failed != 0 || p[0].P95 < .05 || p[0].P95 > .1 {
		t.Errorf("a: %+v", p)
	}
	if p := h.Points("b"); len(p) != 1 || p[0].Failed != 10 {
		t.Errorf("b: %+v", p)
	}
	if r := h.Rates(""); r.Calls != 20 || r.Failed != 10 || r.PerSecond != 2 || r.P50 > .1 || r.P99 < .9 {
		t.Errorf("all: %+v", r)
	}
	for i := range HistoryLength + 5 {
		h.Sample(now.Add(time.Duration(i+2) * HistoryStep))
	}
	if p := h.Points("a"); len(p) != HistoryLength || p[0].Calls != 0 || p[0].P95 != -1 {
		t.Errorf("%d points, the first %+v", len(p), p[0])
	}
	if r := h.Rates("a"); r.Calls != 0 {
		t.Errorf("after a quiet minute: %+v", r)
	}
	requests.DeletePartialMatch(prometheus.Labels{"upstream": "b"})
	durations.DeletePartialMatch(prometheus.Labels{"upstream": "b"})
	h.Sample(now.Add(time.Hour))
	if p := h.Points("b"); p != nil {
		t.Errorf("of a removed upstream: %+v", p)
	}
}

// noTable is a gateway whose upstreams have listed nothing.
type noTable struct{ upstreamsOnly }

func (noTable) Current(string) *catalog.Table { return nil }

// Errors come before warnings, each with what to do.
func TestAttention(t *testing.T) {
	i := New(noTable{})
	s := &Status{
		Reload: &LastReload{ReloadReport: ReloadReport{Status: ReloadRefused, Errors: []ReloadError{{File: "gateway.yaml", Line: 3, Key: "listen", Message: "is no address"}, {}}, Kept: []KeptUpstream{
			{Upstream: "fs", Keeps: []string{"connection", "instructions"}, Variables: []string{"TOKEN"}, Errors: []ReloadError{{Message: "place"}}},
			{Upstream: "key", Keeps: []string{"connection"}, Errors: []ReloadError{{Message: "line"}}},
		}}},
		Change: &LastReload{ReloadReport: ReloadReport{NeedsRestart: []string{"admin", "limits"}}},
		Upstreams: []UpstreamStatus{
			{Name: "granted", State: connector.Down.String(), GrantMissing: true},
			{Name: "slow", State: connector.Degraded.String(), Reason: "resources/list fails"},
			{Name: "gone", State: connector.Down.String(), Reason: "start the server"},
			{Name: "fine", State: connector.Ready.String(), BreakerState: BreakerHalfOpen},
			{Name: "shut", State: connector.Ready.String(), BreakerState: BreakerOpen},
			{Name: "loud", State: connector.Ready.String(), Skipped: &connector.SkippedOutput{Lines: 2, First: "beat"}},
		},
		AuditError: "disk full",
		Failing:    []string{"issuer https://idp.example.com: its keys cannot be fetched", "upstream fs: new TLS files cannot be used"},
	}
	var got []string
	for _, a := range i.Attention(s) {
		got = append(got, strings.TrimSpace(a.Severity+" "+a.Kind+" "+a.Upstream)+": "+a.Message)
	}
	want := []string{
		"error audit: The audit cannot be written, and calls are refused: disk full",
		"error failing: Issuer https://idp.example.com: its keys cannot be fetched",
		"error failing: Upstream fs: new TLS files cannot be used",
		"error reload: The last reload was refused; the configuration before it is in force. gateway.yaml:3: listen: is no address (and 1 more)",
		"error reload fs: A reload found that TOKEN is not set, so the upstream keeps its connection, instructions as before; its other keys apply. Correct this before the next start. place",
		"error reload key: A reload found that a file that it needs cannot be used, so the upstream keeps its connection as before; its other keys apply. Correct this before the next start. line",
		"error upstream gone: start the server",
		"error upstream shut: A circuit breaker is open: calls in its session fail at once. Its last failed call says why.",
		"warning restart: Changes of these keys take effect after a restart: admin, limits.",
		"warning grant granted: The gateway has no grant of its own for it. Run: gateway login granted",
		"warning upstream slow: resources/list fails",
		"warning upstream loud: its standard output had 2 lines that are no MCP messages, the first of them \"beat\": the gateway skips what is no MCP message; have the server print such text to its standard error",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
