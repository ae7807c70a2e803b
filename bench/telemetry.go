package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
)

// tracesWorkload compares calls whose traces are exported with calls without traces.
func tracesWorkload() workload {
	const off, some, all = "off", "ratio 0.01", "ratio 1"
	at := func(name string, sample float64) path {
		return calls{Via: viaGateway, Size: 1 << 10, Change: func(_ context.Context, s *stage, config *gatewayConfig, _ *target) error {
			// The collector is in this process, which is not measured.
			collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // the gateway reports what it cannot send
			}))
			s.owned(closeFunc(func() error { collector.Close(); return nil }))
			config.Telemetry["otlp"] = map[string]any{"endpoint": collector.URL, "protocol": "http", "sample": sample, "signals": []string{"traces"}}
			return nil
		}}.path(name)
	}
	return workload{
		Name:  "traces",
		About: "16 legacy clients call a tool with 1 KiB of text. The gateway exports no traces, or those of the ratio, to a collector that drops them.",
		Paths: []path{calls{Via: viaGateway, Size: 1 << 10}.path(off), at(some, 0.01), at(all, 1)},
		Ratios: []ratio{
			{Metric: cpu, Of: some, To: off}, {Metric: cpu, Of: all, To: off},
			{Metric: perSecond, Of: all, To: off},
		},
	}
}
