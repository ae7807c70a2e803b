package frontend

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"mcpgateway/internal/wire"
)

// post is the answer to one HTTP POST. Its form is open until the first message
// of it is known: a result that comes first makes it one JSON body, anything
// before the result makes it a stream of events. It is the outlet of the calls
// that the POST carried.
type post struct {
	s   *Server
	w   http.ResponseWriter
	ctx context.Context // ends when the client is gone
	era wire.Era
	// What the client takes; at least one is true.
	takesJSON, takesEvents bool
	// lost, if not nil, is called when the client turns out to be gone or too
	// slow while the answer is a stream. It may be called more than once and
	// must not block.
	lost func()

	mu      sync.Mutex
	st      *stream       // nil while the form is open
	written chan struct{} // closed when the stream's writer has returned
	intact  bool          // set before written is closed: the client can still be written to
	over    bool          // the answer is complete, or nearly
}

// send implements outlet: it makes the answer a stream of events.
func (p *post) send(msg []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || !p.takesEvents {
		return false
	}
	if p.st == nil {
		p.open()
	}
	if p.st.send(msg) {
		return true
	}
	if p.lost != nil {
		p.lost()
	}
	return false
}

// open begins the stream with its writer. The caller holds mu.
func (p *post) open() {
	p.st = p.s.newStream(p.w, p.era)
	p.written = make(chan struct{})
	go func() {
		defer close(p.written)
		if p.intact = p.st.run(p.ctx); !p.intact && p.lost != nil {
			p.lost()
		}
	}()
}

// finish completes the answer with its last message. The status counts only as
// long as the form is open; a stream has begun with 200. It is called once.
func (p *post) finish(status int, msg []byte) {
	if st := p.close(); st != nil {
		buf := newBuffer()
		buf.b = wire.AppendEvent(buf.b, wire.Event{Data: msg})
		st.write(buf.b)
		buf.release()
		return
	}
	if p.st == nil {
		writeJSON(p.w, status, msg)
	}
}

// settle ends a stream that a panic has left without its last message: nobody
// may write to a response whose request has been served.
func (p *post) settle() {
	p.mu.Lock()
	left := p.st != nil && !p.over
	p.mu.Unlock()
	if left {
		p.close()
	}
}

// finishBatch completes the answer to a batch: with one array, or when events
// have been sent before, with one event for each answer.
func (p *post) finishBatch(answers [][]byte) {
	if st := p.close(); st != nil {
		for _, msg := range answers {
			st.write(wire.AppendEvent(nil, wire.Event{Data: msg}))
		}
		return
	}
	if p.st == nil {
		array := append([]byte{'['}, bytes.Join(answers, []byte{','})...)
		writeJSON(p.w, http.StatusOK, append(array, ']'))
	}
}

// abandon ends the answer without a last message, as a cancelled request
// demands (2025-11-25, basic/utilities/cancellation). It is called instead of
// finish.
func (p *post) abandon() {
	p.close()
	if p.st != nil {
		return
	}
	if p.takesEvents {
		p.s.newStream(p.w, p.era).open()
		return
	}
	p.w.WriteHeader(http.StatusAccepted)
}

// close lets nobody send any more and waits until what was sent is written. It
// returns the stream if one more message may be written to it, and nil if the
// answer is to be JSON or the client is gone.
func (p *post) close() *stream {
	p.mu.Lock()
	p.over = true
	st := p.st
	p.mu.Unlock()
	switch {
	case st != nil:
		st.end()
		<-p.written
		if !p.intact {
			return nil
		}
		return st
	case !p.takesJSON:
		p.st = p.s.newStream(p.w, p.era)
		p.st.open()
		return p.st
	default:
		return nil
	}
}

// writeJSON writes a whole answer in one piece.
func writeJSON(w http.ResponseWriter, status int, msg []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(msg))}
	w.WriteHeader(status)
	writeAll(w, http.NewResponseController(w), msg)
}

// writeAll writes b in pieces that each have a deadline of their own, so that a
// slow client gets a large message and one that has stopped reading does not
// hold us for long.
func writeAll(w http.ResponseWriter, rc *http.ResponseController, b []byte) error {
	for {
		piece := b[:min(len(b), writePiece)]
		rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer can; then the server's own bounds hold
		if _, err := w.Write(piece); err != nil {
			return err
		}
		if b = b[len(piece):]; len(b) == 0 {
			return nil
		}
	}
}
