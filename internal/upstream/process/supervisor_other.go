//go:build unix && !linux

package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownExecutable returns this executable.
func ownExecutable() (string, error) { return os.Executable() }

// ownGroup keeps the terminal's signals from a supervisor.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func programAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adopt does nothing: only Linux can make an ancestor adopt orphans. Orphans in the
// program's process group are killed nevertheless.
func adopt() {}

func redirect(from, to int) { _ = unix.Dup2(from, to) }

// watchMemory does nothing: only Linux shows what other processes use.
func watchMemory(int64, chan<- int64) {}

// killChildren does nothing: the supervisor adopts no orphans here.
func killChildren() {}
