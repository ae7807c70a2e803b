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

// Cursor is a position in an event stream from which the stream can be resumed
// (2025-11-25, basic/transports, "Resumability and Redelivery").
type Cursor struct {
	Event string        // the id of the last event, "" if there was none
	retry time.Duration // how long the server wants clients to wait, 0 if unknown
}

// ErrStreamEnded means that a stream ended before its reader had what it waits for.
var ErrStreamEnded = errors.New("the stream ended early")

// Events reads the messages of a stream until each returns true, and closes the body. It
// moves the cursor. The error is that of each, a *protocol.CallError if an event is too
// large or the stream cannot be decompressed, ErrStreamEnded, or that of ctx.
func (e *Endpoint) Events(ctx context.Context, body io.ReadCloser, at *Cursor, each func(ev *wire.Event) (done bool, err error)) error {
	defer body.Close()
	r := e.NewEventReader(body)
	for {
		ev, err := r.Next()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, wire.ErrTooLarge):
			return e.TooLarge()
		default:
			if bad, ok := err.(*decodeError); ok {
				return bad.callError()
			}
			return ErrStreamEnded
		}
		if ev.HasID {
			at.Event = resumable(ev.ID)
		}
		if ev.Retry > 0 {
			at.retry = ev.Retry
		}
		if !ev.IsMessage() {
			e.throttle.Received(false)
			continue
		}
		done, err := each(&ev)
		if err != nil {
			return err
		}
		if done {
			drain(body)
			return nil
		}
	}
}

// NewEventReader returns a reader of a stream of the server. It slows a stream down that
// tells nothing.
func (e *Endpoint) NewEventReader(body io.Reader) *wire.SSEReader {
	r := wire.NewSSEReader(body, e.Max)
	r.OnIgnored(e.ignored)
	return r
}

// maxEventID bounds the id of an event from which a stream is resumed. It is stored, and
// sent in a header.
const maxEventID = 4 << 10

// resumable returns the id of an event, or "" if a header cannot hold it; the stream
// cannot be resumed from there.
func resumable(id string) string {
	if len(id) > maxEventID || strings.ContainsFunc(id, isControl) {
		return ""
	}
	return id
}

// isControl reports whether r is a character that a header must not contain (RFC 9110, section 5.5).
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// leastRetry is the shortest wait before a stream is resumed.
const leastRetry = 20 * time.Millisecond

// Pause waits before a stream is resumed: as long as the server wants, or else as wait
// computes.
func (at *Cursor) Pause(ctx context.Context, wait *protocol.Backoff) error {
	d := wait.Next(time.Now())
	if at.retry > 0 {
		d = max(at.retry, leastRetry)
	}
	return protocol.Sleep(ctx, d)
}
