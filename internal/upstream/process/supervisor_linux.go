package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownExecutable returns this executable, even if its file was replaced meanwhile.
func ownExecutable() (string, error) { return "/proc/self/exe", nil }

// ownGroup keeps the terminal's signals from a supervisor.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// programAttr has the kernel kill the program when the supervisor is killed.
func programAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt makes the supervisor the parent of descendants whose own parent ends.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func redirect(from, to int) { _ = unix.Dup3(from, to, 0) }

// killChildren kills every child of this process.
func killChildren() {
	for _, pid := range childrenByParent(os.Getpid()) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}
