package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/origin"
)

func handler(o Options) http.Handler {
	if o.Ready == nil {
		o.Ready = func() []string { return nil }
	}
	reg := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "mcp_gateway_example"})
	reg.MustRegister(gauge)
	o.Gatherer = reg
	if o.Guard == nil {
		o.Guard = func() *origin.Guard { return origin.New(origin.Options{IPHosts: true}) }
	}
	return New(o)
}

func TestPages(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		path    string
		from    string
		proxied bool
		bearer  string
		status  int
		body    string
	}{
		{name: "health", path: "/healthz", status: 200, body: `{"status":"ok"}`},
		{
			name: "ready, an upstream fails", path: "/readyz", status: 200, body: `{"failing":["upstream files fails"],"status":"ready"}`,
			options: Options{Failing: func() []string { return []string{"upstream files fails"} }},
		},
		{name: "no page", path: "/", status: 404, body: "/metrics   metrics"},
		{name: "ready", path: "/readyz", status: 200, body: `{"status":"ready"}`},
		{
			name: "not ready", path: "/readyz", status: 503, body: `{"status":"not ready","waiting":["upstream files is connecting"]}`,
			options: Options{Ready: func() []string { return []string{"upstream files is connecting"} }},
		},
		{name: "metrics need no token", path: "/metrics", options: Options{Token: "s3cret"}, from: "192.0.2.7:1", status: 200, body: "mcp_gateway_example 0"},
		{name: "status without a configured token", path: "/-/status", options: status(""), from: "127.0.0.1:1", status: 403, body: "admin.token"},
		{name: "status without the token", path: "/-/status", options: status("s3cret"), from: "127.0.0.1:1", status: 401},
		{name: "status with the token", path: "/-/status", options: status("s3cret"), from: "192.0.2.7:1", bearer: "s3cret", status: 200, body: `{"pid":1}`},
		{name: "profiles are off", path: "/debug/pprof/cmdline", status: 404},
		{name: "profiles on loopback", path: "/debug/pprof/cmdline", options: Options{Pprof: true}, from: "127.0.0.1:1", status: 200},
		{name: "profiles off loopback", path: "/debug/pprof/cmdline", options: Options{Pprof: true}, from: "192.0.2.7:1", status: 403, body: "admin.token"},
		{name: "profiles through a proxy", path: "/debug/pprof/cmdline", options: Options{Pprof: true}, from: "127.0.0.1:1", proxied: true, status: 403, body: "admin.token"},
		{name: "metrics through a proxy", path: "/metrics", from: "127.0.0.1:1", proxied: true, status: 200},
		{name: "health through a proxy", path: "/healthz", from: "127.0.0.1:1", proxied: true, status: 200},
		{name: "profiles without the token", path: "/debug/pprof/cmdline", options: Options{Pprof: true, Token: "s3cret"}, from: "127.0.0.1:1", status: 401},
		{name: "profiles with a wrong token", path: "/debug/pprof/cmdline", options: Options{Pprof: true, Token: "s3cret"}, bearer: "s3creT", status: 401},
		{name: "profiles with the token", path: "/debug/pprof/cmdline", options: Options{Pprof: true, Token: "s3cret"}, from: "192.0.2.7:1", bearer: "s3cret", status: 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := httptest.NewRequest(http.MethodGet, tt.path, nil)
			req.Host = "127.0.0.1:9090"
			if tt.from != "" {
				req.RemoteAddr = tt.from
			}
			if tt.proxied {
				req.Header.Set("X-Forwarded-For", "192.0.2.7")
			}
			if tt.bearer != "" {
				req.Header.Set("Authorization", "Bearer "+tt.bearer)
			}
			rec := httptest.NewRecorder()
			handler(tt.options).ServeHTTP(rec, req)
			if rec.Code != tt.status || !strings.Contains(rec.Body.String(), tt.body) {
				t.Errorf("got %d %q, want %d with %q", rec.Code, rec.Body, tt.status, tt.body)
			}
		})
	}
}

// status are options with a status.
func status(token string) Options {
	return Options{Token: token, Status: func() (any, error) { return map[string]int{"pid": 1}, nil }}
}

// The local handler needs no token, and serves nothing but status and reload.
func TestLocal(t *testing.T) {
	o := status("s3cret")
	o.Reload = func(context.Context) (int, any) { return http.StatusOK, "reloaded" }
	for _, tt := range []struct {
		method, path string
		status       int
	}{{"GET", "/-/status", 200}, {"POST", "/-/reload", 200}, {"GET", "/-/reload", 405}, {"GET", "/metrics", 404}} {
		rec := httptest.NewRecorder()
		NewLocal(o).ServeHTTP(rec, httptest.NewRequest(tt.method, tt.path, nil))
		if rec.Code != tt.status {
			t.Errorf("%s %s: %d, want %d", tt.method, tt.path, rec.Code, tt.status)
		}
	}
}

// Requests of pages in a browser are refused. Those of probes and Prometheus are served.
func TestPagesOfBrowsers(t *testing.T) {
	loopback := origin.New(origin.Options{Loopback: true, IPHosts: true})
	named := origin.New(origin.Options{IPHosts: true, Hosts: []string{"gateway.internal"}})
	for _, tt := range []struct {
		name         string
		guard        *origin.Guard
		method, path string
		host, from   string // from is the Origin header
		status       int
	}{
		{"metrics by number", loopback, "GET", "/metrics", "127.0.0.1:9090", "", 200},
		{"metrics by name", loopback, "GET", "/metrics", "localhost:9090", "", 200},
		{"metrics by version 6", loopback, "GET", "/metrics", "[::1]:9090", "", 200},
		{"health for a balancer without Host", loopback, "GET", "/readyz", "", "", 200},
		{"without Host for a page", loopback, "GET", "/readyz", "", "https://page.example", 403},
		{"reload without Host", loopback, "POST", "/-/reload", "", "", 403},
		{"metrics, rebound", loopback, "GET", "/metrics", "page.example:9090", "", 403},
		{"health, rebound", loopback, "GET", "/healthz", "page.example:9090", "", 403},
		{"readiness, rebound", loopback, "GET", "/readyz", "page.example:9090", "http://page.example:9090", 403},
		{"profiles, rebound", loopback, "GET", "/debug/pprof/cmdline", "page.example:9090", "", 403},
		{"reload, rebound", loopback, "POST", "/-/reload", "page.example:9090", "", 403},
		{"a number of another machine", loopback, "GET", "/metrics", "10.1.2.3:9090", "", 403},
		{"metrics for a page", loopback, "GET", "/metrics", "127.0.0.1:9090", "https://page.example", 403},
		{"reload by a page", loopback, "POST", "/-/reload", "127.0.0.1:9090", "https://page.example", 403},
		{"reload by a page of this machine", loopback, "POST", "/-/reload", "127.0.0.1:9090", "http://localhost:3000", 403},
		{"reload by a page of this address", loopback, "POST", "/-/reload", "127.0.0.1:9090", "http://127.0.0.1:9090", 403},
		{"reload by a program", loopback, "POST", "/-/reload", "127.0.0.1:9090", "", 200},
		{"a probe names the pod by number", named, "GET", "/healthz", "10.1.2.3:9090", "", 200},
		{"a probe by version 6", named, "GET", "/healthz", "[fd00::1]:9090", "", 200},
		{"Prometheus by name", named, "GET", "/metrics", "gateway.internal:9090", "", 200},
		{"by another name", named, "GET", "/metrics", "page.example:9090", "", 403},
		{"names are not known", nil, "GET", "/metrics", "gateway.internal:9090", "", 200},
		{"profiles, rebound where names are not known", nil, "GET", "/debug/pprof/cmdline", "page.example:9090", "", 403},
		{"reload, rebound where names are not known", nil, "POST", "/-/reload", "page.example:9090", "", 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Pprof: true, Reload: func(context.Context) (int, any) { return 200, nil }}
			if tt.guard != nil {
				o.Guard = func() *origin.Guard { return tt.guard }
			}
			req := httptest.NewRequest(tt.method, tt.path, nil)
			req.Host, req.RemoteAddr = tt.host, "127.0.0.1:1"
			if tt.from != "" {
				req.Header.Set("Origin", tt.from)
			}
			rec := httptest.NewRecorder()
			handler(o).ServeHTTP(rec, req)
			if rec.Code != tt.status {
				t.Errorf("got %d %q, want %d", rec.Code, rec.Body, tt.status)
			}
		})
	}
}
