package upstream

import (
	"testing"
)

// The end of a connector takes nothing away from what another one has learned of
// an upstream of the same name.
func TestTrailOfSuccessiveConnectors(t *testing.T) {
	trail, err := NewLoopDetector("")
	if err != nil {
		t.Fatal(err)
	}
	first, second := Options{Name: "u", LoopDetector: trail}.withDefaults(), Options{Name: "u", LoopDetector: trail}.withDefaults()
	for _, o := range []*Options{first, second} {
		if err := trail.check(o.instance, "BEHIND"); err != nil {
			t.Fatal(err)
		}
	}
	_ = first.newConnector(nil).Run(t.Context()) // it has no transport, so it ends at once
	if got, want := trail.Said(), trail.id+",BEHIND"; got != want {
		t.Errorf("the trail says %q, want %q", got, want)
	}
	_ = second.newConnector(nil).Run(t.Context())
	if got := trail.Said(); got != trail.id {
		t.Errorf("in the end the trail says %q, want %q", got, trail.id)
	}
}
