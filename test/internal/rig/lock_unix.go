//go:build unix

package rig

import (
	"os"
	"syscall"
)

// lockFile waits for an exclusive lock on the file.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
