package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
)

// metrics are the metrics of the control loop.
type metrics struct {
	items   *prometheus.GaugeVec
	swaps   *prometheus.CounterVec
	held    *prometheus.CounterVec
	reloads *prometheus.CounterVec
}

// The outcomes of reloads. Their counters exist from the start with the value 0: an alert
// on an increase misses the first event of a counter that begins with 1.
const (
	reloadChanged = "changed"
	reloadSame    = "same"
	reloadRefused = "refused"
)

func newMetrics() *metrics {
	m := &metrics{
		items: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mcp_gateway_table_items", Help: "Items in the merged catalog.",
		}, []string{"kind"}),
		swaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_table_swaps_total", Help: "New tables, by whether clients see a difference.",
		}, []string{"outcome"}),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_pinned_changes_total", Help: "Definitions of tools that were hidden because they are not the pinned ones.",
		}, []string{"upstream"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_config_reloads_total", Help: "Reloads of the configuration, by outcome.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{reloadChanged, reloadSame, reloadRefused} {
		m.reloads.WithLabelValues(outcome)
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.items, m.swaps, m.held, m.reloads}
}

// count sets how many items of each kind a table has.
func (m *metrics) count(t *catalog.Table) {
	for kind, n := range t.Counts() {
		m.items.WithLabelValues(call.Kind(kind).String()).Set(float64(n))
	}
}
