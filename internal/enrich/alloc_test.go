//go:build !race

// The race detector allocates, too.

package enrich

import (
	"testing"

	"mcpgateway/internal/wire"
)

func TestAllocations(t *testing.T) {
	in := wire.Raw(`{"content":[{"type":"text","text":"no resource is embedded"}],"structuredContent":{"text":"\u00ed"}}`)
	for _, method := range []string{wire.MethodToolsCall, wire.MethodTasksResult} {
		if got := testing.AllocsPerRun(100, func() { Annotations(method, wire.ValueOf(in)) }); got > 0 {
			t.Errorf("%s: %.0f allocations", method, got)
		}
	}
}
