package protocol

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A burst is read at once, a flood at a bounded rate, whatever the number of readers.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pauses := 0
		var mu sync.Mutex
		th := NewThrottle(func(kind string, n int) {
			mu.Lock()
			defer mu.Unlock()
			if kind == ExcessPauses {
				pauses += n
			}
		})
		began := time.Now()
		for range messagesBurst {
			th.Received(false)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("a burst took %s", took)
		}
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for range 5 * messagesPerSecond {
					th.Received(false)
				}
			})
		}
		readers.Wait()
		if took := time.Since(began); took < 19*time.Second || took > 21*time.Second {
			t.Errorf("20 times the messages of a second took %s", took)
		}
		if pauses == 0 {
			t.Error("no pause is counted")
		}
	})
	var none *Throttle
	none.Received(true)
	none.LeftOut(1)
}
