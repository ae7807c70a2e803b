//go:build !unix

package process

import "syscall"

// apart returns nil: this system has no process groups.
func apart(bool) *syscall.SysProcAttr { return nil }

// signalTo is not supported on this system.
func signalTo(int, syscall.Signal) error { return syscall.EWINDOWS }
