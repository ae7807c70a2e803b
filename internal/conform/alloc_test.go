//go:build !race

// The race detector allocates, too.

package conform

import (
	"testing"

	"mcpgateway/internal/wire"
)

func TestAllocations(t *testing.T) {
	for name, in := range bodies() {
		for _, rev := range append(append(wire.LegacyRevisions(), wire.ModernRevisions()...), "2027-01-01") {
			for _, mode := range []Mode{Off, Warn, Repair, Strict} {
				s := ResultChecker{Mode: mode, Method: wire.MethodToolsCall, Revision: rev}
				if got := testing.AllocsPerRun(100, func() { s.Check(in) }); got > 0 {
					t.Errorf("%s, %s, mode %d: %.0f allocations for a result without violations", name, rev, mode, got)
				}
			}
		}
	}
}
