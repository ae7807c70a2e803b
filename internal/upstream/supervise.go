//go:build unix

package upstream

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// superviseArg as the first argument makes this program a supervisor.
const superviseArg = "__supervise"

// The supervisor's files beside its standard streams.
const (
	leashFD  = 3 // gives no more when the gateway lets go or is gone
	reportFD = 4 // takes why the server could not be started
)

// exitNotStarted is the supervisor's status when it could not start the server.
const exitNotStarted = 127

// SuperviseMain makes the process the supervisor of a child if that is what it
// was started for, and then does not return. A program that uses connectors
// with StdioOptions calls it first in main, a test binary in TestMain.
//
// The supervisor starts the server in a process group of its own, with its own
// standard streams, and ends with the server's status. When the gateway lets go
// of its end of a pipe, also by being killed, the supervisor tells the group to
// end and, a moment later, kills it and all that descends from it. Nothing that
// the server started survives the supervisor.
func SuperviseMain() {
	if len(os.Args) < 3 || os.Args[1] != superviseArg {
		return
	}
	// The server shall die with the supervisor; where that is to be had it
	// hangs on the thread that started it.
	runtime.LockOSThread()
	os.Exit(supervise(os.Args[2], os.Args[2:]))
}

func supervise(command string, argv []string) int {
	// Signals for the gateway's whole group are not for the server, and those
	// for the supervisor end both.
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	syscall.CloseOnExec(leashFD)
	syscall.CloseOnExec(reportFD)
	adopt()

	report := os.NewFile(reportFD, "report")
	server, err := startServer(command, argv)
	if err != nil {
		fmt.Fprint(report, err)
		return exitNotStarted
	}
	report.Close()
	letGo()

	loose := make(chan struct{})
	go func() {
		defer close(loose)
		io.Copy(io.Discard, os.NewFile(leashFD, "leash"))
	}()
	reaped := make(chan exit)
	go reap(reaped)
	return watch(server, reaped, loose, told)
}

// startServer starts the command in its own process group.
func startServer(command string, argv []string) (pid int, err error) {
	path, err := exec.LookPath(command)
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   serverAttr(),
	})
}

// letGo leaves the streams to the server alone, so that their other ends see
// when it closes them.
func letGo() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		syscall.Close(0)
		syscall.Close(1)
		return
	}
	for fd := range 2 {
		redirect(int(null.Fd()), fd)
	}
	null.Close()
}

// exit is the end of one process.
type exit struct {
	pid    int
	status syscall.WaitStatus
}

// reap waits for the supervisor's children, adopted ones too, and closes the
// channel when there are none.
func reap(reaped chan<- exit) {
	defer close(reaped)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return
		default:
			reaped <- exit{pid, status}
		}
	}
}

// watch returns the server's status when no process of it is left. What is left
// when the server has ended, or when the gateway wants the end, is told to end
// and then killed.
func watch(server int, reaped <-chan exit, loose <-chan struct{}, told <-chan os.Signal) int {
	code := 0
	var kill <-chan time.Time
	finish := func() {
		if kill == nil {
			syscall.Kill(-server, syscall.SIGTERM)
			kill = time.After(termGrace)
		}
	}
	for {
		select {
		case e, more := <-reaped:
			if !more {
				return code
			}
			if e.pid == server {
				code = statusOf(e.status)
				finish()
			}
		case <-loose:
			loose = nil
			finish()
		case <-told:
			finish()
		case <-kill:
			// Whoever left the group is found as the supervisor's own child,
			// once its parent is dead; hence again and again.
			syscall.Kill(-server, syscall.SIGKILL)
			killStrays()
			kill = time.After(killAgain)
		}
	}
}

// killAgain is the time between two rounds of killing.
const killAgain = 10 * time.Millisecond

// statusOf is a process's end as a shell reports it.
func statusOf(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
