package upstream

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

// The end of a connector takes nothing away from what another one has learned of
// an upstream of the same name.
func TestTrailOfSuccessiveConnectors(t *testing.T) {
	trail, err := NewLoopDetector("")
	if err != nil {
		t.Fatal(err)
	}
	first, second := New(Options{Name: "u", LoopDetector: trail}), New(Options{Name: "u", LoopDetector: trail})
	for _, c := range []*Connector{first, second} {
		if err := trail.check(c.o.instance, "BEHIND"); err != nil {
			t.Fatal(err)
		}
	}
	first.finish()
	if got, want := trail.Said(), trail.id+",BEHIND"; got != want {
		t.Errorf("the trail says %q, want %q", got, want)
	}
	second.finish()
	if got := trail.Said(); got != trail.id {
		t.Errorf("in the end the trail says %q, want %q", got, trail.id)
	}
}
