package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time, in user mode and in the kernel, that a
// process and its children have taken so far. It returns 0 for a process that
// does not exist.
func cpuTime(pid int) time.Duration {
	var total time.Duration
	for _, p := range append(children(pid), pid) {
		// The id of the clock of another process, as clock_getcpuclockid(3) makes it.
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^p<<3|2), &t); err == nil {
			total += time.Duration(t.Nano())
		}
	}
	return total
}

// residentBytes returns the resident memory of a process and its children.
func residentBytes(pid int) int64 {
	var total int64
	for _, p := range append(children(pid), pid) {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p))
		if fields := bytes.Fields(statm); err == nil && len(fields) > 1 {
			pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			total += pages * int64(os.Getpagesize())
		}
	}
	return total
}

// children returns the processes that the main thread of a process started, such
// as the workers of nginx.
func children(pid int) (pids []int) {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range bytes.Fields(list) {
		if p, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, p)
		}
	}
	return pids
}

// starter is the thread that starts processes. It lives as long as this process.
var starter = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go runStarter(starts)
	return starts
})

func runStarter(starts <-chan func()) {
	runtime.LockOSThread()
	for start := range starts {
		start()
	}
}

// startWithParent starts a process that is told to end when this process ends,
// however that happens. The signal follows the thread that started the process.
func startWithParent(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	return <-started
}

// raiseFileLimit allows this process, and those that it starts, n open files.
func raiseFileLimit(n uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Cur >= n {
		return nil
	}
	wanted := unix.Rlimit{Cur: n, Max: max(n, limit.Max)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &wanted); err != nil {
		return fmt.Errorf("%d open files are needed and at most %d are allowed: run as root, or raise the hard limit with \"ulimit -Hn %d\": %w",
			n, limit.Max, n, err)
	}
	return nil
}

// machine describes the processor, the memory and the kernel.
func machine() string {
	model := "an unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(info) {
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(key)) == "model name" {
			model = string(bytes.TrimSpace(value))
			break
		}
	}
	var system unix.Sysinfo_t
	var name unix.Utsname
	unix.Sysinfo(&system)
	unix.Uname(&name)
	memory := float64(system.Totalram) * float64(system.Unit) / (1 << 30)
	return fmt.Sprintf("%s, %.0f GiB of memory, Linux %s", model, memory, unix.ByteSliceToString(name.Release[:]))
}
