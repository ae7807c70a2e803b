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
	"mcpgateway/internal/wire"
)

// errNotReading means that the output to the client is blocked or closed.
var errNotReading = errors.New("the client does not read what is written to it")

// ServeStdio serves one client on a pipe, with one message on each line (2026-07-28,
// basic/transports/stdio). The client may send requests of both eras. Its legacy session
// begins with initialize and lasts as long as the pipe. The client is the program that
// has started this process: the principal call.Local. ServeStdio is called once, beside
// Run.
//
// When in ends, running requests have the time drain to be answered; the same holds
// after Drain. When ctx ends, everything ends at once. The error is nil unless in
// cannot be read or out cannot be written. The goroutines that read and write may
// outlive ServeStdio, because a blocked pipe cannot be interrupted.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, drain time.Duration) error {
	st := stream.New(stream.Options{Lines: true, DropWhenBehind: true})
	conn := st.Connect(lineWriter{out})
	c := s.newPeer(ctx, call.Local, st)
	c.servesModern = true
	defer c.close()
	s.peers.add(c)
	defer s.peers.remove(c)
	if s.draining.Load() { // checked after add, so that Drain misses no peer
		return nil
	}
	written := make(chan bool, 1)
	go func() { written <- conn.Run(c.ctx, nil) }()
	read := make(chan error, 1)
	go func() { read <- c.readLines(in) }()

	var err error
	var lapse <-chan time.Time
	for {
		select {
		case err = <-read:
			read = nil
			c.drain()
			timer := time.NewTimer(drain)
			defer timer.Stop()
			lapse = timer.C
		case <-lapse:
			s.log.Warn("calls were still running after the input had ended, and are ended")
			return err
		case well := <-written:
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
func (c *peer) readLines(in io.Reader) error {
	lines := wire.NewLineReader(in, c.s.options.Limits.MaxMessage)
	for {
		line, err := lines.Next()
		switch {
		case err == io.EOF:
			return nil
		case err == wire.ErrTooLarge:
			c.receiveTooLarge(lines.Oversized())
			continue
		case err != nil:
			return fmt.Errorf("read messages: %w", err)
		}
		c.receiveLine(line)
	}
}

// receiveLine handles one line.
func (c *peer) receiveLine(line []byte) {
	h := &reservation{s: c.s}
	defer h.release()
	if h.acquireBody(len(line)) != nil {
		c.respondError(requestIn(line), errPeerBusy)
		return
	}
	if id, err := c.receive(line, h); err != nil && responseIn(line).IsZero() { // responses are not answered
		c.respondError(id, err)
	}
}

// receiveTooLarge answers a line over the limit.
func (c *peer) receiveTooLarge(g *wire.EnvelopeScanner) {
	tooLarge := wire.Errorf(wire.CodeInvalidRequest, "invalid request: the message is larger than the limit of %d bytes", c.s.options.Limits.MaxMessage)
	if !c.session().FailAsk(g.ResponseID(), tooLarge) {
		c.respondError(g.RequestID(), tooLarge)
	}
}

// respondError answers a message that was not accepted.
func (c *peer) respondError(id wire.ID, err *wire.Error) {
	c.s.log.Debug("protocol violation", zap.Int64("code", err.Code))
	c.respond(errorResponse(id, err))
}

// modernRequest handles a request of a modern client.
func (c *peer) modernRequest(m *wire.Message, meta *requestMeta, h *reservation) *wire.Error {
	if err := c.s.checkMetaInBody(meta); err != nil {
		return err
	}
	x := c.s.modernCall(c.ctx, c.stream, c.who, c.id, m, meta)
	x.call.Params = meta.strip(m.Params)
	if !c.register(x) {
		x.Cancel(nil)
		return invalidRequest(session.ErrDuplicate)
	}
	by := x.answerModern
	if m.Method == wire.MethodListen {
		by = func() answer { return c.listen(x) }
	}
	refused := c.startRequest(x, func() answer {
		defer c.unregister(x)
		return by()
	}, h)
	if refused != nil {
		c.unregister(x)
	}
	return refused
}

// register registers a request, so that it can be cancelled. It reports false if a
// request or subscription with the id exists.
func (c *peer) register(x *exchange) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inflight[x.id] != nil || c.listens[x.id] != nil {
		return false
	}
	c.inflight[x.id] = x
	return true
}

func (c *peer) unregister(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inflight[x.id] == x {
		delete(c.inflight, x.id)
	}
}

// cancelRequest ends the request or subscription with this id. There is no response.
func (c *peer) cancelRequest(id wire.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.inflight[id]; x != nil {
		delete(c.inflight, id)
		x.Cancel(session.ErrCancelled)
	}
	if sub := c.listens[id]; sub != nil {
		delete(c.listens, id)
		c.s.listens.remove(sub)
	}
}

// listen opens a subscription. Its request is answered when the subscription ends.
func (c *peer) listen(x *exchange) answer {
	sub, ok := parseSubscription(x.call.Params, x.id)
	if !ok {
		return answer{err: errNoFilter}
	}
	sub.stream, sub.shared = c.stream, true
	c.s.subscribeResources(x, sub)
	if err := c.s.watchTasks(x, sub); err != nil {
		sub.close()
		return answer{err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if c.listens[x.id] != sub {
			sub.close()
		}
	}()
	switch {
	case x.ctx.Err() != nil: // it was cancelled
	case c.ending:
		return answer{err: errShuttingDown}
	case len(c.listens) >= maxPeerListens:
		return answer{err: wire.Errorf(wire.CodeInternal, "there are too many subscriptions")}
	default:
		c.s.listens.add(sub)
		c.listens[x.id] = sub
	}
	return answer{noResponse: true}
}
