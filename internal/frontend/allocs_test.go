//go:build !race

// The race detector makes sync.Pool drop values at random, which changes the number of
// allocations.

package frontend

import (
	"bytes"
	"net/http"
	"testing"

	"mcpgateway/internal/wire"
)

// callAllocs bounds the allocations of one call in the front end. Raise a number only if
// the cost is a decision.
var callAllocs = map[wire.Era]float64{wire.EraLegacy: 11, wire.EraModern: 17}

func TestCallAllocations(t *testing.T) {
	for era, most := range callAllocs {
		t.Run(era.String(), func(t *testing.T) {
			run, w := oneCall(t, era)
			if got := testing.AllocsPerRun(200, run); got > most {
				t.Errorf("a call allocates %v times, at most %v are allowed", got, most)
			}
			if w.status != http.StatusOK || !bytes.HasPrefix(w.body, []byte(`{"jsonrpc":"2.0","id":1,"result":{"content"`)) {
				t.Errorf("status %d, body %.80s", w.status, w.body)
			}
		})
	}
}
