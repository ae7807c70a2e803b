package webui

import (
	"testing"
	"time"
)

// A page that takes long to render is rendered less often, so that open pages cost calls next to
// nothing; a person never looks at an old one for long.
func TestPauses(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, time.Millisecond: 2 * time.Second, 2 * time.Millisecond: 4 * time.Second, time.Second: 10 * time.Second,
	} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after %s: %s, want %s", took, got, want)
		}
	}
}
