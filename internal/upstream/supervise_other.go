//go:build unix && !linux

package upstream

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownProgram is this program's file.
func ownProgram() (string, error) { return os.Executable() }

// ownGroup keeps the terminal's signals from a supervisor.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func serverAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adopt does nothing: only Linux gives orphans to an ancestor of theirs. Those
// that stay in the server's group are found all the same.
func adopt() {}

func redirect(from, to int) { _ = unix.Dup2(from, to) }

// killStrays does nothing: without adoption nobody can be told to be one.
func killStrays() {}
