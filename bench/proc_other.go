//go:build !linux

package main

import (
	"runtime"
	"time"
)

// Processor time and memory of other processes are measured on Linux only; the
// figures are 0 elsewhere.

func cpuTime(int) time.Duration   { return 0 }
func residentBytes(int) int64     { return 0 }
func raiseFileLimit(uint64) error { return nil }
func machine() string             { return runtime.GOOS + "/" + runtime.GOARCH }
