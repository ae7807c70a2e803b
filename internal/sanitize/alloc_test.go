//go:build !race

// The race detector allocates, too.

package sanitize

import (
	"testing"
)

func TestAllocations(t *testing.T) {
	for name, in := range bodies() {
		for _, s := range []Classes{0, ANSI} {
			if s != 0 && name == "escapes" {
				continue
			}
			if got := testing.AllocsPerRun(100, func() { s.Result(in) }); got > 0 {
				t.Errorf("%s, %d: %.0f allocations", name, s, got)
			}
		}
	}
}
