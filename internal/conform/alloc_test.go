//go:build !race

// The race detector's own allocations would count here.

package conform

import (
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Who needs nothing replaced pays nothing.
func TestAllocations(t *testing.T) {
	for name, in := range bodies() {
		for _, rev := range revisions {
			for _, method := range []string{wire.MethodToolsCall, wire.MethodPromptsGet, wire.MethodResourcesRead} {
				if got := testing.AllocsPerRun(100, func() { DownTo(rev, method, in) }); got > 0 {
					t.Errorf("%s, %s, %s: %.0f allocations", name, rev, method, got)
				}
			}
			for _, mode := range []Mode{Off, Warn, Repair, Strict} {
				s := Subject{Mode: mode, Method: wire.MethodToolsCall, Revision: rev}
				if got := testing.AllocsPerRun(100, func() { s.Check(in) }); got > 0 {
					t.Errorf("%s, %s, mode %d: %.0f allocations for a result without faults", name, rev, mode, got)
				}
			}
			for _, method := range []string{wire.MethodToolsCall, wire.MethodTasksResult} {
				if got := testing.AllocsPerRun(100, func() { Embedded(method, in) }); got > 0 {
					t.Errorf("%s, %s: %.0f allocations where no resource is embedded", name, method, got)
				}
			}
			if got := testing.AllocsPerRun(100, func() { Sanitize(0).Result(in) }); got > 0 {
				t.Errorf("%s: %.0f allocations to sanitize nothing", name, got)
			}
			if got := testing.AllocsPerRun(100, func() { ItemDownTo(ItemClassOf(rev), call.Tool, in) }); got > 0 {
				t.Errorf("%s, %s, an item: %.0f allocations", name, rev, got)
			}
		}
	}
}
