//go:build unix

package telemetry

import (
	"os"
	"syscall"
)

// deviceOf returns the number of the file system that a file is on.
func deviceOf(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev)
	}
	return 0
}
