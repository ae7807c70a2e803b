package frontend

import (
	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/wire"
)

// Metrics are the collectors of a front end. The label "era" is "legacy" or "modern".
type Metrics struct {
	Sessions *prometheus.GaugeVec // open legacy sessions
	Streams  *prometheus.GaugeVec // open event streams, including those of calls
	Parked   prometheus.Gauge     // parked calls
	// Refused counts requests that did not become calls. The label "reason" has few values.
	Refused *prometheus.CounterVec
}

// NewMetrics returns collectors, which the caller registers.
func NewMetrics() *Metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "mcp_gateway", Name: name, Help: help}, []string{"era"})
	}
	m := &Metrics{
		Sessions: gauge("sessions", "Sessions of clients that are open."),
		Streams:  gauge("streams", "Event streams to clients that are open."),
		Parked: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "mcp_gateway", Name: "parked_calls", Help: "Calls that wait for a modern client to come back with answers.",
		}),
		Refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "mcp_gateway", Name: "refused_requests_total", Help: "Requests of clients that were refused before they became calls.",
		}, []string{"reason"}),
	}
	m.Sessions.WithLabelValues(wire.EraLegacy.String())
	m.Streams.WithLabelValues(wire.EraLegacy.String())
	m.Streams.WithLabelValues(wire.EraModern.String())
	return m
}

// Collectors returns all collectors.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.Sessions, m.Streams, m.Parked, m.Refused}
}
