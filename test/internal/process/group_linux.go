package process

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a program in a process group of its own, which ends with the test binary. The signal of a dead parent follows the thread that
// started the child; the Go runtime ends no thread that no goroutine is locked to.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills what is left of the program's process group. A group that is gone already is no error.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
