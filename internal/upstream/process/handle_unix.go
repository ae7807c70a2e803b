//go:build unix

package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// handle is the gateway's end of a pipe to the supervisor of a program. The
// supervisor ends the program and its descendants when the pipe is closed, which
// also happens when the gateway dies.
type handle struct {
	pipe, report           *os.File
	theirPipe, theirReport *os.File
}

// prepare makes the pipes. They belong to p until the program was started.
func (h *handle) prepare(p *pipes) error {
	h.theirPipe = p.to(&h.pipe)
	h.theirReport = p.from(&h.report)
	return p.err
}

// command returns the command that starts the program under its supervisor.
func (h *handle) command(c Config) (*exec.Cmd, error) {
	self, err := ownExecutable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{superviseArg, c.Command}, c.Args...)...)
	cmd.ExtraFiles = []*os.File{h.theirPipe, h.theirReport} // handleFD and reportFD
	cmd.SysProcAttr = ownGroup()
	return cmd, nil
}

// started returns the reason if the program was not started.
func (h *handle) started(ctx context.Context, _ *os.Process) error {
	defer h.report.Close()
	return startReport(ctx, h.report)
}

// close has the supervisor end the program. It may be called more than once.
func (h *handle) close() {
	if h.pipe != nil {
		h.pipe.Close()
	}
}

// startReport reads the supervisor's report, which is empty if the program was
// started and holds the reason if not.
func startReport(ctx context.Context, r *os.File) error {
	defer context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })()
	text, err := io.ReadAll(io.LimitReader(r, maxLine))
	switch {
	case len(text) > 0:
		return errors.New(string(text))
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return err
	}
}
