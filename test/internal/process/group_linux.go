package process

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a program in its own process group, which ends with the test binary. The kernel sends the death signal when the thread that
// started the child ends; the Go runtime only ends threads that are locked to a goroutine.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills the remaining processes of the program's group. A missing group is not an error.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
