package connector

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// noteAnswer tells the breaker, and the sessions whose connection or lists have failed, that the server is alive.
func (c *Connector) noteAnswer() {
	if c.isDegraded() {
		protocol.Poke(c.signals.reached)
	}
	c.retryCatalogSession()
	if c.breaker.answered() {
		c.moving.Store(false)
		c.logBreakerClosed()
	}
}

// errMoving ends a conversation at an address whose calls fail.
var errMoving = errors.New("calls fail at this address of the server")

// moveAway has the conversation ended if its server has another address that may work, as
// soon as no call is in flight.
func (c *Connector) moveAway() {
	conn := c.current()
	if conn == nil {
		return
	}
	if address := conn.Traits().Address; address != nil && address.Fails() {
		c.moving.Store(true)
		protocol.Poke(c.usage.changed)
	}
}

// noteAddress notes the address of a new conversation, and reports whether it is another
// one.
func (c *Connector) noteAddress(conn protocol.Conn) (moved bool) {
	c.moving.Store(false)
	address := conn.Traits().Address
	if address == nil {
		return false
	}
	moved = address.N != c.address
	c.address = address.N
	return moved
}

// noteFailure tells the breaker that a call failed with err, for which reason is the text
// for the client.
func (c *Connector) noteFailure(a admission, g *callGuard, cl *call.Call, err error, reason string) {
	f := failedCall{how: failureOf(g, err), reason: reason}
	if f.how == notFailed {
		c.breaker.skipped(a)
		return
	}
	f.item, f.principal, f.detail = itemOf(cl), cl.Principal.Identity(), c.detail(err, reason, cl.ID)
	a.works = g.serverWorks
	switch c.breaker.failed(a, &f, time.Now()) {
	case opened:
		c.breakerOpened(zap.WarnLevel, &f)
	case reopened:
		c.breakerOpened(zap.DebugLevel, &f)
	case closed:
		c.logBreakerClosed()
	case needsPing:
		c.tasks.Start(func(ctx context.Context) {
			works, conn := false, c.current()
			if conn != nil {
				works, _ = c.ping(ctx, conn) // a failure is the reason of the last call
			}
			if c.breaker.pinged(works, time.Now()) {
				c.breakerOpened(zap.WarnLevel, &f)
			}
		})
	}
}

// failureOf classifies the error of a call. Errors of the caller, of its credentials and of
// the gateway itself say nothing about the server; neither does a server that asks for a
// pause, or one whose call took too long although it sent progress.
func failureOf(g *callGuard, err error) failure {
	f, ok := errors.AsType[*protocol.CallError](err)
	if !ok {
		if context.Cause(&g.Scope) == errSilent {
			return timedOut
		}
		return notFailed
	}
	h, isHTTP := errors.AsType[diagnose.HTTPError](f.Cause)
	switch {
	case f.Unauthenticated, f.TooLarge, f.NotSent && f.RetryAfter > 0, f.Reason == ReasonEnded:
		return notFailed
	case isHTTP && h.StatusCode() >= 400 && h.StatusCode() <= 499:
		return notFailed
	case f.NotSent:
		return unreached
	case f.ConversationClosed, f.MayHaveExecuted:
		return lost
	default:
		return broken
	}
}

// itemOf returns the name of what a call uses, to tell one slow tool from a server that
// hangs.
func itemOf(cl *call.Call) string {
	m := wire.MethodOf(cl.Method)
	return cl.Method + " " + wire.ValueOf(cl.Params).Get(m.Member).Str()
}

// ping asks the server whether it is there. works says that it answers as an MCP server
// does; a server that answers HTTP 500, a web page or garbage may serve calls all the same.
// The error is a *protocol.CallError that says that the server is not there, or that of
// ctx.
func (c *Connector) ping(ctx context.Context, conn protocol.Conn) (works bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, min(protocol.ProbeTime, c.o.Limits.Timeout))
	defer cancel()
	err = conn.Ping(bounded)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil && context.Cause(ctx) != errSilent:
		return false, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return false, &protocol.CallError{Reason: "the server did not answer a ping", NotSent: true, Cause: err}
	}
	f, ok := errors.AsType[*protocol.CallError](err)
	status := 0
	if h, isHTTP := errors.AsType[diagnose.HTTPError](err); isHTTP {
		status = h.StatusCode()
	}
	switch {
	case ok && f.Unauthenticated, status >= 400 && status <= 499:
		return true, nil // the call will show
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout, !ok, f.NotSent, f.ConnectionLost:
		return false, &protocol.CallError{Reason: "the server did not answer a ping: " + ReasonFor(err), NotSent: true, Cause: err}
	default:
		return false, nil
	}
}

// breakerOpened logs that the breaker is open since a call failed, and leaves the address of the server.
func (c *Connector) breakerOpened(level zapcore.Level, last *failedCall) {
	defer c.moveAway()
	limits := c.breaker.health.settings()
	c.o.Logger.Log(level, "the circuit breaker is open: calls fail at once", zap.Int("failures", limits.Failures), zap.Duration("for", limits.Open),
		zap.String("last_error", cmp.Or(last.detail, c.o.reason(last.reason))))
}

func (c *Connector) logBreakerClosed() {
	c.o.Logger.Info("the circuit breaker is closed: calls are sent again")
}
