package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func handler(o Options) http.Handler {
	if o.Ready == nil {
		o.Ready = func() []string { return nil }
	}
	reg := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "mcp_gateway_example"})
	reg.MustRegister(gauge)
	o.Gatherer = reg
	return New(o)
}

func TestPages(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		path    string
		from    string
		bearer  string
		status  int
		body    string
	}{
		{name: "health", path: "/healthz", status: 200, body: `{"status":"ok"}`},
		{name: "ready", path: "/readyz", status: 200, body: `{"status":"ready"}`},
		{
			name: "not ready", path: "/readyz", status: 503, body: `{"status":"not ready","waiting":["upstream files is connecting"]}`,
			options: Options{Ready: func() []string { return []string{"upstream files is connecting"} }},
		},
		{name: "metrics need no token", path: "/metrics", options: Options{Token: "s3cret"}, from: "192.0.2.7:1", status: 200, body: "mcp_gateway_example 0"},
		{name: "profiles are off", path: "/debug/pprof/cmdline", status: 404},
		{name: "profiles on loopback", path: "/debug/pprof/cmdline", options: Options{Pprof: true}, from: "127.0.0.1:1", status: 200},
		{name: "profiles off loopback", path: "/debug/pprof/cmdline", options: Options{Pprof: true}, from: "192.0.2.7:1", status: 403, body: "admin.token"},
		{name: "profiles without the token", path: "/debug/pprof/cmdline", options: Options{Pprof: true, Token: "s3cret"}, from: "127.0.0.1:1", status: 401},
		{name: "profiles with a wrong token", path: "/debug/pprof/cmdline", options: Options{Pprof: true, Token: "s3cret"}, bearer: "s3creT", status: 401},
		{name: "profiles with the token", path: "/debug/pprof/cmdline", options: Options{Pprof: true, Token: "s3cret"}, from: "192.0.2.7:1", bearer: "s3cret", status: 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := httptest.NewRequest(http.MethodGet, tt.path, nil)
			if tt.from != "" {
				req.RemoteAddr = tt.from
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
