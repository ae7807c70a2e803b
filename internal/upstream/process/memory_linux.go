package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// memoryInterval is how often memory is measured, and memoryIntervalNear how often
	// when more than half of the limit is used: a program can fill much in little time.
	memoryInterval     = 250 * time.Millisecond
	memoryIntervalNear = 50 * time.Millisecond
)

// watchMemory sends the memory that the descendants of this process use, once it is more
// than the limit. It measures instead of setting a limit of the kernel: RLIMIT_AS and
// RLIMIT_DATA count addresses, of which V8 and others reserve far more than they use, for
// each process alone; and a control group needs a part of the tree of its own, which few
// users may make.
func watchMemory(limit int64, exceeded chan<- int64) {
	for {
		used := residentMemory(os.Getpid())
		if used > limit {
			// Shared memory was counted for each process.
			if used = proportionalMemory(os.Getpid()); used > limit {
				exceeded <- used
				return
			}
		}
		interval := memoryInterval
		if used > limit/2 {
			interval = memoryIntervalNear
		}
		time.Sleep(interval)
	}
}

// residentMemory returns the sum of the resident memory of all descendants of a process.
func residentMemory(pid int) (sum int64) {
	for _, child := range descendants(pid) {
		resident, _ := statm(child)
		sum += resident
	}
	return sum
}

// proportionalMemory is residentMemory in which memory that n processes share counts 1/n
// for each. It takes longer.
func proportionalMemory(pid int) (sum int64) {
	for _, child := range descendants(pid) {
		if pss, ok := proportionalSet(child); ok {
			sum += pss
			continue
		}
		resident, shared := statm(child) // it belongs to another user
		sum += resident - shared
	}
	return sum
}

// statm returns the resident memory of a process and the part of it that may be shared.
func statm(pid int) (resident, shared int64) {
	text, err := os.ReadFile(procFile(pid, "statm"))
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 2 {
		resident, _ = strconv.ParseInt(fields[1], 10, 64)
		shared, _ = strconv.ParseInt(fields[2], 10, 64)
	}
	page := int64(os.Getpagesize())
	return resident * page, shared * page
}

// proportionalSet returns the proportional set size of a process.
func proportionalSet(pid int) (size int64, ok bool) {
	text, err := os.ReadFile(procFile(pid, "smaps_rollup"))
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		if rest, is := bytes.CutPrefix(line, []byte("Pss:")); is {
			kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// descendants returns the processes that a process has started, and those that these have.
func descendants(pid int) []int {
	all := children(pid)
	for i := 0; i < len(all); i++ {
		all = append(all, children(all[i])...)
	}
	return all
}

// children returns the children of a process.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(procFile(pid, "task/*/children"))
	if len(lists) == 0 {
		if _, err := os.Stat(procFile(os.Getpid(), "task/"+strconv.Itoa(os.Getpid())+"/children")); errors.Is(err, os.ErrNotExist) {
			return childrenByParent(pid) // the kernel has no such files
		}
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// childrenByParent returns the children of a process by looking at all processes.
func childrenByParent(pid int) (all []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	own := strconv.Itoa(pid)
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(procFile(child, "stat"))
		if err != nil {
			continue
		}
		// pid (name) state ppid …; the name may contain anything
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == own {
			all = append(all, child)
		}
	}
	return all
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }
