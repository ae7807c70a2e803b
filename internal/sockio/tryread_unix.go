//go:build unix && (!linux || race)

package sockio

import "syscall"

// TryRead is as on Linux, and tells the scheduler.
func TryRead(fd uintptr, b []byte) (int, error) { return syscall.Read(int(fd), b) }
