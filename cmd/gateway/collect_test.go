package main

import (
	"runtime"
	"testing"
)

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 400, 30 << 20: 400, 64 << 20: 400, 100 << 20: 250, 160 << 20: 160, 256 << 20: 100, 4 << 30: 100,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MiB: got %d, want %d", live>>20, got, want)
		}
	}
}

// The heap grows less while much memory is live, and as before afterwards.
func TestPaceCollections(t *testing.T) {
	set := make(chan int, 100)
	paceCollections(func(percent int) {
		select {
		case set <- percent:
		default: // the test has ended
		}
	})
	if got := <-set; got != gcPercent {
		t.Errorf("at first %d percent", got)
	}
	held := make([]byte, 1<<30) // untouched: it takes no memory of the machine
	runtime.GC()
	for got := <-set; got > leastPercent; got = <-set {
	}
	runtime.KeepAlive(held)
	for got := 0; got != gcPercent; {
		runtime.GC()
		select {
		case got = <-set:
		default:
			runtime.Gosched()
		}
	}
}
