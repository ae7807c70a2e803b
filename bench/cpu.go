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

// cpuTime returns the processor time that a process has taken so far, in user
// mode and in the kernel; 0 where the system does not tell (anything but Linux).
func cpuTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name of the program, in parentheses, may hold anything; after it come
	// the fields from the third on, of which utime and stime are 14 and 15
	// (proc(5)).
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
