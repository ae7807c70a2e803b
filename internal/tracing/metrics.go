package tracing

import (
	"context"
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// completed adds to metrics what the bridge from Prometheus leaves out: their units, and the ids of
// traces of exemplars as bytes. The bridge passes on their digits, and collectors then refuse all
// metrics.
type completed struct{ metric.Producer }

// Produce implements metric.Producer.
func (p completed) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	scopes, err := p.Producer.Produce(ctx)
	for _, s := range scopes {
		for i := range s.Metrics {
			m := &s.Metrics[i]
			if m.Unit == "" {
				m.Unit = unitOf(m.Name)
			}
			histogram, ok := m.Data.(metricdata.Histogram[float64])
			if !ok {
				continue
			}
			for _, point := range histogram.DataPoints {
				for i := range point.Exemplars {
					decodeTraceID(&point.Exemplars[i])
				}
			}
		}
	}
	return scopes, err
}

// unitOf returns the unit of a metric in UCUM, by the suffix that the conventions of Prometheus demand,
// "" for numbers.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, u := range []struct{ suffix, unit string }{{"_seconds", "s"}, {"_bytes", "By"}, {"_ratio", "1"}} {
		if strings.HasSuffix(name, u.suffix) {
			return u.unit
		}
	}
	return ""
}

// decodeTraceID leaves an id as it is that is not 32 hexadecimal digits.
func decodeTraceID(e *metricdata.Exemplar[float64]) {
	if id, err := hex.DecodeString(string(e.TraceID)); err == nil && len(id) == 16 {
		e.TraceID = id
	}
}
