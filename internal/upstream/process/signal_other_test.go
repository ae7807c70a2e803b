//go:build !unix

package process

import "syscall"

// apart starts a process as any other.
func apart(bool) *syscall.SysProcAttr { return nil }

// signalTo is not to be had here.
func signalTo(int, syscall.Signal) error { return syscall.EWINDOWS }
