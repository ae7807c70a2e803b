package httpconn

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Cursor is a place in an event stream at which it can be taken up again
// (2025-11-25, basic/transports, "Resumability and Redelivery").
type Cursor struct {
	Event string        // the id of the last event, "" when there was none
	retry time.Duration // how long the server wants its client to wait, 0 when it did not say
}

// errCutOff means that a stream ended before its reader was done with it.
var ErrStreamEnded = errors.New("the stream ended early")

// Events reads the messages of a stream until each is done with it, moves the
// cursor along, and closes the body. The error is that of each, a *CallError when
// an event is too large, errCutOff, or that of ctx.
func (e *Endpoint) Events(ctx context.Context, body io.ReadCloser, at *Cursor, each func(data []byte) (done bool, err error)) error {
	defer body.Close()
	r := wire.NewSSEReader(body, e.Max)
	for {
		ev, err := r.Next()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, wire.ErrTooLarge):
			return e.TooLarge()
		default:
			return ErrStreamEnded
		}
		if ev.HasID {
			at.Event = resumable(ev.ID)
		}
		if ev.Retry > 0 {
			at.retry = ev.Retry
		}
		if !ev.IsMessage() {
			continue
		}
		done, err := each(ev.Data)
		if err != nil {
			return err
		}
		if done {
			drain(body)
			return nil
		}
	}
}

// maxEventID bounds the id of an event that a stream is taken up again at: it is kept,
// and goes into a header.
const maxEventID = 4 << 10

// resumable returns the id of an event, or "" where no header can hold it: then the
// stream cannot be taken up there.
func resumable(id string) string {
	if len(id) > maxEventID || strings.ContainsFunc(id, isControl) {
		return ""
	}
	return id
}

// isControl reports whether a header must not contain r (RFC 9110, section 5.5).
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// leastRetry is the least wait before a stream is resumed, whatever the server says.
const leastRetry = 20 * time.Millisecond

// Pause waits as long as the server wants before a stream is taken up again,
// else as wait says.
func (at *Cursor) Pause(ctx context.Context, wait *protocol.Backoff) error {
	d := wait.Next(time.Now())
	if at.retry > 0 {
		d = max(at.retry, leastRetry)
	}
	return protocol.Sleep(ctx, d)
}
