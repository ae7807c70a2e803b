package store

import "github.com/prometheus/client_golang/prometheus"

// operation is a method of Store.
type operation int

const (
	opGet operation = iota
	opPut
	opPutNew
	opTake
	opDelete
	opFields
	opPutField
	opDeleteField
	opAppend
	opLast
	opRead
	opAcquire
	opRenew
	opRelease
	numOperations
)

// operationNames are the values of the label operation.
var operationNames = [numOperations]string{
	"get", "put", "put_new", "take", "delete", "fields", "put_field", "delete_field", "append", "last", "read", "acquire", "renew", "release",
}

// counters are the metrics of one operation.
type counters struct {
	ok, failed, skipped, canceled prometheus.Counter
	duration                      prometheus.Observer
}

// Metrics say how a store works.
type Metrics struct {
	up         prometheus.Gauge
	refused    prometheus.Counter
	outcomes   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	operations [numOperations]counters
}

// NewMetrics returns metrics that are not registered yet.
func NewMetrics() *Metrics {
	m := &Metrics{
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mcp_gateway_store_up", Help: "Whether the store that replicas share works: 1 or 0.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mcp_gateway_store_refused_total", Help: "Things in the store that were refused because none of the keys has sealed them for their place.",
		}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_store_operations_total", Help: "Operations of the store, by outcome: ok, failed, skipped (the store is away and was not asked) or canceled.",
		}, []string{"operation", "outcome"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mcp_gateway_store_duration_seconds", Help: "Time of operations of the store that were asked, reads that wait apart.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
		}, []string{"operation"}),
	}
	for op, name := range operationNames {
		m.operations[op] = counters{
			ok: m.outcomes.WithLabelValues(name, "ok"), failed: m.outcomes.WithLabelValues(name, "failed"),
			skipped: m.outcomes.WithLabelValues(name, "skipped"), canceled: m.outcomes.WithLabelValues(name, "canceled"),
			duration: m.durations.WithLabelValues(name),
		}
	}
	return m
}

// Refused counts something that was refused, see [Sealed].
func (m *Metrics) Refused() { m.refused.Inc() }

// Collectors returns the metrics to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.up, m.refused, m.outcomes, m.durations}
}
