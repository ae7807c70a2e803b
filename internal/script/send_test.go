package script

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/wire"
)

// large is a result of 1 MiB.
var large = wire.Raw(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`)

// sendLarge sends n calls with large results, and returns how many began, and the error.
func sendLarge(t *testing.T, memory int64, parallel, n int, reserve func(int64) error) (made int, err error) {
	t.Helper()
	var count atomic.Int64
	host := &fakeHost{answer: func(context.Context, string, wire.Raw) (wire.Raw, error) {
		time.Sleep(time.Duration(count.Add(1)) * time.Second) // of the clock of synctest
		return large, nil
	}}
	limits := testLimits
	limits.Parallel = parallel
	r := NewRun(Options{Host: host, Limits: limits, Clock: realClock{}, Reserve: reserve})
	r.ctx, r.end = context.WithCancelCause(t.Context())
	defer r.end(nil)
	r.memory = memory
	r.compute()
	defer r.wait()
	_, err = r.send(make([]request, n))
	return int(count.Load()), err
}

// No call begins after a result for which no memory is left, neither of the run nor of all runs.
func TestResultsAreChargedAsTheyArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, err := sendLarge(t, 5<<20/2, 1, 8, nil)
		if made != 3 || !errors.Is(err, errMemory) || !strings.Contains(err.Error(), "the result of ") {
			t.Errorf("%d calls, %v", made, err)
		}
		full := errors.New("others use it")
		var reserved int64
		made, err = sendLarge(t, MaxMemory, 1, 8, func(n int64) error {
			if reserved += n; reserved > 4<<20 {
				return full
			}
			return nil
		})
		if made != 4 || !errors.Is(err, full) {
			t.Errorf("%d calls, %v", made, err)
		}
	})
}

// Calls wait while the results of those that are pending may take all memory that is left.
func TestCallsWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if made, err := sendLarge(t, 10<<20, 8, 20, nil); made != 10 || !errors.Is(err, errMemory) {
			t.Errorf("%d calls with room for the results of 9; %v", made, err)
		}
		if made, err := sendLarge(t, 21<<20, 8, 20, nil); made != 20 || err != nil {
			t.Errorf("%d calls with room for all; %v", made, err)
		}
	})
}
