package frontend

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/park"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

// Causes with which calls end, see context.Cause.
var (
	errRevoked    = errors.New("the credentials of the client were revoked")
	errRights     = errors.New("the rights of the client have changed")
	errNoEra      = errors.New("the profile serves legacy clients no longer")
	errNoProfile  = errors.New("the configuration has this profile no longer")
	errStopped    = errors.New("the gateway is shutting down")
	errClientGone = park.ErrAbandoned
)

// errInternal is all that a client learns about a bug.
var errInternal = wire.Errorf(wire.CodeInternal, "internal error")

// errCallEnded answers a running call when the gateway stops. The upstream may have
// begun it.
var errCallEnded = wire.Errorf(wire.CodeInternal, "%s: the call was ended", errStopped).
	WithData(wire.Raw(`{"reason":"the gateway is shutting down","retryable":false}`))

// errDraining answers a call that arrives while the gateway drains.
var errDraining = wire.Errorf(wire.CodeInternal, "%s and takes no new calls; send this one again", errStopped)

// sink takes messages for a client that precede or accompany the answer to a request.
type sink interface {
	// Send does not wait for the client. It copies the message, and reports false if
	// the message cannot reach the client this way.
	Send(msg []byte) bool
}

// exchange is one running request: its call, and the way back to the client. It is the
// call's back channel.
type exchange struct {
	call        call.Call
	trace       call.Trace // of the call
	s           *Server
	id          wire.ID
	sink        sink
	sess        *session.Session // nil if the call belongs to no session
	reserved    *reservation     // what the request holds of the budgets, or nil
	scope       call.Scope
	notifyEnded atomic.Bool // only the answer may still go to the client
	neighbors               // in the set of calls without a session
}

// sender is the sender of one request.
type sender struct {
	principal *call.Principal
	remote    string             // the address, "" on stdio
	request   string             // the request id
	trace     *call.TraceContext // of the headers, or nil
}

// senderOf returns the sender of an HTTP request.
func (s *Server) senderOf(w http.ResponseWriter, r *http.Request, principal *call.Principal) sender {
	from := sender{principal: principal, remote: r.RemoteAddr, request: requestid.Of(w)}
	if s.options.Tracer != nil {
		from.trace = traceContext(r)
	}
	return from
}

// traceContext returns the trace context in the headers of a request, nil if there is none. A
// header that is sent several times is one list (RFC 9110, section 5.3).
func traceContext(r *http.Request) *call.TraceContext {
	parent, state, baggage := r.Header["Traceparent"], r.Header["Tracestate"], r.Header["Baggage"]
	if len(parent) != 1 && len(baggage) == 0 {
		return nil
	}
	c := &call.TraceContext{Baggage: strings.Join(baggage, ",")}
	if len(parent) == 1 {
		c.Traceparent, c.Tracestate = parent[0], strings.Join(state, ",")
	}
	return c
}

// newExchange prepares a call. The caller registers it with begin, runs it, calls end,
// and then Cancel.
func (s *Server) newExchange(parent context.Context, out sink, from sender, id wire.ID) *exchange {
	x := &exchange{s: s, id: id, sink: out}
	x.scope.Begin(parent)
	x.call.ID, x.call.Remote, x.call.Principal = from.request, from.remote, from.principal
	x.call.Back = x
	x.trace.Message, x.trace.Incoming = id, from.trace
	x.call.Trace = &x.trace
	return x
}

// setClient sets the client, and the share that the call counts for.
func (x *exchange) setClient(client *call.Client) {
	x.call.Client = client
	x.call.ShareKey = x.s.callShare(x.call.Remote, x.call.Principal, client)
}

// Cancel ends the call's context.
func (x *exchange) Cancel(cause error) { x.scope.Cancel(cause) }

// answer is the outcome of a request.
type answer struct {
	result call.Result
	err    *wire.Error // nil if there is a result
	// refused has details of err for HTTP, or is nil.
	refused *call.Refused
	// noResponse says that there is no response: the client has cancelled the request,
	// or is gone.
	noResponse bool
	// handled says that the handler has returned the answer, and has logged the call.
	handled bool
}

// run has the call handled.
func (x *exchange) run() answer {
	return x.outcome(x.handle())
}

// outcome returns the answer to a request whose handler has returned.
func (x *exchange) outcome(res call.Result, err error) answer {
	cause := context.Cause(&x.scope)
	switch {
	case cause == session.ErrCancelled, cause == errClientGone, cause == context.Canceled: // the connection has ended
		return answer{noResponse: true}
	case err == nil && res.Raw != nil && withdrawn(cause):
		// The end of the call has answered its questions too, so that the upstream may have
		// finished it before the handler noticed.
		return answer{err: wire.Errorf(wire.CodeInternal, "%s", cause)}
	case err == nil && res.Raw != nil:
		return answer{result: res, handled: true}
	}
	var answered *wire.Error
	switch {
	case errors.As(err, &answered):
	case cause == errStopped, err == errStopped:
		answered = errCallEnded
	case cause != nil:
		answered = wire.Errorf(wire.CodeInternal, "%s", cause)
	case errors.Is(err, context.DeadlineExceeded):
		answered = wire.Errorf(wire.CodeInternal, "the call took too long")
	default:
		x.s.ratelog.Error("a call ended without an answer", zap.String("request", x.call.ID), zap.Error(err))
		answered = errInternal
	}
	a := answer{err: answered, handled: true}
	a.refused, _ = errors.AsType[*call.Refused](err)
	return a
}

// withdrawn reports whether a call ended because its client may no longer have the result.
func withdrawn(cause error) bool {
	switch cause {
	case errRevoked, errRights, errNoEra, errNoProfile:
		return true
	}
	return false
}

// handle has the call handled.
func (x *exchange) handle() (call.Result, error) {
	defer x.EndNotify()
	return x.s.handle(&x.scope, &x.call)
}

// Call makes a call of this process as if a client had sent it. The error is a *wire.Error or that of ctx. Call sets the share
// that the call counts for.
func (s *Server) Call(ctx context.Context, c *call.Call) (call.Result, error) {
	if s.draining.Load() {
		return call.Result{}, errDraining
	}
	c.ShareKey = s.callShare(c.Remote, c.Principal, c.Client)
	return s.handle(ctx, c)
}

// handle calls the handler, and turns a panic into an error.
func (s *Server) handle(ctx context.Context, c *call.Call) (res call.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.logPanic(p, c.ID)
			res, err = call.Result{}, errInternal
		}
	}()
	return s.options.Handler.Handle(ctx, c)
}

// Call, Context and EndNotify implement park.Request, with Notify.
func (x *exchange) Call() *call.Call         { return &x.call }
func (x *exchange) Context() context.Context { return &x.scope }
func (x *exchange) EndNotify()               { x.notifyEnded.Store(true) }

// bodyIsFree reports whether the buffer of the request's body can be reused. A handler
// promises that whenever it returns. This is stricter, in case a handler that was
// cancelled or failed still holds slices of it.
func (x *exchange) bodyIsFree(a answer) bool {
	return a.err == nil && !a.noResponse && x.scope.Err() == nil
}

// Notify implements call.BackChannel. It drops log messages that the client does not
// want.
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

// wantsLog reports whether a log message goes to the client. A modern request without
// a level gets none. A legacy session that has set no level gets all (2025-11-25,
// server/utilities/logging, "Setting Log Level").
func (x *exchange) wantsLog(params wire.Raw) bool {
	least := x.call.LogLevel
	if x.call.Client.Era() == wire.EraLegacy {
		if least = x.sess.LogLevel(); least == wire.LevelNone {
			return true
		}
	}
	return least != wire.LevelNone && levelOf(wire.ValueOf(params).Get("level")) >= least
}

// response returns the response in the form of the client's era. It logs an error that the handler
// did not see, because the response has the request id.
func (x *exchange) response(a answer) response {
	r := response{buf: newBuffer(), memory: a.result.Buffer}
	b := append(r.buf.b, `{"jsonrpc":"2.0","id":`...)
	b = x.id.Append(b)
	modern := x.call.Client.Era() == wire.EraModern
	extra := a.result.Extra
	switch {
	case a.err != nil:
		if !a.handled {
			x.s.logRejected(x.call.Principal, x.call.Remote, x.call.ID, x.call.Method, a.err)
		}
		if extra = a.err.Extra; modern {
			a.err = modernError(a.err)
		}
		a.err = withRequestID(a.err, x.call.ID)
		b = a.err.Append(append(b, `,"error":`...))
		r.cut = len(b)
	case modern:
		b = append(b, `,"result":`...)
		r.cut = len(b)
		r.result, b = x.s.modernResult(b, x.call.Method, a.result)
	default:
		b, r.cut, r.result = appendLegacy(append(b, `,"result":`...), a.result)
	}
	if a.err == nil {
		r.page = a.result.Page
	}
	if extra != "" {
		b = append(b, ',')
		b = append(b, extra...)
	}
	r.buf.b = append(b, '}')
	return r
}

// message returns the response in the form of the client's era as one message.
func (x *exchange) message(a answer) []byte {
	r := x.response(a)
	return r.message()
}

// finish answers the request with the response to the POST that carried it.
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
	r := x.response(a)
	p.finish(status, &r)
}

// modernStatus returns the HTTP status for an error. Only these codes have one
// (2026-07-28, basic/transports/streamable-http). 404 is for a method that the gateway
// does not know. If an upstream does not know a method, the status is 200: clients
// would not show the error if it came with 404. Legacy clients always get 200, because
// 404 tells them that their session is gone.
func modernStatus(err *wire.Error) int {
	switch {
	case err.Code == wire.CodeMethodNotFound && err.Raw == nil:
		return http.StatusNotFound
	case wire.IsModernCode(err.Code):
		return http.StatusBadRequest
	default:
		return http.StatusOK
	}
}

// callSet is the set of running calls that belong to no session. The zero value is an
// empty set. It is a list, since a call adds itself and removes itself.
type callSet struct {
	mu   sync.Mutex
	last *exchange
}

// neighbors are the calls beside one in a callSet, whose mutex guards them.
type neighbors struct{ before, after *exchange }

func (c *callSet) add(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.before = c.last; x.before != nil {
		x.before.after = x
	}
	c.last = x
}

func (c *callSet) remove(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.before != nil {
		x.before.after = x.after
	}
	if x.after != nil {
		x.after.before = x.before
	} else if c.last == x {
		c.last = x.before
	}
	x.neighbors = neighbors{}
}

func (c *callSet) cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := c.last; x != nil; x = x.before {
		x.Cancel(cause)
	}
}
