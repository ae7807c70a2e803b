package inspect

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/call"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/upstream/connector"
)

// upstreamsOnly is a gateway of which only the upstreams are asked.
type upstreamsOnly struct {
	Gateway
	all      []Upstream
	profiles []Profile
}

func (u upstreamsOnly) Upstreams() []Upstream           { return u.all }
func (u upstreamsOnly) Profiles() []Profile             { return u.profiles }
func (u upstreamsOnly) Profile(string) *profile.Profile { return nil }

// The status has the profiles with their URLs, and none if there is only the default one.
func TestStatusOfProfiles(t *testing.T) {
	i := New(upstreamsOnly{profiles: []Profile{{Name: "default"}, {Name: "coding", Items: [call.Kinds]int{call.Tool: 2}}}})
	for url, want := range map[string]string{"http://127.0.0.1:8080/mcp": "http://127.0.0.1:8080/mcp/coding", "": ""} {
		s, err := i.Status(Process{URL: url, Metrics: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Profiles) != 2 || s.Profiles[0].URL != url || s.Profiles[1].URL != want || s.Profiles[1].Items["tools"] != 2 {
			t.Errorf("%+v", s.Profiles)
		}
	}
	s, err := New(upstreamsOnly{profiles: []Profile{{Name: "default"}}}).Status(Process{Metrics: prometheus.NewRegistry()})
	if err != nil || s.Profiles != nil {
		t.Errorf("%+v, %v", s.Profiles, err)
	}
}

func TestStatus(t *testing.T) {
	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mcp_gateway_requests_total"}, []string{"method", "upstream", "outcome"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mcp_gateway_request_duration_seconds", Buckets: []float64{.01, .1, 1},
	}, []string{"method", "upstream"})
	sessions := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "mcp_gateway_sessions"}, []string{"era"})
	registry.MustRegister(requests, durations, sessions)
	sessions.WithLabelValues("legacy").Set(3)
	requests.WithLabelValues("tools/call", "a", "ok").Add(90)
	requests.WithLabelValues("prompts/get", "a", "error").Add(4)
	requests.WithLabelValues("tools/call", "a", "unavailable").Add(5)
	requests.WithLabelValues("tools/call", "a", "limited").Add(1)
	requests.WithLabelValues("tools/call", "removed", "ok").Add(7)
	requests.WithLabelValues("tools/list", "", "ok").Add(1000)
	requests.WithLabelValues("tools/list", "a", "ok").Add(1000)
	for range 90 {
		durations.WithLabelValues("tools/call", "a").Observe(.005)
	}
	for range 10 {
		durations.WithLabelValues("prompts/get", "a").Observe(.05)
	}
	durations.WithLabelValues("tools/call", "removed").Observe(5)

	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	i := New(upstreamsOnly{all: []Upstream{
		{Name: "a", State: connector.Ready, Since: at, Items: [call.Kinds]int{call.Tool: 2}, LastError: &Trouble{"it fell", at}, OpenBreakers: connector.Breakers{Sessions: 1, Since: at}},
		{Name: "b", State: connector.Down, Since: at, Reason: "gone"},
		{Name: "c", State: connector.Ready, Since: at, Skipped: connector.SkippedOutput{Lines: 2, First: "beat", Last: at}, HalfOpenBreakers: connector.Breakers{Sessions: 1, Since: at}},
	}})
	s, err := i.Status(Process{Version: "1", Mode: "http", Started: at, Metrics: registry, Slowest: always(5 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if s.Sessions != 3 || s.Calls != 107 || s.PID == 0 || len(s.Upstreams) != 3 {
		t.Fatalf("%+v", s)
	}
	a, b, c := s.Upstreams[0], s.Upstreams[1], s.Upstreams[2]
	if a.State != "ready" || !a.Since.Equal(at) || a.Calls != 100 || a.Failed != 9 || a.Items["tools"] != 2 || a.LastError != "it fell" {
		t.Errorf("a: %+v", a)
	}
	if a.P95 == nil || *a.P95 < .054 || *a.P95 > .056 { // half of the durations between .01 and .1
		t.Errorf("p95: %v", a.P95)
	}
	if a.BreakerSince == nil || !a.BreakerSince.Equal(at) || b.BreakerSince != nil || c.BreakerSince == nil {
		t.Errorf("the breakers are open since %v, %v and %v", a.BreakerSince, b.BreakerSince, c.BreakerSince)
	}
	if a.BreakerState != BreakerOpen || b.BreakerState != "" || c.BreakerState != BreakerHalfOpen {
		t.Errorf("the states of the breakers: %q, %q, %q", a.BreakerState, b.BreakerState, c.BreakerState)
	}
	if a.Skipped != nil || c.Skipped == nil || c.Skipped.Lines != 2 {
		t.Errorf("skipped output: %v and %v", a.Skipped, c.Skipped)
	}
	if b.State != "down" || b.Reason != "gone" || b.Calls != 0 || b.P95 != nil || b.LastErrorAt != nil {
		t.Errorf("b: %+v", b)
	}
}

// always is the Slowest of a test.
func always(took time.Duration) Slowest { return func(string) time.Duration { return took } }

// No call took longer than the slowest one: an estimate is not above it.
func TestQuantileIsNotAboveTheSlowestCall(t *testing.T) {
	registry := prometheus.NewRegistry()
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mcp_gateway_request_duration_seconds", Buckets: []float64{.025, .05},
	}, []string{"method", "upstream"})
	registry.MustRegister(durations)
	durations.WithLabelValues("tools/call", "a").Observe(.03)
	s, err := New(upstreamsOnly{all: []Upstream{{Name: "a"}}}).Status(Process{Metrics: registry, Slowest: always(30 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	if p95 := s.Upstreams[0].P95; p95 == nil || *p95 != .03 {
		t.Errorf("p95: %+v", s.Upstreams[0])
	}
	h := NewHistory(registry, always(30*time.Millisecond))
	h.Sample(time.Now())
	durations.WithLabelValues("tools/call", "a").Observe(.03)
	h.Sample(time.Now().Add(HistoryStep))
	if a, all := h.Rates("a").P99, h.Rates("").P99; a != .03 || all != .03 {
		t.Errorf("p99: %v, of all %v", a, all)
	}
}

func TestQuantileAboveTheLastBound(t *testing.T) {
	tr := traffic{counts: map[float64]uint64{1: 1, 2: 1}, total: 10, slowest: 3}
	if got := tr.quantile(.95); got == nil || *got != 2 {
		t.Errorf("got %v, want the last bound", got)
	}
}
