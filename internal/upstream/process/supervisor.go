//go:build unix

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// superviseArg as the first argument makes this program a supervisor.
const superviseArg = "__supervise"

// The supervisor's files beside its standard streams.
const (
	handleFD = 3 // ends when the gateway closes its end or dies
	reportFD = 4 // takes what the gateway has to know: see startProgram and watch
)

// reportStarted is the first byte of the report of a program that was started. Any other
// byte begins the reason why it was not.
const reportStarted = 0

// exitNotStarted is the exit status of a supervisor that could not start its program.
const exitNotStarted = 127

// SuperviseMain runs the supervisor of a program if the process was started as one,
// and does not return then. Every executable that calls [Start] calls it first in
// main, a test binary in TestMain.
//
// The supervisor starts the program in a process group of its own, with its own
// standard streams, and exits with the status of the program. When the gateway
// closes its end of a pipe, or is killed, the supervisor sends SIGTERM to the group,
// and after a moment kills it and all descendants. No descendant of the program
// survives the supervisor.
func SuperviseMain() {
	if len(os.Args) < 5 || os.Args[1] != superviseArg {
		return
	}
	// On Linux the program is killed when the thread that started it ends.
	runtime.LockOSThread()
	var l Limits
	l.Memory, _ = strconv.ParseInt(os.Args[2], 10, 64)
	l.Files, _ = strconv.Atoi(os.Args[3])
	os.Exit(supervise(l, os.Args[4], os.Args[4:]))
}

// superviseArgs are the arguments of a supervisor.
func superviseArgs(c Config) []string {
	return append([]string{superviseArg, strconv.FormatInt(c.Limits.Memory, 10), strconv.Itoa(c.Limits.Files), c.Command}, c.Args...)
}

func supervise(l Limits, command string, argv []string) int {
	// A signal for the supervisor ends the program too.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	syscall.CloseOnExec(handleFD)
	syscall.CloseOnExec(reportFD)
	adopt()

	report := os.NewFile(reportFD, "report")
	err := limitFiles(l.Files)
	program := 0
	if err == nil {
		program, err = startProgram(command, argv)
	}
	if err != nil {
		fmt.Fprint(report, err)
		return exitNotStarted
	}
	report.Write([]byte{reportStarted})
	redirectStreams()
	exceeded := make(chan int64, 1)
	if l.Memory > 0 {
		go watchMemory(l.Memory, exceeded)
	} else {
		report.Close()
	}

	closed := make(chan struct{})
	go func() {
		defer close(closed)
		io.Copy(io.Discard, os.NewFile(handleFD, "handle"))
	}()
	reaped := make(chan exit)
	go reap(reaped)
	return watch(program, reaped, closed, signals, exceeded, report)
}

// limitFiles bounds the open files of this process and of those that it starts.
func limitFiles(n int) error {
	if n == 0 {
		return nil
	}
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		return fmt.Errorf("limits.files: %w", err)
	}
	now.Cur = atMost(now.Max, n)
	now.Max = now.Cur // so that the program cannot raise it
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		return fmt.Errorf("limits.files: %w", err)
	}
	return nil
}

// atMost returns the smaller number. Systems differ in the type of limits.
func atMost[T int64 | uint64](most T, n int) T { return min(most, T(n)) }

// startProgram starts the command in its own process group.
func startProgram(command string, argv []string) (pid int, err error) {
	path, err := exec.LookPath(command)
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   programAttr(),
	})
}

// redirectStreams closes the supervisor's copies of standard input and output, so that
// the gateway sees when the program closes them.
func redirectStreams() {
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

// reap waits for the supervisor's children, adopted ones included, and closes the
// channel when all have ended.
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

// watch returns the status of the program when all of its processes have ended. When the
// program has ended, or the gateway closes the pipe, the remaining processes get SIGTERM
// and then SIGKILL. A program that uses too much memory is killed immediately, and the
// report gets the number of bytes.
func watch(program int, reaped <-chan exit, closed <-chan struct{}, signals <-chan os.Signal, exceeded <-chan int64, report io.Writer) int {
	code := 0
	var kill <-chan time.Time
	finish := func() {
		if kill == nil {
			syscall.Kill(-program, syscall.SIGTERM)
			kill = time.After(termGrace)
		}
	}
	for {
		select {
		case e, more := <-reaped:
			if !more {
				return code
			}
			if e.pid == program {
				code = statusOf(e.status)
				finish()
			}
		case <-closed:
			closed = nil
			finish()
		case <-signals:
			finish()
		case used := <-exceeded:
			fmt.Fprint(report, used)
			kill = time.After(0)
		case <-kill:
			// A process that left the group becomes a child of the supervisor
			// when its parent has ended, so this is repeated.
			syscall.Kill(-program, syscall.SIGKILL)
			killChildren()
			kill = time.After(killAgain)
		}
	}
}

// killAgain is the time between two rounds of killing.
const killAgain = 10 * time.Millisecond

// statusOf returns the exit status as a shell reports it.
func statusOf(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
