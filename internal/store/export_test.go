package store

import "github.com/prometheus/client_golang/prometheus/testutil"

// Outcomes returns how many operations ended so.
func Outcomes(m *Metrics, operation, outcome string) float64 {
	return testutil.ToFloat64(m.outcomes.WithLabelValues(operation, outcome))
}
