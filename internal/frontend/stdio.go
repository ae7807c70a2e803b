package frontend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

// errNotReading means that the output to the client is blocked or closed.
var errNotReading = errors.New("the client does not read what is written to it")

// ServeStdio serves one client on a pipe, with one message on each line (2026-07-28,
// basic/transports/stdio). The client may send requests of both eras. Its legacy session
// begins with initialize and lasts as long as the pipe. The client is the program that
// has started this process: the principal is call.Local, in a profile. ServeStdio is called
// once, beside Run.
//
// When in ends, running requests have the time drain to be answered; the same holds after Drain. When ctx ends,
// everything ends immediately. The error is nil unless in cannot be read, out cannot be written, or the principal's
// profile was removed. The goroutines that read and write may outlive ServeStdio, because a blocked pipe cannot be
// interrupted.
func (s *Server) ServeStdio(ctx context.Context, principal *call.Principal, in io.Reader, out io.Writer, drain time.Duration) error {
	st := stream.New(stream.Options{Lines: true, DropWhenBehind: true})
	conn := st.Connect()
	p := s.newPeer(ctx, principal, st)
	p.servesModern = true
	defer p.close()
	s.peers.add(p)
	defer s.peers.remove(p)
	if s.draining.Load() { // checked after add, so that Drain misses no peer
		return nil
	}
	written := make(chan bool, 1)
	go func() { written <- conn.Run(p.ctx, lineWriter{out}, stream.Ends{}) }()
	read := make(chan error, 1)
	go func() { read <- p.readLines(in) }()

	var err error
	var lapse <-chan time.Time
	for {
		select {
		case err = <-read:
			read = nil
			p.drain(errShuttingDown)
			timer := time.NewTimer(drain)
			defer timer.Stop()
			lapse = timer.C
		case <-lapse:
			s.log.Warn("calls that still ran after the end of the input were cancelled")
			return err
		case well := <-written:
			if cause := context.Cause(p.ctx); errors.Is(cause, errNoProfile) {
				return cause
			}
			if !well && ctx.Err() == nil {
				return errNotReading
			}
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// readLines handles each line until the input ends.
func (p *peer) readLines(in io.Reader) error {
	lines := wire.NewLineReader(in, p.s.options.Limits.MaxMessage)
	for {
		line, err := lines.Next()
		switch {
		case err == io.EOF:
			return nil
		case err == wire.ErrTooLarge:
			p.receiveTooLarge(lines.Oversized())
			continue
		case err != nil:
			return fmt.Errorf("read messages: %w", err)
		}
		p.receiveLine(line)
	}
}

// receiveLine handles one line.
func (p *peer) receiveLine(line []byte) {
	h := &reservation{s: p.s}
	defer h.release()
	request := requestid.New()
	if h.acquireBody(len(line)) != nil {
		p.respondError(requestIn(line), request, errPeerBusy)
		return
	}
	if id, err := p.receive(line, request, h); err != nil && responseIn(line).IsZero() { // responses are not answered
		p.respondError(id, request, err)
	}
}

// receiveTooLarge answers a line over the limit.
func (p *peer) receiveTooLarge(g *wire.EnvelopeScanner) {
	tooLarge := wire.Errorf(wire.CodeInvalidRequest, "invalid request: the message is larger than the limit of %d bytes", p.s.options.Limits.MaxMessage)
	if !p.s.failAsk(p.session(), g.ResponseID(), tooLarge) {
		p.respondError(g.RequestID(), requestid.New(), tooLarge)
	}
}

// respondError answers a message that was not accepted.
func (p *peer) respondError(id wire.ID, request string, err *wire.Error) {
	switch err {
	case errPeerBusy, errGatewayBusy:
		p.s.ratelog.Warn("requests are refused for now: "+err.Message, zap.String("request", request))
	default:
		p.s.logRejected(p.principal, p.remote, request, "", err)
	}
	p.respond(errorResponse(id, request, err))
}

// modernRequest handles a request of a modern client.
func (p *peer) modernRequest(m *wire.Message, meta *requestMeta, from sender, h *reservation) *wire.Error {
	if err := p.s.checkMetaInBody(meta, p.principal.Profile); err != nil {
		return err
	}
	x := p.s.modernCall(p.ctx, p.stream, from, newModernClient(p.id, meta), m, meta)
	x.call.Params = meta.strip(m.Params)
	if !p.register(x) {
		x.Cancel(nil)
		return invalidRequest(session.ErrDuplicate)
	}
	by := x.answerModern
	if m.Method == wire.MethodListen {
		by = func() answer { return p.listen(x) }
	}
	refused := p.startRequest(x, func() answer {
		defer p.unregister(x)
		return by()
	}, h)
	if refused != nil {
		p.unregister(x)
	}
	return refused
}

// register registers a request, so that it can be cancelled. It reports false if a
// request or subscription with the id exists.
func (p *peer) register(x *exchange) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inflight[x.id] != nil || p.listens[x.id] != nil {
		return false
	}
	p.inflight[x.id] = x
	return true
}

func (p *peer) unregister(x *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inflight[x.id] == x {
		delete(p.inflight, x.id)
	}
}

// cancelRequest ends the request or subscription with this id. There is no response.
func (p *peer) cancelRequest(id wire.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.inflight[id]; x != nil {
		delete(p.inflight, id)
		x.Cancel(session.ErrCancelled)
	}
	if sub := p.listens[id]; sub != nil {
		delete(p.listens, id)
		p.s.listens.remove(sub)
	}
}

// listen opens a subscription. Its request is answered when the subscription ends.
func (p *peer) listen(x *exchange) answer {
	sub, err := parseSubscription(x.call.Params, x.id)
	if err != nil {
		return answer{err: err}
	}
	sub.stream, sub.shared = p.stream, true
	p.s.subscribeResources(x, sub)
	if err := p.s.watchTasks(x, sub); err != nil {
		sub.close()
		return answer{err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if p.listens[x.id] != sub {
			sub.close()
		}
	}()
	switch {
	case x.scope.Err() != nil: // it was cancelled
	case p.ending != nil:
		return answer{err: p.ending}
	case len(p.listens) >= maxPeerListens:
		return answer{err: wire.Errorf(wire.CodeInternal, "this client has too many listen streams: end unused ones")}
	default:
		p.s.listens.add(sub)
		p.listens[x.id] = sub
	}
	return answer{noResponse: true}
}
