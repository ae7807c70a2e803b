package connector

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// While one connector takes the place of another, the upstream is up as long as
// either has a conversation, and its series go with the last of them.
func TestMetricsOfSuccessiveConnectors(t *testing.T) {
	m := NewMetrics()
	up := func() float64 { return testutil.ToFloat64(m.up.WithLabelValues("u")) }
	m.began("u")
	m.opened("u")
	m.began("u")
	if got := up(); got != 1 {
		t.Errorf("with a successor that is connecting: up is %v", got)
	}
	m.opened("u")
	m.closed("u")
	m.ended("u")
	if got := up(); got != 1 {
		t.Errorf("after the first has ended: up is %v", got)
	}
	m.closed("u")
	if got := up(); got != 0 {
		t.Errorf("after the second lost its conversation: up is %v", got)
	}
	m.ended("u")
	if n := testutil.CollectAndCount(m.up); n != 0 {
		t.Errorf("%d series are left", n)
	}
}
