//go:build unix

package upstream

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// leash is the gateway's end of a pipe to the supervisor of a server: a copy of this
// program that does nothing but end the server, and all that it started, when the
// pipe is closed, which it is, too, when the gateway is gone.
type leash struct {
	pipe, report           *os.File
	theirPipe, theirReport *os.File
}

// prepare makes the pipes, which belong to p until the server has been started.
func (l *leash) prepare(p *pipes) error {
	l.theirPipe = p.to(&l.pipe)
	l.theirReport = p.from(&l.report)
	return p.err
}

// command is what starts the server under its supervisor.
func (l *leash) command(o *StdioOptions) (*exec.Cmd, error) {
	self, err := ownProgram()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{superviseArg, o.Command}, o.Args...)...)
	cmd.ExtraFiles = []*os.File{l.theirPipe, l.theirReport} // see leashFD and reportFD
	cmd.SysProcAttr = ownGroup()
	return cmd, nil
}

// started returns why the server was not started, if it was not.
func (l *leash) started(ctx context.Context, _ *os.Process) error {
	defer l.report.Close()
	return startReport(ctx, l.report)
}

// close lets go. It may be called more than once.
func (l *leash) close() {
	if l.pipe != nil {
		l.pipe.Close()
	}
}

// startReport waits for the supervisor's word: nothing when the server was
// started, else why it was not.
func startReport(ctx context.Context, r *os.File) error {
	defer context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })()
	text, err := io.ReadAll(io.LimitReader(r, maxLogged))
	switch {
	case len(text) > 0:
		return errors.New(string(text))
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return err
	}
}
