package upstream

import (
	"testing"
)

// The end of a connector keeps the entries of another connector of the same
// upstream.
func TestLoopDetectorOfSuccessiveConnectors(t *testing.T) {
	detector, err := NewLoopDetector("")
	if err != nil {
		t.Fatal(err)
	}
	first, second := Options{Name: "u", LoopDetector: detector}.withDefaults(), Options{Name: "u", LoopDetector: detector}.withDefaults()
	for _, o := range []*Options{first, second} {
		if err := detector.check(o.instance, "BEHIND"); err != nil {
			t.Fatal(err)
		}
	}
	_ = first.newConnector(nil).Run(t.Context()) // it has no transport, so it ends at once
	if got, want := detector.Said(), detector.id+",BEHIND"; got != want {
		t.Errorf("Said returned %q, want %q", got, want)
	}
	_ = second.newConnector(nil).Run(t.Context())
	if got := detector.Said(); got != detector.id {
		t.Errorf("after both have ended, Said returned %q, want %q", got, detector.id)
	}
}
