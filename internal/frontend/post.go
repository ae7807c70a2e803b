package frontend

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// post is the answer to one HTTP POST. Its form is open until the first message
// of it is known: a result that comes first makes it one JSON body, unless the
// client would rather have events; anything before the result makes it a stream
// of events. It is the outlet of the calls that the POST carried.
type postResponse struct {
	s        *Server
	w        http.ResponseWriter
	r        *http.Request
	ctx      context.Context // ends when the client is gone
	reserved reservation
	body     *buffer // nil when it is free for other use
	era      wire.Era
	accepts  responseTypes
	sess     *session.Session // of a legacy client, nil when it has none
	// lost, if not nil, is called when the client turns out to be gone or too
	// slow while the answer is a stream. It may be called more than once and
	// must not block.
	onLost func()

	mu       sync.Mutex
	stream   *stream.Stream // nil while the form is open
	written  chan struct{}  // closed when this response carries the stream no longer
	finished bool           // the answer is complete, or nearly
}

// send implements outlet: it makes the answer a stream of events.
func (p *postResponse) Send(msg []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished || !p.accepts.events {
		return false
	}
	if p.stream == nil {
		p.open()
	}
	if p.stream.Send(msg) {
		return true
	}
	if p.onLost != nil {
		p.onLost()
	}
	return false
}

// open begins the stream with its writer. In a session it can be resumed. The
// caller holds mu.
func (p *postResponse) open() {
	p.stream = p.s.newEventStream(p.era)
	p.written = make(chan struct{})
	var c *stream.Conn
	if p.sess != nil {
		c = p.sess.Replay.Open(p.stream, p.s.newEventWriter(p.w, p.reserved.share), true, p.sess.Client.Revision.HasPriming())
	} else {
		c = p.stream.Connect(p.s.newEventWriter(p.w, p.reserved.share))
	}
	go func() {
		defer close(p.written)
		if !c.Run(p.ctx, nil) && p.onLost != nil {
			p.onLost()
		}
	}()
}

// finish completes the answer with its last message. The status counts only for
// JSON; a stream begins with 200. It is called once.
func (p *postResponse) finish(status int, msg []byte) {
	if st := p.close(status); st != nil {
		st.Finish(msg)
		<-p.written
		return
	}
	p.s.writeJSON(p.w, p.reserved.share, status, msg)
}

// refuse prepares the answer to a call that is refused in a way that HTTP has a
// status for, and returns that. It is said with JSON only.
func (p *postResponse) refusalStatus(e *call.Refused) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stream != nil || !p.accepts.json:
		return http.StatusOK
	case len(e.Scopes) > 0:
		p.w.Header().Set("WWW-Authenticate", p.s.options.ScopeChallenge(p.r, e.Scopes))
		return http.StatusForbidden
	case e.RetryAfter > 0:
		p.w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}

// finishBatch completes the answer to a batch: with one array, or when the
// answer is a stream, with one event for each answer.
func (p *postResponse) finishBatch(answers [][]byte) {
	if st := p.close(http.StatusOK); st != nil {
		st.Finish(answers...)
		<-p.written
		return
	}
	p.s.writeJSON(p.w, p.reserved.share, http.StatusOK, joinMessages(answers))
}

// close lets nobody send any more. It returns the stream that the last message
// goes onto, nil if the answer is to be JSON.
func (p *postResponse) close(status int) *stream.Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = true
	if p.stream == nil && p.accepts.prefersEvents(status) {
		p.open()
	}
	return p.stream
}

// abandon ends the answer without a last message, as a cancelled request
// demands (2025-11-25, basic/utilities/cancellation). It is called instead of
// finish.
func (p *postResponse) abandon() {
	p.mu.Lock()
	p.finished = true
	st := p.stream
	p.mu.Unlock()
	switch {
	case st != nil:
		st.End()
		<-p.written
	case p.accepts.events:
		p.s.newEventWriter(p.w, p.reserved.share).Open()
	default:
		writeStatus(p.w, http.StatusAccepted)
	}
}

// leaveBody gives the body back, of which nobody holds a slice any longer.
func (p *postResponse) releaseBody() {
	p.body.release()
	p.body = nil
}

// settle gives back what the request holds, and ends a stream that a panic has
// left without its last message: nobody may write to a response whose request
// has been served.
func (p *postResponse) cleanUp() {
	p.reserved.release()
	p.mu.Lock()
	left := p.stream != nil && !p.finished
	p.mu.Unlock()
	if left {
		p.abandon()
	}
}

// writeJSON writes a whole answer in one piece.
func (s *Server) writeJSON(w http.ResponseWriter, o fairshare.Share, status int, msg []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(msg))}
	w.WriteHeader(status)
	s.writeResponse(w, http.NewResponseController(w), o, msg, false)
}

// writeAll writes b in pieces that each have a deadline of their own, so that a
// slow client gets a large message and one that has stopped reading does not
// hold us for long. Whoever has not read more than is left for others has to be
// quick: answers are memory for as long as they are read.
func (s *Server) writeResponse(w http.ResponseWriter, rc *http.ResponseController, o fairshare.Share, b []byte, flush bool) error {
	patience := writeTimeout
	if n := int64(len(b)); n > freeBody {
		if s.unsent.Acquire(o, n) == nil {
			defer s.unsent.Release(o, n)
		} else {
			patience = writeHurried
			// Over HTTP/2 a deadline that passes ends a stream in which nothing is written, too.
			defer func() { rc.SetWriteDeadline(time.Now().Add(writeTimeout)) }()
		}
	}
	for {
		piece := b[:min(len(b), writePiece)]
		rc.SetWriteDeadline(time.Now().Add(patience)) // not every writer can; then the server's own bounds hold
		if _, err := w.Write(piece); err != nil {
			return err
		}
		switch b = b[len(piece):]; {
		case len(b) > 0:
		case flush:
			return rc.Flush()
		default:
			return nil
		}
	}
}
