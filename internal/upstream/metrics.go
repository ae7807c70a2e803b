package upstream

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the measures of all connectors together. Whoever makes them
// registers them.
type Metrics struct {
	up       *prometheus.GaugeVec
	restarts *prometheus.CounterVec
	resends  *prometheus.CounterVec
	inflight *prometheus.GaugeVec
}

// NewMetrics makes measures that nobody has registered yet.
func NewMetrics() *Metrics {
	labels := []string{"upstream"}
	return &Metrics{
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mcp_gateway_upstream_up",
			Help: "Whether there is a conversation with the upstream: 1 or 0.",
		}, labels),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_upstream_restarts_total",
			Help: "Conversations with the upstream that were opened after the first.",
		}, labels),
		resends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_upstream_resends_total",
			Help: "Calls that were sent to the upstream a second time after the connection had failed.",
		}, labels),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mcp_gateway_inflight_requests",
			Help: "Calls of clients that the upstream has not answered.",
		}, labels),
	}
}

// Collectors returns what is to be registered.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.up, m.restarts, m.resends, m.inflight}
}

// forget takes the series of one upstream away, when its connector has ended.
func (m *Metrics) forget(name string) {
	m.up.DeleteLabelValues(name)
	m.restarts.DeleteLabelValues(name)
	m.resends.DeleteLabelValues(name)
	m.inflight.DeleteLabelValues(name)
}
