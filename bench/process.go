package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	readyTimeout = 60 * time.Second
	stopTimeout  = 5 * time.Second
)

// process is a started program. Its output goes to a file, whose end explains
// failures.
type process struct {
	PID int

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	log  *os.File
}

// startProcess starts cmd with standard error, and standard output unless it is
// set, in the file log. cmd must have a context; when that ends, the process is
// told to end. The caller must call Close.
func startProcess(cmd *exec.Cmd, log string) (*process, error) {
	// The workers of nginx stay if their master is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = file
	if cmd.Stdout == nil {
		cmd.Stdout = file
	}
	if err := startWithParent(cmd); err != nil {
		file.Close()
		return nil, err
	}
	p := &process{PID: cmd.Process.Pid, cmd: cmd, done: make(chan struct{}), log: file}
	go func() {
		defer close(p.done)
		cmd.Wait() // the log says why it ended
	}()
	return p, nil
}

// explain adds the end of the process's log to an error.
func (p *process) explain(err error) error {
	const most = 4096
	info, statErr := p.log.Stat()
	if statErr != nil {
		return errors.Join(err, statErr)
	}
	tail, readErr := io.ReadAll(io.NewSectionReader(p.log, max(0, info.Size()-most), most))
	return errors.Join(fmt.Errorf("%w; the end of %s:\n%s", err, filepath.Base(p.log.Name()), tail), readErr)
}

// Close ends the process gracefully, or by force after a bounded wait, and
// returns when it has ended.
func (p *process) Close() error {
	p.cmd.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.cmd.Process.Kill()
		<-p.done
	}
	return p.log.Close()
}

// child is a process of this program in a role.
type child struct {
	*process
	URL string // of the MCP endpoint

	stdin io.Closer
}

// startRole starts this program again in a role and waits until it serves. The
// caller must call Close.
func startRole(ctx context.Context, r role, log string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	settings, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-role", string(settings))
	stdin, err := cmd.StdinPipe() // its end ends the child, also if this process is killed
	if err != nil {
		return nil, err
	}
	said, say, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd.Stdout = say
	p, err := startProcess(cmd, log)
	say.Close()
	if err != nil {
		return nil, err
	}
	c := &child{process: p, stdin: stdin}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		err := p.explain(fmt.Errorf("the %s process ended before it served", r.Kind))
		c.Close()
		return nil, err
	}
	c.URL = strings.TrimSpace(line)
	return c, nil
}

// control returns the URL at which an upstream takes orders.
func (c *child) control() string { return strings.TrimSuffix(c.URL, "mcp") + "control" }

// Close ends the process and waits for it.
func (c *child) Close() error {
	c.stdin.Close()
	return c.process.Close()
}

// stage has the programs and the running processes of one workload.
type stage struct {
	*shared
	binary string // the gateway under test
}

type shared struct {
	options
	nginx string // the binary, "" if it is left out
	certs *certificates
	dir   string // of the workload

	mu      sync.Mutex
	running []io.Closer
	roles   map[role]*child // the running ones
	files   int             // how many were named
}

// forTurn returns a stage for the processes of one turn. The caller must call
// Close.
func (s *stage) forTurn() *stage {
	return s.options.stage(s.newFile("turn"), s.nginx, s.binary, s.certs)
}

// owned makes the stage close c at its end, before everything that it owned
// earlier.
func (s *stage) owned(c io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(s.running, c)
}

// newFile returns an unused path in the stage's folder.
func (s *stage) newFile(suffix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files++
	os.MkdirAll(s.dir, 0o700) // an error shows when the file is made
	return filepath.Join(s.dir, fmt.Sprintf("%03d-%s", s.files, suffix))
}

// role returns a process in a role. Paths with equal settings share it.
func (s *stage) role(ctx context.Context, r role) (*child, error) {
	if c := s.roles[r]; c != nil {
		return c, nil
	}
	c, err := startRole(ctx, r, s.newFile(r.Kind+".log"))
	if err != nil {
		return nil, err
	}
	s.owned(c)
	s.roles[r] = c
	return c, nil
}

// Close ends all processes of the stage.
func (s *stage) Close() error {
	var errs []error
	for i := len(s.running) - 1; i >= 0; i-- {
		errs = append(errs, s.running[i].Close())
	}
	s.running = nil
	return errors.Join(errs...)
}

// closeFunc is a function that closes something.
type closeFunc func() error

func (f closeFunc) Close() error { return f() }
