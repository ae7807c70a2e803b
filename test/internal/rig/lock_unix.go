//go:build unix

package rig

import (
	"os"
	"syscall"
)

// lockFile waits until this process alone holds the file.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
