package replica

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the collectors of a replica.
type Metrics struct {
	replicas      prometheus.Gauge
	conversations *prometheus.GaugeVec
	calls         *prometheus.CounterVec
	lost          *prometheus.CounterVec
}

// NewMetrics returns collectors, which the caller registers.
func NewMetrics() *Metrics {
	m := &Metrics{
		replicas: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "mcp_gateway", Name: "replicas", Help: "Replicas that this one sees in the store, with itself.",
		}),
		conversations: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "mcp_gateway", Name: "replica_conversations", Help: "Requests that run between this replica and others.",
		}, []string{"side"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "mcp_gateway", Name: "replica_calls_total", Help: "Requests that this replica has passed to others.",
		}, []string{"kind", "outcome"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "mcp_gateway", Name: "replica_lost_total", Help: "Messages between replicas that were lost or not usable.",
		}, []string{"reason"}),
	}
	for _, side := range []string{sideCaller, sideHandler} {
		m.conversations.WithLabelValues(side)
	}
	for _, reason := range []string{lostMalformed, lostGap, lostOverflow, lostNote, lostTTL} {
		m.lost.WithLabelValues(reason)
	}
	return m
}

// begin makes the counters of a kind of requests, so that they begin with 0.
func (m *Metrics) begin(kind string) {
	for _, outcome := range []string{outcomeOK, outcomeFailed, outcomeGone, outcomeLost, outcomeRefused, outcomeCancelled, outcomeStoreAway} {
		m.calls.WithLabelValues(kind, outcome)
	}
}

// Collectors returns all collectors.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.replicas, m.conversations, m.calls, m.lost}
}

// Values of labels.
const (
	sideCaller, sideHandler = "caller", "handler"

	outcomeOK, outcomeFailed, outcomeGone, outcomeLost      = "ok", "failed", "gone", "lost"
	outcomeRefused, outcomeCancelled, outcomeStoreAway      = "refused", "cancelled", "store_away"
	lostMalformed, lostGap, lostOverflow, lostNote, lostTTL = "malformed", "gap", "overflow", "note", "expired"
)
