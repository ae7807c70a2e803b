package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick is the unit of the times in /proc on Linux: 1/USER_HZ, which is 100 on
// every architecture that Go runs on.
const tick = 10 * time.Millisecond

// cpuTime returns the processor time, in user mode and in the kernel, that a
// process has taken so far. It returns 0 on systems other than Linux.
func cpuTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field is the program's name in parentheses and may contain
	// anything. The fields after it begin with the third; utime and stime are the
	// fields 14 and 15 (proc(5)).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * tick
}
