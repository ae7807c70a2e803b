//go:build !race

// The race detector allocates, too.

package downlevel

import (
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestAllocations(t *testing.T) {
	for name, in := range bodies() {
		for _, rev := range revisions {
			for _, method := range []string{wire.MethodToolsCall, wire.MethodPromptsGet, wire.MethodResourcesRead} {
				if got := testing.AllocsPerRun(100, func() { Result(rev, method, wire.ValueOf(in)) }); got > 0 {
					t.Errorf("%s, %s, %s: %.0f allocations", name, rev, method, got)
				}
			}
			if got := testing.AllocsPerRun(100, func() { Item(ItemClassOf(rev), call.Tool, in) }); got > 0 {
				t.Errorf("%s, %s, an item: %.0f allocations", name, rev, got)
			}
		}
	}
}
