package line

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// MaxPending bounds the bytes that wait to be written before requests wait for room. One
// message of any size may always wait.
const MaxPending = 1 << 20

// maxNotificationBytes bounds the notifications that wait to be written. It has room for
// cancellations of more calls than all clients can have at the same time. More of them are
// dropped, since the server does not read.
const maxNotificationBytes = 1 << 20

// errClosed means that the writer was closed.
var errClosed = errors.New("the writer is closed")

// writer writes messages as lines from one goroutine, so that a server that does not read
// blocks a call no longer than its context lasts. All waiting lines are written together.
type writer struct {
	w io.Writer

	mu                sync.Mutex
	pending           []byte
	notificationBytes int           // bytes of notifications in pending
	marks             []mark        // of the requests in pending, in order
	room              chan struct{} // not nil while a request waits for room; closed when pending was taken
	closed            bool
	wake              chan struct{} // capacity 1: there is something pending, or closed
}

// mark is the position of the line of a request in pending.
type mark struct {
	at int
	f  *protocol.PendingCall
}

func newWriter(w io.Writer) *writer {
	return &writer{w: w, wake: make(chan struct{}, 1)}
}

// request queues the line of a pending call. It waits for room. The error is that of ctx
// or errClosed; then nothing was queued.
func (w *writer) request(ctx context.Context, f *protocol.PendingCall, m *wire.Message) error {
	return w.wait(ctx, m, f)
}

// answer queues the line of a response as request does.
func (w *writer) answer(ctx context.Context, m *wire.Message) error { return w.wait(ctx, m, nil) }

// wait queues a line when there is room, with a mark if f is not nil.
func (w *writer) wait(ctx context.Context, m *wire.Message, f *protocol.PendingCall) error {
	w.mu.Lock()
	for len(w.pending) > MaxPending && !w.closed {
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	if f != nil {
		w.marks = append(w.marks, mark{len(w.pending), f})
	}
	w.queue(m)
	protocol.Poke(w.wake)
	return nil
}

// post queues the line of a notification without waiting. It returns false if it dropped
// the line because too many wait.
func (w *writer) post(m *wire.Message) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.notificationBytes >= maxNotificationBytes {
		return false
	}
	before := len(w.pending)
	w.queue(m)
	w.notificationBytes += len(w.pending) - before
	protocol.Poke(w.wake)
	return true
}

// queue appends the line of m. It replaces line breaks between the tokens of params and
// results. The caller holds mu.
func (w *writer) queue(m *wire.Message) {
	from := len(w.pending)
	w.pending = m.Append(w.pending)
	for _, end := range []byte("\n\r") {
		line := w.pending[from:]
		for i := bytes.IndexByte(line, end); i >= 0; i = bytes.IndexByte(line, end) {
			line[i] = ' '
			line = line[i+1:]
		}
	}
	w.pending = append(w.pending, '\n')
}

// close drops the pending lines and makes run return after a write in progress.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	unsent(w.marks, 0)
	w.pending, w.notificationBytes, w.marks = nil, 0, nil
	w.makeRoom()
	protocol.Poke(w.wake)
}

// makeRoom wakes the requests that wait for room. The caller holds mu.
func (w *writer) makeRoom() {
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}

// run writes until close is called or a write fails, and returns that error. It marks the
// calls of which no byte was written as not sent.
func (w *writer) run() error {
	var batch []byte
	var marks []mark
	for range w.wake {
		w.mu.Lock()
		w.pending, batch = batch[:0], w.pending
		w.notificationBytes = 0
		w.marks, marks = marks[:0], w.marks
		w.makeRoom()
		closed := w.closed
		w.mu.Unlock()
		if closed {
			return nil
		}
		if len(batch) == 0 {
			continue
		}
		if n, err := w.w.Write(batch); err != nil {
			unsent(marks, n)
			w.close()
			return err
		}
		if cap(batch) > MaxPending {
			batch = nil // a rare large buffer is not kept
		}
		clear(marks) // to free the calls
	}
	return nil
}

// unsent marks the calls whose lines begin after the n bytes that were written.
func unsent(marks []mark, n int) {
	for _, m := range marks {
		if m.at >= n {
			m.f.NotSent.Store(true)
		}
	}
}
