//go:build unix

package process

import "syscall"

// apart says whether a process is in a group of its own.
func apart(yes bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: yes} }

// signalTo sends a signal to a process.
func signalTo(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }
