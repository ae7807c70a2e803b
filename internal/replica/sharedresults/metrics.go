package sharedresults

import "github.com/prometheus/client_golang/prometheus"

// Metrics say what becomes of results in the store.
type Metrics struct {
	unshared prometheus.Gauge
	evicted  prometheus.Counter
}

// NewMetrics returns metrics that are not registered yet.
func NewMetrics() *Metrics {
	return &Metrics{
		unshared: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mcp_gateway_results_unshared", Help: "Long results that this replica keeps alone, because the store did not take them yet.",
		}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mcp_gateway_results_shared_evicted_total", Help: "Long results that this replica removed from the store before their time because there was no room.",
		}),
	}
}

// Collectors returns the metrics to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.unshared, m.evicted}
}
