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

// postResponse is the response to one HTTP POST, and the sink of the calls that the POST
// carried. Its first message determines the form: if that is the last message too, the
// response is a JSON body unless the client prefers events; otherwise it is a stream of
// events.
type postResponse struct {
	s        *Server
	w        http.ResponseWriter
	r        *http.Request
	ctx      context.Context // ends when the client is gone
	reserved reservation
	body     *buffer // nil after releaseBody
	era      wire.Era
	accepts  responseTypes
	codings  codings
	sess     *session.Session // nil if there is none
	request  wire.ID          // the request that it answers
	batch    []wire.ID        // the requests of a batch, in place of request
	// onLost, if not nil, is called when the client is gone, or is too slow for a stream
	// of events. It may be called more than once, and must not block.
	onLost func()

	mu       sync.Mutex
	stream   *stream.Stream // nil unless the response is a stream of events
	written  chan struct{}  // closed when the response carries the stream no longer
	whole    bool           // the response has carried all of the stream; set before written is closed
	finished bool           // only the last message may still be sent
}

// Send implements sink. It makes the response a stream of events.
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

// open begins the stream of events. In a session the stream can be resumed. The caller
// holds mu.
func (p *postResponse) open() {
	p.stream = p.s.newEventStream(p.era)
	p.written = make(chan struct{})
	var c *stream.Conn
	if p.sess != nil {
		c = p.sess.Replay.Open(p.stream, p.requests(), p.sess.Client.Revision.HasPriming())
	} else {
		c = p.stream.Connect()
	}
	w := p.s.newEventWriter(p.w, p.reserved.share)
	go func() {
		defer close(p.written)
		if p.whole = c.Run(p.ctx, w, stream.Ends{}); !p.whole && p.onLost != nil {
			p.onLost()
		}
	}()
}

// requests returns the ids of the requests that the response answers.
func (p *postResponse) requests() []wire.ID {
	if p.batch != nil {
		return p.batch
	}
	return []wire.ID{p.request}
}

// finish completes the response with its last message, and releases that. The status is
// only used for JSON: a stream has begun with 200. It is called once.
func (p *postResponse) finish(status int, last *response) {
	if st := p.close(status); st != nil {
		if len(last.result) <= smallResult {
			st.Finish(last.message())
			<-p.written
			return
		}
		st.FinishLarge(last.buf.b[:last.cut], last.result, last.buf.b[last.cut:])
		if <-p.written; p.whole {
			last.release()
		}
		return
	}
	if p.write(status, last) == nil {
		last.release()
	}
}

// refusalStatus returns the HTTP status for a refused call, and sets the headers that
// go with it. A stream of events has the status 200.
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

// finishBatch completes the response to a batch: with one array, or on a stream with one
// event for each answer.
func (p *postResponse) finishBatch(answers [][]byte) {
	if st := p.close(http.StatusOK); st != nil {
		st.Finish(answers...)
		<-p.written
		return
	}
	p.write(http.StatusOK, &response{buf: &buffer{}, result: joinMessages(answers)})
}

// close makes Send refuse further messages. It returns the stream for the last message,
// or nil if the response is JSON.
func (p *postResponse) close(status int) *stream.Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = true
	if p.stream == nil && p.accepts.prefersEvents(status) {
		p.open()
	}
	return p.stream
}

// abandon ends the response without a last message, as the specification demands for a
// cancelled request (2025-11-25, basic/utilities/cancellation). It is called instead
// of finish.
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

// releaseBody lets other requests reuse the buffer of the body. No slice of it may be
// used afterwards.
func (p *postResponse) releaseBody() {
	p.body.release()
	p.body = nil
}

// cleanUp releases the request's reservation. It also ends a stream that a panic has
// left without its last message, because net/http forbids writes after the handler has
// returned.
func (p *postResponse) cleanUp() {
	p.reserved.release()
	p.mu.Lock()
	left := p.stream != nil && !p.finished
	p.mu.Unlock()
	if left {
		p.abandon()
	}
}

// writeJSON writes a complete response. After an error nobody may reuse the memory of msg,
// because HTTP/2 may still be writing from it.
func (s *Server) writeJSON(w http.ResponseWriter, share fairshare.Share, status int, msg pieces) error {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(msg.size())}
	w.WriteHeader(status)
	return s.writeResponse(w, http.NewResponseController(w), share, msg, false)
}

// writeResponse writes a message in pieces with a deadline each, so that a slow client gets a
// large message, and a client that does not read is noticed soon. The deadlines are short for
// a client whose unread answers exceed its share, because unread answers occupy memory.
func (s *Server) writeResponse(w http.ResponseWriter, rc *http.ResponseController, share fairshare.Share, msg pieces, flush bool) error {
	timeout := writeTimeout
	if n := int64(msg.size()); n > freeBody {
		if s.unsent.Acquire(share, n) == nil {
			defer s.unsent.Release(share, n)
		} else {
			timeout = writeHurried
			// Over HTTP/2 a deadline ends a stream even if nothing is being written.
			defer func() { rc.SetWriteDeadline(time.Now().Add(writeTimeout)) }()
		}
	}
	for rest := msg; rest.size() > 0; {
		n := pieceSize(rest.size())
		// Writers without deadlines leave this to the server's own limits.
		rc.SetWriteDeadline(time.Now().Add(timeout * time.Duration(max(n, writePiece)) / writePiece))
		if err := rest.cut(n).write(w); err != nil {
			return err
		}
	}
	if flush {
		return rc.Flush()
	}
	return nil
}

// pieceSize returns how much of the rest of a message is written at once. A write of its own
// for a short end costs a system call and wakes the client twice, so the end goes with the
// piece before it, which gets more time in proportion.
func pieceSize(rest int) int {
	if rest <= writePiece+writePiece/2 {
		return rest
	}
	return writePiece
}
