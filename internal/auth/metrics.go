package auth

import "github.com/prometheus/client_golang/prometheus"

// Metrics holds the collectors of the package.
type Metrics struct {
	failures *prometheus.CounterVec
}

// NewMetrics returns new collectors. The caller registers them.
func NewMetrics() *Metrics {
	m := &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "mcp_gateway", Name: "auth_failures_total", Help: "Requests whose authentication failed, by reason.",
	}, []string{"reason"})}
	for _, f := range failures {
		m.failures.WithLabelValues(f.reason)
	}
	return m
}

// Collectors returns all collectors.
func (m *Metrics) Collectors() []prometheus.Collector { return []prometheus.Collector{m.failures} }
