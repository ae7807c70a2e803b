package tracing

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// withTraceIDs decodes the ids of traces of exemplars. The bridge from Prometheus passes on their
// digits as they are, and collectors then refuse all metrics.
type withTraceIDs struct{ metric.Producer }

// Produce implements metric.Producer.
func (p withTraceIDs) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	scopes, err := p.Producer.Produce(ctx)
	for _, s := range scopes {
		for _, m := range s.Metrics {
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

// decodeTraceID leaves an id as it is that is not 32 hexadecimal digits.
func decodeTraceID(e *metricdata.Exemplar[float64]) {
	if id, err := hex.DecodeString(string(e.TraceID)); err == nil && len(id) == 16 {
		e.TraceID = id
	}
}
