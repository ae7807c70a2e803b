//go:build !linux

package main

import (
	"os/exec"
	"runtime"
	"time"
)

// Processor time and memory of other processes are measured on Linux only; the
// figures are 0 elsewhere.

func cpuTime(int) time.Duration   { return 0 }
func residentBytes(int) int64     { return 0 }
func raiseFileLimit(uint64) error { return nil }

// startWithParent starts a process. On Linux it ends with this one.
func startWithParent(cmd *exec.Cmd) error { return cmd.Start() }

func machine() string { return runtime.GOOS + "/" + runtime.GOARCH }
