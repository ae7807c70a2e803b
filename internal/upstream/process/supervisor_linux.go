package process

import (
	"os"
	"strconv"
	"strings"
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
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	own := strconv.Itoa(os.Getpid())
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state ppid …; the name may contain anything
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == own {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
