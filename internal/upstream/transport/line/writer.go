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

// maxPending is how many bytes may wait to be written before requests wait for
// their turn. One message may always wait, whatever its size.
const MaxPending = 1 << 20

// maxNotes is how many bytes of notifications may wait to be written. Further ones
// are dropped: a server with so many of them does not read.
const maxNotificationBytes = 256 << 10

// errClosed means that nothing is written any more.
var errClosed = errors.New("the writer is closed")

// lineWriter writes messages as lines, from one goroutine, so that a server
// that does not read holds up nobody longer than the context of a call lasts.
// What is there when the stream can be written goes out in one piece.
type writer struct {
	w io.Writer

	mu                sync.Mutex
	pending           []byte
	notificationBytes int           // bytes of notifications in pending
	marks             []mark        // of the requests in pending, in order
	room              chan struct{} // not nil while somebody waits; closed when pending was taken
	closed            bool
	wake              chan struct{} // capacity 1: there is something pending, or closed
}

// mark tells where in a batch the line of a request begins.
type mark struct {
	at int
	f  *protocol.PendingCall
}

func newWriter(w io.Writer) *writer {
	return &writer{w: w, wake: make(chan struct{}, 1)}
}

// request queues the line of a flight. It waits for room, and fails with the
// error of ctx if there is none before ctx ends, or with errClosed; then nothing
// was queued.
func (w *writer) request(ctx context.Context, f *protocol.PendingCall, m *wire.Message) error {
	return w.wait(ctx, m, f)
}

// answer queues the line of a response, in the way of request.
func (w *writer) answer(ctx context.Context, m *wire.Message) error { return w.wait(ctx, m, nil) }

// wait queues a line when there is room, with a mark of the flight if there is one.
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

// post queues the line of a notification without waiting, and reports whether it
// did: it drops the line when too many wait already.
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

// queue appends the line of m. Params and results may have line breaks between
// their tokens, which a line must not have. The caller holds mu.
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

// close drops what is pending and makes run return, unless that is in the
// middle of a write.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	unsent(w.marks, 0)
	w.pending, w.notificationBytes, w.marks = nil, 0, nil
	w.makeRoom()
	protocol.Poke(w.wake)
}

// makeRoom wakes who waits for room. The caller holds mu.
func (w *writer) makeRoom() {
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}

// run writes until close is called or a write fails, and returns that error.
// Flights of which no byte was written are marked as unsent then.
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
			batch = nil // one large message shall not be paid for ever after
		}
		clear(marks) // the flights may go
	}
	return nil
}

// unsent marks the flights whose line begins behind the n bytes that were
// written.
func unsent(marks []mark, n int) {
	for _, m := range marks {
		if m.at >= n {
			m.f.NotSent.Store(true)
		}
	}
}
