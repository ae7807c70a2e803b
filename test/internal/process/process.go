package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// readyWithin bounds the start of a server. Node needs a second or two on a busy machine, and a gateway waits for its servers, some of which run
	// on Node.
	readyWithin = 2 * time.Minute
	// pollEvery is the polling interval for readiness: a process offers no event for it.
	pollEvery = 20 * time.Millisecond
	// goneWithin bounds the wait for a killed process and for other processes that hold its output open.
	goneWithin = 10 * time.Second
)

// Options are the program to run and its environment.
type Options struct {
	Name string   // for messages; default: the program's name
	Args []string // the program and its arguments
	Env  []string // added to PATH, LANG, TMPDIR and HOME, which is a new folder
	Dir  string   // working directory; default: the home folder
	// Stdin and Stdout are the streams of a program that Start runs. The defaults are an empty input and the output that Output returns.
	Stdin, Stdout *os.File
}

// Process is a running program. It is killed at the end of the test that started it.
type Process struct {
	name   string
	cmd    *exec.Cmd
	output *tail
	exited chan struct{} // closed when the process has ended and err is set
	err    error
}

// Start runs a program until the test ends. It fails the test if the program cannot be started. If the test fails, Start logs the end of the
// program's output.
func Start(t testing.TB, options Options) *Process {
	t.Helper()
	p := &Process{name: options.Name, output: &tail{}, exited: make(chan struct{})}
	if p.name == "" {
		p.name = options.Args[0]
	}
	p.cmd = command(t, options)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if options.Stdin != nil {
		p.cmd.Stdin = options.Stdin
	}
	if options.Stdout != nil {
		p.cmd.Stdout = options.Stdout
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", p.name, p.Output())
		}
	})
	return p
}

// Run runs a program to its end, with input on its standard input, and returns its output. An exit status other than 0 is an error; the output is
// returned nevertheless.
func Run(ctx context.Context, t testing.TB, input string, options Options) (stdout, stderr string, err error) {
	t.Helper()
	cmd := command(t, options)
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	if err := cmd.Start(); err != nil {
		return "", "", err
	}
	stop := context.AfterFunc(ctx, func() { killGroup(cmd) })
	defer stop()
	defer killGroup(cmd) // processes that the program left running
	err = cmd.Wait()
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return out.String(), errs.String(), err
}

func command(t testing.TB, options Options) *exec.Cmd {
	home := t.TempDir()
	cmd := exec.Command(options.Args[0], options.Args[1:]...)
	cmd.Dir = options.Dir
	if cmd.Dir == "" {
		cmd.Dir = home
	}
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"LANG=C.UTF-8",
		"TMPDIR=" + os.TempDir(),
		"HOME=" + home,
	}, options.Env...)
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = goneWithin
	return cmd
}

// PID returns the id of the process, which is also the id of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Output returns the end of the process's output so far: standard output and standard error in the order of arrival.
func (p *Process) Output() string { return p.output.String() }

// Stop sends SIGTERM to the process, not to its group, and waits at most within for its end. It returns nil if the process ended with status 0.
func (p *Process) Stop(within time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
		return p.err
	case <-time.After(within):
		return fmt.Errorf("%s: still running %v after SIGTERM", p.name, within)
	}
}

// Kill ends the process and its group at once, as a crash would, and waits for the end.
func (p *Process) Kill() { p.kill() }

// WaitReady polls ready until it returns nil. It fails the test if the process ends first or takes too long.
func (p *Process) WaitReady(t testing.TB, ready func() error) {
	t.Helper()
	deadline := time.Now().Add(readyWithin)
	for {
		err := ready()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not ready after %v: %v", p.name, readyWithin, err)
		}
		select {
		case <-p.exited:
			t.Fatalf("%s: ended before it was ready: %v\n%s", p.name, p.err, p.Output())
		case <-time.After(pollEvery):
		}
	}
}

// WaitListening waits until the process accepts connections at addr.
func (p *Process) WaitListening(t testing.TB, addr string) {
	t.Helper()
	p.WaitReady(t, func() error {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func (p *Process) kill() {
	killGroup(p.cmd)
	<-p.exited // bounded by WaitDelay
}
