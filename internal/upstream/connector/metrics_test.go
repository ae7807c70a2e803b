package connector

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// When one connector replaces another, the upstream is up while either of them is
// connected. Its series are removed with the last connector.
func TestMetricsOfSuccessiveConnectors(t *testing.T) {
	m := NewMetrics()
	up := func() float64 { return testutil.ToFloat64(m.up.WithLabelValues("u")) }
	m.began("u")
	m.opened("u")
	m.began("u")
	if got := up(); got != 1 {
		t.Errorf("up is %v while the second connects", got)
	}
	m.opened("u")
	m.closed("u")
	m.ended("u")
	if got := up(); got != 1 {
		t.Errorf("up is %v after the first has ended", got)
	}
	m.closed("u")
	if got := up(); got != 0 {
		t.Errorf("up is %v after the second lost its connection", got)
	}
	m.ended("u")
	if n := testutil.CollectAndCount(m.up); n != 0 {
		t.Errorf("%d series are left", n)
	}
}
