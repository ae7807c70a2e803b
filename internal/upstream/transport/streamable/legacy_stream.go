package streamable

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

const (
	// resumeTries bounds the failed attempts in a row to resume the stream of a call.
	resumeTries = 5
)

// streamHandler handles the requests and notifications on the stream of one call, or of a
// session if c is nil. It belongs to the goroutine that reads the stream.
type streamHandler struct {
	l   *legacyConn
	s   *session
	ctx context.Context // of the stream
	c   *call.Call
	x   *httpconn.Exchange // of the call, nil without one

	// asks is made for the first request of the server. Each stream has its own, since
	// servers without sessions use the same ids on each stream.
	asks *protocol.ServerRequests
	stop context.CancelFunc
	open context.Context
}

// handle handles one request or notification.
func (e *streamHandler) handle(m wire.Message) {
	l := e.l
	if m.IsRequest() {
		e.handleRequest(m)
		return
	}
	switch wire.MethodOf(m.Method).Scope {
	case wire.ScopeProgressToken:
		l.Config.Progress(l.Pending, m.Params)
	case wire.ScopeRequest:
		if e.asks != nil {
			e.asks.Cancelled(m.Params)
		}
	default:
		if c := e.owner(m); c != nil && !wire.MethodOf(m.Method).Standalone() {
			c.Back.Notify(m.Method, m.Params)
			return
		}
		l.Sink.Notified(m.Method, m.Params)
	}
}

// owner returns the call that a message on this stream belongs to, nil if that is not
// certain.
func (e *streamHandler) owner(m wire.Message) *call.Call {
	if e.c != nil {
		return e.c
	}
	return e.l.Config.Addressee(e.l.Pending, m)
}

func (e *streamHandler) handleRequest(m wire.Message) {
	if e.asks == nil {
		e.open, e.stop = context.WithCancel(e.ctx)
		e.asks = &protocol.ServerRequests{Config: e.l.Config, Liveness: &e.l.Liveness, Send: func(ctx context.Context, m wire.Message, c *call.Call) {
			if err := e.l.Endpoint.Send(ctx, e.s.header.ForCall(c), m); err != nil && ctx.Err() == nil {
				e.l.RateLog.Warn("the server did not take the answer to its request", e.l.Config.ErrorField(err))
				e.refused(ctx, err)
			}
		}}
	}
	e.asks.Serve(e.open, m, e.owner(m))
}

// refused ends the call if the server did not take the answer to a request because it has forgotten the session: it would wait for the answer, and the
// call for the server, until the call's timeout. A ping makes sure that the server does not just refuse this answer.
func (e *streamHandler) refused(ctx context.Context, err error) {
	if e.x == nil || !e.s.forgotten(err) {
		return
	}
	if err := e.l.ping(ctx); err == nil && e.l.session.Load() != e.s {
		e.x.Break()
	}
}

// close cancels the open requests of the server and waits until they have ended.
func (e *streamHandler) close() {
	if e.asks != nil {
		e.stop()
		e.asks.Wait()
	}
}

// resume resumes the stream of a request that ended before the response, as often as
// necessary (2025-11-25, basic/transports, "Resumability and Redelivery"): the server may
// have closed it so that the client polls. The request is never sent again, since the
// server may be executing it.
func (l *legacyConn) resume(ctx context.Context, header httpconn.Headers, x *httpconn.Exchange) (wire.Message, error) {
	none := wire.Message{}
	var wait protocol.Backoff
	for failures := 0; ; {
		if x.At.Event == "" || x.Broken() || failures == resumeTries {
			return none, httpconn.ErrStreamEnded
		}
		if err := x.At.Pause(ctx, &wait); err != nil {
			return none, err
		}
		resp, err := l.Endpoint.Do(ctx, http.MethodGet, httpconn.StreamHeader(header, x.At.Event), nil)
		if err != nil {
			switch {
			case ctx.Err() != nil:
				return none, err
			case l.Endpoint.Pool.Closed(): // err is about this GET; the server has had the call
				return none, &protocol.CallError{Reason: protocol.ReasonConnectionLost, ConnectionLost: true, ConversationClosed: true, Cause: err}
			}
			failures++
			continue
		}
		if resp.StatusCode != http.StatusOK || httpconn.MediaType(resp.Header) != httpconn.TypeStream {
			httpconn.Discard(resp)
			if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
				failures++
				continue
			}
			return none, &protocol.CallError{Reason: "the connection broke while the server was at work, and its answer cannot be taken up again", ConnectionLost: true,
				Cause: httpconn.NewStatusError(resp)}
		}
		failures = 0
		before := x.At.Event
		m, err := x.Stream(ctx, resp.Body)
		if !errors.Is(err, httpconn.ErrStreamEnded) {
			return m, err
		}
		if x.At.Event != before {
			wait.Reset()
		}
	}
}

// listen reads the notification stream of one session after the other until ctx ends.
func (l *legacyConn) listen(ctx context.Context) {
	for first := true; ctx.Err() == nil; first = false {
		s := l.session.Load()
		own, stop := context.WithCancel(ctx)
		unhook := context.AfterFunc(s.life, stop)
		l.listenTo(own, s, first)
		unhook()
		stop()
		select { // there may be no stream in this session
		case <-s.life.Done():
		case <-ctx.Done():
		}
	}
}

// listenTo reads the notification stream of one session, and connects again when it
// breaks. It returns when ctx ends or if the server offers no such stream. Notifications
// may be lost before a stream that does not resume another one, unless it is the first
// stream of the first session.
func (l *legacyConn) listenTo(ctx context.Context, s *session, first bool) {
	var at httpconn.Cursor
	var wait protocol.Backoff
	e := streamHandler{l: l, s: s, ctx: ctx}
	defer e.close()
	for ctx.Err() == nil {
		resp, err := l.Endpoint.Do(ctx, http.MethodGet, httpconn.StreamHeader(s.header, at.Event), nil)
		l.stream.Settle()
		switch {
		case err != nil:
		case resp.StatusCode == http.StatusOK && httpconn.MediaType(resp.Header) == httpconn.TypeStream:
			if late := l.stream.Opened(); at.Event == "" && (late || !first) {
				l.Sink.Missed()
			}
			first = false
			began, before := time.Now(), at.Event
			err = l.Endpoint.Events(ctx, resp.Body, &at, e.handleEvent)
			if at.Event != before || time.Since(began) >= protocol.SteadyAfter {
				wait.Reset()
			}
			if _, ok := errors.AsType[*protocol.CallError](err); ok {
				at.Event = "" // a resumed stream would begin with the same large event
			}
		default:
			refused := httpconn.NewStatusError(resp)
			httpconn.Discard(resp)
			if s.forgotten(refused) && at.Event != "" {
				at.Event = "" // the server may have forgotten the event only
				continue
			}
			if resp.StatusCode == http.StatusNotFound && s.id != "" {
				err := l.CheckOnce(ctx, func(ctx context.Context) error { _, err := l.renew(ctx, s); return err })
				if err == nil {
					return
				}
			} else if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
				l.Log.Debug("the server offers no stream for notifications", zap.Error(refused))
				return
			}
		}
		if at.Pause(ctx, &wait) != nil {
			return
		}
	}
}

// handleEvent handles the messages of an event of a notification stream. It skips
// malformed messages, since no call waits for them.
func (e *streamHandler) handleEvent(ev *wire.Event) (bool, error) {
	x := httpconn.Exchange{Endpoint: e.l.Endpoint, Early: e.handle}
	if _, _, err := x.Take(ev.Data); err != nil {
		e.l.Log.Debug("the server sent something odd on the stream for notifications", zap.Error(err))
	}
	return false, nil
}
