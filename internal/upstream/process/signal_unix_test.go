//go:build unix

package process

import "syscall"

// apart returns attributes that start a process in its own process group if yes is set.
func apart(yes bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: yes} }

// signalTo sends a signal to a process.
func signalTo(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }
