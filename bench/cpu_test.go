package main

import (
	"os"
	"testing"
)

// Works until the process has taken a tick more, so that a clock that stands
// still would hang and one that cannot be read fails at once.
func TestCPUTimeGrows(t *testing.T) {
	first := cpuTime(os.Getpid())
	for work := 0; cpuTime(os.Getpid()) == first; work++ {
		if first == 0 && work > 1<<20 {
			t.Fatal("no processor time can be read")
		}
	}
	if got := cpuTime(1 << 30); got != 0 {
		t.Errorf("a process that does not exist has taken %s", got)
	}
}
