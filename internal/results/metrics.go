package results

import "github.com/prometheus/client_golang/prometheus"

// Metrics say how much is kept, and count what was shortened. The label profile takes configured
// names.
type Metrics struct {
	kept      prometheus.Gauge
	bytes     prometheus.Gauge
	evicted   prometheus.Counter
	shortened *prometheus.CounterVec
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
		shortened: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_results_shortened_total", Help: "Results over max_result, by what became of them.",
		}, []string{"profile", "outcome"}),
	}
}

// Collectors returns the metrics to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.kept, m.bytes, m.evicted, m.shortened}
}

// The outcomes of a result over max_result.
const (
	OutcomeKept     = "kept"      // shortened, with a link to the whole
	OutcomeTooLarge = "too_large" // sent whole, because the store cannot keep it
	OutcomeFailed   = "failed"    // sent whole, because the store failed
)

// Count counts a result over max_result.
func (m *Metrics) Count(profile, outcome string) { m.shortened.WithLabelValues(profile, outcome).Inc() }
