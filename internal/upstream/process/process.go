package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"go.uber.org/zap"
)

const (
	// StopGrace is how long a program may take to end after its standard input was
	// closed. Together with termGrace it is less than the second within which the
	// gateway ends.
	StopGrace = 400 * time.Millisecond
	// termGrace is how long a program may take to end after SIGTERM.
	termGrace = 400 * time.Millisecond
	// killGrace is how long the supervisor may take to kill the rest. Then the
	// supervisor is killed, and its child with it.
	killGrace = 2 * time.Second
	// drainGrace is how long it may take to read the output of a program that ended.
	drainGrace = time.Second
	// endGrace is how long a program may take to end after its output. The calls that it had wait for that, so it is
	// short: a program may have closed its output and run on.
	endGrace = 250 * time.Millisecond
	// reportGrace is endGrace for a program with a limit of memory, as clients read that it has exceeded the limit.
	reportGrace = time.Second
)

// Config describes a program.
type Config struct {
	Command string
	Args    []string
	Env     []string // the whole environment, see [Environ]
	Dir     string   // working directory; "": that of the gateway
	Limits  Limits
}

// Log says how the standard error of a program is logged.
type Log struct {
	To *zap.Logger
	// Mask removes secrets from a line.
	Mask func(line string) string
	// Wrote is called when one of the first lines changes the most informative text of the
	// program's standard error. It must not block. It may be nil.
	Wrote func(Words)
	// First has the first lines of the previous start of the program. Lines that occur
	// again are logged on level debug, all other lines on level info. Nil: all have info.
	First *FirstLines
	// LeftOut is called with the number of lines that were left out. It may be nil.
	LeftOut func(lines int)
}

// Process is a running program.
type Process struct {
	Stdin  *os.File // the writing end
	Stdout *os.File // the reading end

	cmd     *exec.Cmd
	stderr  *os.File
	handle  handle
	limited bool // Limits.Memory is set
	log     Log
	errors  *stderrReader // of stderr; it may be read when logged is closed
	logged  chan struct{} // closed when stderr was read to its end
	ended   chan struct{} // closed when the process that was started has ended
	err     error         // of the process, set before ended is closed
}

// StartError says why a program could not be started.
type StartError struct{ Err error }

func (e *StartError) Error() string { return e.Err.Error() }

func (e *StartError) Unwrap() error { return e.Err }

// ExitError says how a program ended. The text does not contain Words, as clients
// see it.
type ExitError struct {
	Err    error        // of the process; nil for status 0
	Memory *MemoryError // nil unless the gateway ended it for that
	Words  Words        // of its standard error
	// OutOfFiles says that its standard error ended with an error about too many open
	// files.
	OutOfFiles bool
}

func (e *ExitError) Error() string { return "the server ended: " + e.Status() }

// Status returns the exit status as text, or that it used too much memory.
func (e *ExitError) Status() string {
	if e.Memory != nil {
		return e.Memory.Error()
	}
	if e.Err == nil {
		return "exit status 0"
	}
	return e.Err.Error()
}

// Start starts a program. The program and its descendants end when [Process.Stop] is
// called or when the gateway ends, even if it is killed. ctx bounds the start only.
// The error is a *StartError, or that of ctx.
func Start(ctx context.Context, c Config, log Log) (*Process, error) {
	p, err := start(ctx, c, log)
	switch {
	case err == nil:
		return p, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, &StartError{err}
	}
}

func start(ctx context.Context, c Config, log Log) (*Process, error) {
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("there is no directory %q to start it in", c.Dir)
		}
	}
	p := &Process{limited: c.Limits.Memory > 0, log: log, errors: newStderrReader(log), logged: make(chan struct{}), ended: make(chan struct{})}
	var pipes pipes
	defer pipes.closeTheirs()
	stdin := pipes.to(&p.Stdin)
	stdout := pipes.from(&p.Stdout)
	stderr := pipes.from(&p.stderr)
	err := p.handle.prepare(&pipes)
	if err == nil {
		p.cmd, err = p.handle.command(c)
	}
	if err == nil {
		p.cmd.Env = append([]string{}, c.Env...) // not nil, which would mean the gateway's own
		p.cmd.Dir = c.Dir
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, stderr
		err = p.cmd.Start()
	}
	if err != nil {
		pipes.closeOurs()
		p.handle.close()
		return nil, err
	}
	pipes.closeTheirs()
	go func() {
		defer close(p.logged)
		p.errors.read(p.stderr)
	}()
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	if err := p.handle.started(ctx, p.cmd.Process); err != nil {
		p.Stop()
		p.Stdout.Close()
		return nil, err
	}
	return p, nil
}

// Stop ends the program: it closes Stdin, then asks the program to end if the system
// can, then kills it. It returns when all of its processes have ended, with an
// *ExitError. The caller reads Stdout to its end meanwhile, and closes it.
func (p *Process) Stop() error {
	p.Stdin.Close()
	if !p.endsWithin(StopGrace) {
		p.handle.close()
		if !p.endsWithin(termGrace + killGrace) {
			p.cmd.Process.Kill()
		}
	}
	<-p.ended
	p.handle.close()
	// Both streams have ended with the processes, unless a hostile program has passed
	// one to a process that is not its descendant.
	for _, stream := range []*os.File{p.Stdout, p.stderr} {
		stream.SetReadDeadline(time.Now().Add(drainGrace))
	}
	<-p.logged
	p.stderr.Close()
	end := p.exitError()
	if m, log := end.Memory, p.log.To; m != nil {
		log.Warn("the server was ended: it used more memory than limits.memory allows",
			zap.String("used", mebibytes(m.Used)), zap.String("limit", mebibytes(m.Limit)))
	}
	return end
}

// exitError says how the program ended. All of its processes have ended, and logged is closed.
func (p *Process) exitError() *ExitError {
	return &ExitError{p.err, p.handle.memoryError(), p.errors.last.words(), p.errors.outOfFiles()}
}

// Ended returns how the program ended, an *ExitError, or nil if it runs on. Call it when Stdout has ended or nothing reads
// Stdin: it waits a moment for the end. It may be called while [Process.Stop] runs.
func (p *Process) Ended() error {
	grace := endGrace
	if p.limited {
		grace = reportGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for _, end := range []chan struct{}{p.ended, p.logged} {
		select {
		case <-end:
		case <-timer.C:
			return nil
		}
	}
	return p.exitError()
}

func (p *Process) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// pipes collects the ends of several pipes and the errors of making them.
type pipes struct {
	ours, theirs []*os.File
	err          error
}

// to makes a pipe whose writing end is ours, and returns the other.
func (p *pipes) to(ours **os.File) *os.File {
	r, w, err := os.Pipe()
	*ours = w
	return p.add(w, r, err)
}

// from makes a pipe whose reading end is ours, and returns the other.
func (p *pipes) from(ours **os.File) *os.File {
	r, w, err := os.Pipe()
	*ours = r
	return p.add(r, w, err)
}

func (p *pipes) add(ours, theirs *os.File, err error) *os.File {
	if err != nil {
		p.err = errors.Join(p.err, err)
		return nil
	}
	p.ours = append(p.ours, ours)
	p.theirs = append(p.theirs, theirs)
	return theirs
}

func (p *pipes) closeOurs() { closeAll(p.ours) }

// closeTheirs may be called twice.
func (p *pipes) closeTheirs() {
	closeAll(p.theirs)
	p.theirs = nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
