package connector

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of all connectors. The caller of NewMetrics registers them. A
// connector and its replacement share their series.
type Metrics struct {
	up       *prometheus.GaugeVec
	idle     *prometheus.GaugeVec
	restarts *prometheus.CounterVec
	resends  *prometheus.CounterVec
	inflight *prometheus.GaugeVec
	limit    *prometheus.GaugeVec
	queued   *prometheus.GaugeVec
	left     *prometheus.CounterVec // extensions
	breakers *prometheus.GaugeVec
	trips    *prometheus.CounterVec
	hung     *prometheus.CounterVec
	excess   *prometheus.CounterVec

	mu     sync.Mutex
	served map[string]served // by the upstream's name
}

// served counts the connectors of an upstream that run, those that have a conversation,
// and those that are idle.
type served struct{ running, up, idle int }

// NewMetrics returns metrics that are not registered yet.
func NewMetrics() *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"upstream"}, labels...))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"upstream"}, labels...))
	}
	return &Metrics{
		served: make(map[string]served),
		up: gauge("mcp_gateway_upstream_up",
			"Whether the session that gathers the shared lists has a conversation with the upstream: 1 or 0."),
		idle: gauge("mcp_gateway_upstream_idle",
			"Whether there is no conversation with the upstream because nothing needs one: 1 or 0."),
		restarts: counter("mcp_gateway_upstream_restarts_total",
			"Conversations with the upstream that were opened after the first."),
		resends: counter("mcp_gateway_upstream_resends_total",
			"Calls that were sent to the upstream a second time after the connection had failed."),
		left: counter("mcp_gateway_unrelayed_extensions_total",
			"Extensions that the upstream declared when a conversation was opened, and that the gateway does not relay or declare."),
		breakers: gauge("mcp_gateway_upstream_breaker_state",
			"Sessions with the upstream whose circuit breaker is in the state open or half-open.", "state"),
		trips: counter("mcp_gateway_upstream_breaker_trips_total",
			"How often a circuit breaker of the upstream has opened after it was closed."),
		hung: counter("mcp_gateway_upstream_hung_total",
			"Conversations that ended because the upstream had stopped answering."),
		excess: counter("mcp_gateway_upstream_excess_messages_total",
			"Messages that were dropped, merged or read late because the upstream sends too many.", "kind"),
		limit: gauge("mcp_gateway_upstream_concurrency_limit",
			"How many calls the upstream gets at once."),
		queued: gauge("mcp_gateway_upstream_queued_requests",
			"Calls that wait for a slot of the upstream."),
		inflight: gauge("mcp_gateway_inflight_requests",
			"Calls of clients that the upstream has not answered."),
	}
}

// Collectors returns the collectors to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.up, m.idle, m.restarts, m.resends, m.inflight, m.limit, m.queued, m.left, m.breakers, m.trips, m.hung, m.excess}
}

// began notes that a connector of the upstream runs. One ended follows each began.
func (m *Metrics) began(name string) {
	m.trips.WithLabelValues(name) // counted from 0
	m.hung.WithLabelValues(name)
	m.excess.WithLabelValues(name, excessLog)
	for _, s := range []breakerState{breakerOpen, breakerHalfOpen} {
		m.breakers.WithLabelValues(name, s.String())
	}
	m.change(name, served{running: 1})
}

// opened notes that a connector of the upstream has a conversation, closed that the
// conversation has ended.
func (m *Metrics) opened(name string) { m.change(name, served{up: 1}) }
func (m *Metrics) closed(name string) { m.change(name, served{up: -1}) }

// rests notes that a connector of the upstream is idle, wakes that it is not any more.
func (m *Metrics) rests(name string) { m.change(name, served{idle: 1}) }
func (m *Metrics) wakes(name string) { m.change(name, served{idle: -1}) }

// breaker counts a breaker that changes its state.
func (m *Metrics) breaker(name string, from, to breakerState) {
	if from == breakerClosed {
		m.trips.WithLabelValues(name).Inc()
	} else {
		m.breakers.WithLabelValues(name, from.String()).Dec()
	}
	if to != breakerClosed {
		m.breakers.WithLabelValues(name, to.String()).Inc()
	}
}

// ended deletes the series of an upstream with the last of its connectors.
func (m *Metrics) ended(name string) { m.change(name, served{running: -1}) }

func (m *Metrics) change(name string, by served) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.served[name]
	now.running += by.running
	now.up += by.up
	now.idle += by.idle
	if now.running > 0 {
		m.served[name] = now
		m.up.WithLabelValues(name).Set(float64(min(now.up, 1)))
		m.idle.WithLabelValues(name).Set(float64(min(now.idle, 1)))
		return
	}
	delete(m.served, name)
	m.up.DeleteLabelValues(name)
	m.idle.DeleteLabelValues(name)
	m.restarts.DeleteLabelValues(name)
	m.resends.DeleteLabelValues(name)
	m.inflight.DeleteLabelValues(name)
	m.limit.DeleteLabelValues(name)
	m.queued.DeleteLabelValues(name)
	m.left.DeleteLabelValues(name)
	m.trips.DeleteLabelValues(name)
	m.hung.DeleteLabelValues(name)
	m.excess.DeletePartialMatch(prometheus.Labels{"upstream": name})
	m.breakers.DeletePartialMatch(prometheus.Labels{"upstream": name})
}
