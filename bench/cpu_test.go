package main

import (
	"os"
	"testing"
)

// The test works until the process has taken one more tick. It hangs if the
// clock stands still and fails at once if the clock cannot be read.
func TestCPUTimeGrows(t *testing.T) {
	first := cpuTime(os.Getpid())
	for work := 0; cpuTime(os.Getpid()) == first; work++ {
		if first == 0 && work > 1<<20 {
			t.Fatal("cannot read the processor time")
		}
	}
	if got := cpuTime(1 << 30); got != 0 {
		t.Errorf("a process that does not exist has taken %s", got)
	}
}
