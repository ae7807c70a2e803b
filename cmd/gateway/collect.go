package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent lets the heap grow to five times the live memory before a collection. A gateway
	// holds little memory and allocates much for a short time: with the default, collections take a
	// tenth of the processor to save a few megabytes.
	gcPercent = 400
	// leastPercent is the default of Go.
	leastPercent = 100
	// maxGarbage is how far the heap grows beyond the live memory, unless the latter is more.
	// Results of many megabytes would leave a gigabyte of garbage with gcPercent alone.
	maxGarbage = 256 << 20
)

// percentFor returns the percentage by which the heap may grow until the next collection.
func percentFor(live uint64) int {
	percent := maxGarbage * 100 / max(live, 1)
	return int(min(max(percent/10*10, leastPercent), gcPercent))
}

// paceCollections sets the percentage now, and after each collection if it has changed.
func paceCollections(set func(percent int)) {
	set(gcPercent)
	now := gcPercent
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var arm func()
	collected := func(struct{}) {
		metrics.Read(sample)
		if next := percentFor(sample[0].Value.Uint64()); next != now {
			now = next
			set(next)
		}
		arm()
	}
	// Each collection frees the sentinel, and its cleanup makes another one.
	arm = func() { runtime.AddCleanup(new(sentinel), collected, struct{}{}) }
	arm()
}

// sentinel is too large to share its memory with another value.
type sentinel [64]byte

func setPercent(percent int) { debug.SetGCPercent(percent) }
