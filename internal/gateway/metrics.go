package gateway

import (
	"cmp"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/router"
)

// metrics are the metrics of the control loop.
type metrics struct {
	items *prometheus.GaugeVec
	// profileItems has a configured name as label, not one that clients choose.
	profileItems *prometheus.GaugeVec
	swaps        *prometheus.CounterVec
	held         *prometheus.CounterVec
	reloads      *prometheus.CounterVec
	// reloaded is 1 if the last reload is wholly in force: it was not refused, and no upstream keeps values of before.
	// reloadedAt is the time of the last such one; the start counts as one.
	reloaded, reloadedAt prometheus.Gauge
	build                *prometheus.GaugeVec
	adminRefused         prometheus.Counter
	handshakes           prometheus.Counter // that failed
}

// The outcomes of reloads. Their counters exist from the start with the value 0: an alert
// on an increase misses the first event of a counter that begins with 1.
const (
	reloadChanged = "changed"
	reloadSame    = "same"
	reloadRefused = "refused"
)

func newMetrics(version string) *metrics {
	m := &metrics{
		adminRefused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mcp_gateway_admin_refused_requests_total", Help: "Requests to the admin address that were refused.",
		}),
		handshakes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mcp_gateway_tls_handshake_failures_total", Help: "TLS handshakes of clients that failed.",
		}),
		items: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mcp_gateway_table_items", Help: "Items in the merged catalog.",
		}, []string{"kind"}),
		profileItems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mcp_gateway_profile_items", Help: "Items in the catalog of each profile.",
		}, []string{"profile", "kind"}),
		swaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_table_swaps_total", Help: "New tables, by whether clients see a difference.",
		}, []string{"outcome"}),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_pinned_changes_total", Help: "Definitions of tools that were hidden because they are not the pinned ones.",
		}, []string{"upstream"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_config_reloads_total", Help: "Reloads of the configuration, by outcome.",
		}, []string{"outcome"}),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mcp_gateway_config_last_reload_successful", Help: "Whether the last reload of the configuration was successful, for all upstreams: 1 or 0.",
		}),
		reloadedAt: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mcp_gateway_config_last_reload_success_timestamp_seconds", Help: "When the configuration was last read successfully.",
		}),
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mcp_gateway_build_info", Help: "The build of the gateway; the value is 1.",
		}, []string{"version", "goversion"}),
	}
	for _, outcome := range []string{reloadChanged, reloadSame, reloadRefused} {
		m.reloads.WithLabelValues(outcome)
	}
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
	m.inForce()
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.items, m.profileItems, m.swaps, m.held, m.reloads, m.reloaded, m.reloadedAt, m.build, m.adminRefused, m.handshakes}
}

// inForce notes that the configuration was read and is wholly in force, partlyInForce that upstreams keep values of
// before, and refused that it is not in force.
func (m *metrics) inForce() {
	m.reloaded.Set(1)
	m.reloadedAt.SetToCurrentTime()
}

func (m *metrics) partlyInForce() { m.reloaded.Set(0) }

func (m *metrics) refused() {
	m.reloads.WithLabelValues(reloadRefused).Inc()
	m.reloaded.Set(0)
}

// count sets how many items of each kind the tables have.
func (m *metrics) count(routes *router.Routes) {
	for kind, n := range routes.Table.Ordinary().Counts() {
		m.items.WithLabelValues(call.Kind(kind).String()).Set(float64(n))
	}
	for profile, table := range routes.Tables() {
		for kind, n := range table.Counts() {
			m.profileItems.WithLabelValues(cmp.Or(profile, config.DefaultProfile), call.Kind(kind).String()).Set(float64(n))
		}
	}
}
