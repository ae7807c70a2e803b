//go:build !race

// Under the race detector sync.Pool forgets at random, so that nothing can be
// said about allocations.

package frontend

import (
	"bytes"
	"net/http"
	"testing"

	"mcpgateway/internal/wire"
)

// callAllocs bounds what one call may allocate in the front end. A call that
// costs more is a decision, not an accident: then change the number.
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
