//go:build unix

package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// handle is the gateway's end of a pipe to the supervisor of a program. The
// supervisor ends the program and its descendants when the pipe is closed, which
// also happens when the gateway dies.
type handle struct {
	pipe, report           *os.File
	theirPipe, theirReport *os.File

	limit    int64         // of memory
	used     int64         // of memory if that was more than the limit; set before reported is closed
	reported chan struct{} // closed when used is known; nil before the start
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
	h.limit = c.Limits.Memory
	cmd := exec.Command(self, superviseArgs(c)...)
	cmd.ExtraFiles = []*os.File{h.theirPipe, h.theirReport} // handleFD and reportFD
	cmd.SysProcAttr = ownGroup()
	return cmd, nil
}

// started returns the reason if the program was not started.
func (h *handle) started(ctx context.Context, _ *os.Process) error {
	if err := startReport(ctx, h.report); err != nil {
		h.report.Close()
		return err
	}
	h.reported = make(chan struct{})
	go func() {
		defer close(h.reported)
		defer h.report.Close()
		text := make([]byte, maxLine)
		n, _ := h.report.Read(text) // one write, before the program is ended; nothing if the supervisor ends
		h.used, _ = strconv.ParseInt(string(text[:n]), 10, 64)
	}()
	return nil
}

// memoryError returns why the program was ended if it used too much memory, else nil. The
// supervisor has ended.
func (h *handle) memoryError() *MemoryError {
	if h.reported == nil {
		return nil
	}
	if <-h.reported; h.used == 0 {
		return nil
	}
	return &MemoryError{Used: h.used, Limit: h.limit}
}

// close has the supervisor end the program. It may be called more than once.
func (h *handle) close() {
	if h.pipe != nil {
		h.pipe.Close()
	}
}

// startReport reads from the supervisor's report whether the program was started, and the
// reason if it was not.
func startReport(ctx context.Context, r *os.File) error {
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })
	defer stop()
	text := make([]byte, 1, maxLine)
	n, err := r.Read(text)
	switch {
	case n == 1 && text[0] == reportStarted:
		return nil
	case n == 1:
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(r, maxLine))
		text = append(text, rest...)
	case err == io.EOF: // the supervisor has ended
		return nil
	default:
		text = nil
	}
	switch {
	case len(text) > 0:
		return errors.New(string(text))
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return err
	}
}
