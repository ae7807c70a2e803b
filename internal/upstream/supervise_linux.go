package upstream

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownProgram is this program, also when its file was replaced meanwhile.
func ownProgram() (string, error) { return "/proc/self/exe", nil }

// ownGroup keeps the terminal's signals from a supervisor.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// serverAttr has the kernel kill the server when the supervisor is killed.
func serverAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt makes the supervisor the parent of descendants whose own parent dies.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func redirect(from, to int) { _ = unix.Dup3(from, to, 0) }

// killStrays kills every child of this process.
func killStrays() {
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
		// pid (name) state ppid …, and the name may hold anything
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == own {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
