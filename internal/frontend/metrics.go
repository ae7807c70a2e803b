package frontend

import (
	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/wire"
)

// Metrics are the collectors of a front end. Their label "era", where they have one, is "legacy" or
// "modern".
type Metrics struct {
	Sessions *prometheus.GaugeVec // legacy sessions that are open
	Streams  *prometheus.GaugeVec // streams of events that are open, those of calls included
	Parked   prometheus.Gauge     // calls that wait for a client to come back with answers
	// Refused are requests that did not become calls. Its label "reason" takes a fixed set of words.
	Refused *prometheus.CounterVec
}

// NewMetrics makes the collectors; the caller registers them.
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

// Collectors returns everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.Sessions, m.Streams, m.Parked, m.Refused}
}
