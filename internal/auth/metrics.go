package auth

import "github.com/prometheus/client_golang/prometheus"

// Metrics holds the collectors of the package.
type Metrics struct {
	failures *prometheus.CounterVec
	issuers  *prometheus.GaugeVec
}

// NewMetrics returns new collectors. The caller registers them.
func NewMetrics() *Metrics {
	m := &Metrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "mcp_gateway", Name: "auth_failures_total", Help: "Requests whose authentication failed, by reason.",
		}, []string{"reason"}),
		issuers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "mcp_gateway", Name: "auth_issuer_up", Help: "Whether the last fetch of the keys of the issuer has succeeded: 1 or 0.",
		}, []string{"issuer"}),
	}
	for _, f := range failures {
		m.failures.WithLabelValues(f.reason)
	}
	return m
}

// Collectors returns all collectors.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.failures, m.issuers}
}

// issuerUp returns a function that records whether a fetch of the keys of an issuer has
// succeeded. There is no series before the first one.
func (m *Metrics) issuerUp(issuer string) func(bool) {
	return func(up bool) {
		value := 0.0
		if up {
			value = 1
		}
		m.issuers.WithLabelValues(issuer).Set(value)
	}
}
