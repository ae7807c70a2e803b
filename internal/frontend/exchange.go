package frontend

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/park"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/wire"
)

// Why the context of a call ended, as context.Cause tells.
var (
	errRevoked    = errors.New("what proved who the client is was withdrawn")
	errStopped    = errors.New("the gateway is shutting down")
	errClientGone = park.ErrAbandoned
)

// errInternal is all that a client learns of a fault of ours.
var errInternal = wire.Errorf(wire.CodeInternal, "internal error")

// errEnded is the answer to a call that the end of the gateway has cut short: its
// upstream may have begun it.
var errCallEnded = wire.Errorf(wire.CodeInternal, "%s: the call was ended", errStopped).
	WithData(wire.Raw(`{"reason":"the gateway is shutting down","retryable":false}`))

// errTurnedAway is the answer to a call that comes while the gateway drains.
var errDraining = wire.Errorf(wire.CodeInternal, "%s and takes no new calls; send this one again", errStopped)

// outlet takes messages for a client that come before, or beside, the answer to
// a request. send does not wait for the client; it reports false when the
// message cannot reach the client this way. The message is copied.
type sink interface {
	Send(msg []byte) bool
}

// exchange is one request in flight: its call, and the way back to the client.
// It is the call's back channel.
type exchange struct {
	call        call.Call
	s           *Server
	id          wire.ID
	sink        sink
	sess        *session.Session // nil when the call belongs to none
	reserved    *reservation     // what the request holds, nil when it is not known
	scope       call.Scope
	ctx         context.Context // scope
	notifyEnded atomic.Bool     // nothing goes to the client beside the answer: the handler has returned, or it is no call
}

// newExchange prepares a call. The caller registers it, where ends of sessions
// and of the server find it, runs it, and then calls cancel.
func (s *Server) newExchange(parent context.Context, out sink, id wire.ID) *exchange {
	x := &exchange{s: s, id: id, sink: out}
	x.scope.Begin(parent)
	x.ctx = &x.scope
	x.call.ID = rand.Text()
	x.call.Back = x
	return x
}

// Cancel ends the call's context.
func (x *exchange) Cancel(cause error) { x.scope.Cancel(cause) }

// answer is what a request comes to.
type answer struct {
	result call.Result
	err    *wire.Error // nil when there is a result
	// refused says more of the fault to those on HTTP, nil for nothing.
	refused *call.Refused
	// silent says that there is no response: the client has cancelled the
	// request, or is gone.
	noResponse bool
}

// run has the call handled.
func (x *exchange) run() answer {
	return x.outcome(x.handle())
}

// outcome is what a request comes to whose handler has returned.
func (x *exchange) outcome(res call.Result, err error) answer {
	cause := context.Cause(x.ctx)
	switch {
	case cause == session.ErrCancelled, cause == errClientGone, cause == context.Canceled: // the last is the connection's end
		return answer{noResponse: true}
	case err == nil && res.Raw != nil:
		return answer{result: res}
	}
	var fault *wire.Error
	switch {
	case errors.As(err, &fault):
	case cause == errStopped, err == errStopped:
		fault = errCallEnded
	case cause != nil:
		fault = wire.Errorf(wire.CodeInternal, "%s", cause)
	case errors.Is(err, context.DeadlineExceeded):
		fault = wire.Errorf(wire.CodeInternal, "the call took too long")
	default:
		x.s.ratelog.Error("a call ended without an answer", zap.String("call", x.call.ID), zap.Error(err))
		fault = errInternal
	}
	a := answer{err: fault}
	a.refused, _ = errors.AsType[*call.Refused](err)
	return a
}

// handle has the call handled.
func (x *exchange) handle() (call.Result, error) {
	defer x.EndNotify()
	return x.s.handle(x.ctx, &x.call)
}

// handle calls the handler, and turns a panic into an error.
func (s *Server) handle(ctx context.Context, c *call.Call) (res call.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.logPanic(p)
			res, err = call.Result{}, errInternal
		}
	}()
	return s.options.Handler.Handle(ctx, c)
}

// Call, Context and EndNotify implement park.Request, with Notify.
func (x *exchange) Call() *call.Call         { return &x.call }
func (x *exchange) Context() context.Context { return x.ctx }
func (x *exchange) EndNotify()               { x.notifyEnded.Store(true) }

// leavesBody reports whether nobody can hold slices of the request's body any
// longer. A handler promises that for every return, but only after a result in
// good order nothing at all depends on it.
func (x *exchange) bodyIsFree(a answer) bool {
	return a.err == nil && !a.noResponse && x.ctx.Err() == nil
}

// Notify implements call.BackChannel. Log messages that the client did not ask
// for are dropped.
func (x *exchange) Notify(method string, params wire.Raw) {
	if x.notifyEnded.Load() || (method == wire.NoteMessage && !x.wantsLog(params)) {
		return
	}
	m := wire.Message{Method: method, Params: params}
	buf := newBuffer()
	buf.b = m.Append(buf.b)
	x.sink.Send(buf.b)
	buf.release()
}

// wantsLog reports whether a log message goes to the client. A modern request
// that named no level gets none; a legacy session that set none gets what the
// server sends (2025-11-25, server/utilities/logging, "Setting Log Level").
func (x *exchange) wantsLog(params wire.Raw) bool {
	least := x.call.LogLevel
	if x.call.Client.Era() == wire.EraLegacy {
		if least = x.sess.LogLevel(); least == wire.LevelNone {
			return true
		}
	}
	return least != wire.LevelNone && levelOf(wire.ValueOf(params).Get("level")) >= least
}

// appendAnswer appends the response as a message of the client's era.
func (x *exchange) appendAnswer(dst []byte, a answer) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = x.id.Append(dst)
	switch {
	case a.err != nil && x.call.Client.Era() == wire.EraModern:
		dst = append(dst, `,"error":`...)
		dst = modernError(a.err).Append(dst)
	case a.err != nil:
		dst = append(dst, `,"error":`...)
		dst = a.err.Append(dst)
	case x.call.Client.Era() == wire.EraModern:
		dst = append(dst, `,"result":`...)
		dst = x.s.appendModern(dst, x.call.Method, a.result)
	default:
		dst = append(dst, `,"result":`...)
		dst = append(dst, legacyResult(a.result)...)
	}
	extra := a.result.Extra
	if a.err != nil {
		extra = a.err.Extra
	}
	if extra != "" {
		dst = append(dst, ',')
		dst = append(dst, extra...)
	}
	return append(dst, '}')
}

// finish answers the request on the post that carried it alone.
func (x *exchange) finish(p *postResponse, a answer) {
	if a.noResponse {
		p.abandon()
		return
	}
	status := http.StatusOK
	if a.err != nil && x.call.Client.Era() == wire.EraModern {
		status = modernStatus(a.err)
	}
	if a.refused != nil {
		status = p.refusalStatus(a.refused)
	}
	buf := newBuffer()
	buf.b = slices.Grow(buf.b, len(a.result.Raw)+answerOverhead)
	buf.b = x.appendAnswer(buf.b, a)
	p.finish(status, buf.b)
	buf.release()
}

// answerRoom is what an answer commonly has beside its result.
const answerOverhead = 512

// modernStatus returns the HTTP status that goes with an error code. Only these
// codes have one (2026-07-28, basic/transports/streamable-http). 404 is for a method
// that the gateway does not know; that an upstream does not know it is an answer as
// any other, which clients would not show if it came with 404. Legacy clients
// always get 200: to them 404 means that their session is gone.
func modernStatus(fault *wire.Error) int {
	switch {
	case fault.Code == wire.CodeMethodNotFound && fault.Raw == nil:
		return http.StatusNotFound
	case wire.IsModernCode(fault.Code):
		return http.StatusBadRequest
	default:
		return http.StatusOK
	}
}

// callSet is the set of calls in flight that belong to no session. The zero set
// is ready for use.
type callSet struct {
	mu  sync.Mutex
	set map[*exchange]struct{}
}

func (c *callSet) add(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == nil {
		c.set = make(map[*exchange]struct{})
	}
	c.set[x] = struct{}{}
}

func (c *callSet) remove(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.set, x)
}

func (c *callSet) cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.set {
		x.Cancel(cause)
	}
}
