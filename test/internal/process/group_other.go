//go:build !linux

package process

import (
	"os/exec"
	"syscall"
)

// ownGroup does nothing. These tests run on Linux; on other systems they only have to compile.
func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills the program without its group.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
