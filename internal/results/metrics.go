package results

import "github.com/prometheus/client_golang/prometheus"

// Metrics say how much is kept.
type Metrics struct {
	kept    prometheus.Gauge
	bytes   prometheus.Gauge
	evicted prometheus.Counter
}

// NewMetrics returns metrics that are not registered yet.
func NewMetrics() *Metrics {
	return &Metrics{
		kept: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mcp_gateway_results_kept", Help: "Long results that are kept for reading on.",
		}),
		bytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mcp_gateway_results_kept_bytes", Help: "Memory of the long results that are kept.",
		}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mcp_gateway_results_evicted_total", Help: "Long results that were removed before their time because there was no room.",
		}),
	}
}

// Collectors returns the metrics to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.kept, m.bytes, m.evicted}
}
