//go:build !linux

package process

import (
	"os/exec"
	"syscall"
)

// ownGroup does nothing: these tests run on Linux; elsewhere they only have to compile.
func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills the program alone.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
