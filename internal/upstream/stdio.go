package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

const (
	// inputGrace is how long a server may take to end after its input was
	// closed, termGrace how long after it was told to. Both together are less
	// than the second in which the gateway promises to be gone.
	inputGrace = 400 * time.Millisecond
	termGrace  = 400 * time.Millisecond
	// killGrace is how long the supervisor may take to kill what is left. Then
	// it is killed itself, and its child with it.
	killGrace = 2 * time.Second
)

// child is a server's process, and what ends all that it started: on Unix a
// supervisor, see [SuperviseMain], on Windows a job.
type child struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	leash  leash         // what all of it hangs on
	said   string        // the last line of stderr, set before logged is closed
	logged chan struct{} // closed when stderr is read to its end
	ended  chan struct{} // closed when the process that was started has ended
	err    error         // how, set before ended is closed
}

// stdioOpener opens links to a server that is started as a child process.
func stdioOpener(o *Options) opener {
	return func(ctx context.Context) (*link, error) {
		c, err := startChild(ctx, o)
		if err != nil {
			return nil, &fault{reason: "cannot start the server's program", cause: &notStarted{err}}
		}
		return &link{in: c.stdin, out: c.stdout, stop: c.stop}, nil
	}
}

// notStarted is why a program could not be started.
type notStarted struct{ why error }

func (n *notStarted) Error() string { return n.why.Error() }

// ended is how a program ended. What it said last is not part of the text, which
// clients see.
type ended struct {
	err  error  // of the process; nil: with status 0
	said string // the last line of its standard error
}

func (e *ended) Error() string { return "the server ended: " + e.status() }

func (e *ended) status() string {
	if e.err == nil {
		return "exit status 0"
	}
	return e.err.Error()
}

// startChild starts a server on a leash: it and all that it started end when the gateway
// lets go or is gone, however it went. The server has the pipes'
// ends as its standard streams; nothing is copied on the way.
func startChild(ctx context.Context, all *Options) (*child, error) {
	o := all.Stdio
	if o.Dir != "" {
		if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("there is no directory %q to start it in", o.Dir)
		}
	}
	c := &child{logged: make(chan struct{}), ended: make(chan struct{})}
	var pipes pipes
	defer pipes.closeTheirs()
	stdin := pipes.to(&c.stdin)
	stdout := pipes.from(&c.stdout)
	stderr := pipes.from(&c.stderr)
	err := c.leash.prepare(&pipes)
	if err == nil {
		c.cmd, err = c.leash.command(o)
	}
	if err == nil {
		c.cmd.Env = append([]string{}, o.Env...) // not nil, which would mean the gateway's own
		c.cmd.Dir = o.Dir
		c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, stderr
		err = c.cmd.Start()
	}
	if err != nil {
		pipes.closeOurs()
		c.leash.close()
		return nil, err
	}
	pipes.closeTheirs()
	go func() {
		defer close(c.logged)
		c.said = logLines(c.stderr, all.Logger, all.Mask)
	}()
	go func() {
		defer close(c.ended)
		c.err = c.cmd.Wait()
	}()
	if err := c.leash.started(ctx, c.cmd.Process); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// stop ends the server: it closes its input, then has the supervisor tell it to
// end, where the system can, then has it killed. It returns when every process is gone, with an *ended.
func (c *child) stop() error {
	c.stdin.Close()
	if !c.endsWithin(inputGrace) {
		c.leash.close()
		if !c.endsWithin(termGrace + killGrace) {
			c.cmd.Process.Kill()
		}
	}
	<-c.ended
	c.leash.close()
	// With all processes gone both streams have ended; closing them now is for
	// a stream that somebody else was given by a server of ill will.
	for _, stream := range []*os.File{c.stdout, c.stderr} {
		stream.SetReadDeadline(time.Now().Add(drainGrace))
	}
	<-c.logged
	c.stderr.Close()
	return &ended{c.err, c.said}
}

// drainGrace is how long what a dead server wrote may take to be read.
const drainGrace = time.Second

func (c *child) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.ended:
		return true
	case <-timer.C:
		return false
	}
}

// pipes collects the ends of several pipes and the first error among them.
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
