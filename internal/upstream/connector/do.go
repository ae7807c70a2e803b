package connector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Do sends a call, with native names and URIs, to the server and returns its answer. It
// waits for a free slot, and for a conversation if an attempt to open one runs or is
// due, all within the timeout of the call. While the circuit breaker of the session is
// open, the call fails immediately, see [breaker].
//
// The error is a *wire.Error or that of ctx. The *wire.Error is the unchanged error of
// the server, or one with CodeInternal whose data says what went wrong. Nothing uses the
// back channel of the call after Do has returned.
//
// A call is sent a second time only if the server certainly did not begin it and does
// not ask for a pause, or if the connection to a remote server broke under a tool that
// the server says may be called again. A call that a child process was executing when it
// ended is never sent again, because it may have been the reason; neither is a large one,
// nor one that the gateway has ended with the connector.
func (c *Connector) Do(ctx context.Context, cl *call.Call) (call.Result, error) {
	return c.do(ctx, cl, c.send)
}

// do guards a call: the breaker admits it and learns how it ended, and its clocks run. send
// sends it.
func (c *Connector) do(ctx context.Context, cl *call.Call, send sendFunc) (call.Result, error) {
	began := time.Now()
	admitted, refused := c.breaker.admit(began)
	if refused != nil {
		failure := c.Failure(refused.reason, refused.since, true, refused.retry)
		failure.Detail = refused.detail
		return call.Result{}, failure
	}
	c.running.Add(1)
	defer c.running.Add(-1)
	g := newCallGuard(ctx, cl, c.o.Limits.Timeout, c.o.Limits.MaxDuration)
	defer g.close()
	g.c, g.trial = c, admitted.trial
	own := *cl
	own.Back = g
	defer c.o.Session.AddCall(&own)()
	c.beginUse()
	defer c.endUse()

	result, err := send(g, &own, admitted.trial)
	if err == nil {
		c.observeTasks(cl, result)
		c.noteAnswer()
		return result, nil
	}
	if ctx.Err() != nil {
		c.breaker.skipped(admitted)
		return call.Result{}, ctx.Err()
	}
	if refusal, ok := err.(*wire.Error); ok { // not one that is the cause of a fault
		c.noteAnswer()
		return call.Result{}, refusal
	}
	reason, retryable := c.explain(g, err)
	c.noteFailure(admitted, g, cl, err, reason)
	if context.Cause(&g.Scope) == errSilent {
		c.probe(protocol.CallTimedOut)
	}
	if f, ok := errors.AsType[*protocol.CallError](err); !ok || !f.MayHaveExecuted && !f.Unauthenticated && !f.TooLarge {
		retryable = retryable || c.mayRepeat(cl)
	}
	c.o.Logger.Debug("call failed", zap.String("request", cl.ID), zap.String("method", cl.Method), c.o.why(err))
	since := began
	if s := c.Snapshot(); s.State != Ready {
		since = s.Since
	}
	return call.Result{}, c.FailureOf(err, reason, since, retryable, cl.ID)
}

// explain returns the reason for the client, and whether the server certainly did not
// begin the call.
func (c *Connector) explain(g *callGuard, err error) (reason string, unsent bool) {
	if f, ok := errors.AsType[*protocol.CallError](err); ok {
		return f.Reason, f.NotSent && (!f.Unauthenticated || f.Temporary)
	}
	switch cause := context.Cause(&g.Scope); cause {
	case errSilent:
		return g.silence(), false
	case errMaxDuration:
		return fmt.Sprintf("the call took longer than %s", c.o.Limits.MaxDuration), false
	default:
		return "the call failed", false
	}
}

// sendFunc sends a call, whose clocks are those of g, and returns the answer.
type sendFunc func(g *callGuard, cl *call.Call, trial bool) (call.Result, error)

// send acquires a slot and sends the call, at most twice. It tries for StartupWait while
// the server cannot be reached. A trial is sent only if the server answers a ping before.
func (c *Connector) send(g *callGuard, cl *call.Call, trial bool) (call.Result, error) {
	ctx := context.Context(&g.Scope)
	if c.single != nil && needsTurn(cl.Method) {
		if err := c.acquireSlot(g, c.single, cl); err != nil {
			return call.Result{}, err
		}
		defer c.single.release()
	}
	if err := c.acquireSlot(g, c.slots, cl); err != nil {
		return call.Result{}, err
	}
	g.holdSlot(c.slots)
	inflight := *c.inflight.Load()
	inflight.Inc()
	defer inflight.Dec()

	conn, err := c.awaitFor(ctx, g, cl, nil)
	if err != nil {
		return call.Result{}, err
	}
	if trial {
		timer := c.startConnect(ctx, cl)
		g.serverWorks, err = c.ping(ctx, conn)
		timer.End(err)
		if err != nil {
			return call.Result{}, err
		}
	}
	c.applyLogLevel(ctx, cl)
	result, err := c.attempt(ctx, g, conn, cl)
	f, ok := errors.AsType[*protocol.CallError](err)
	if ok && f.ConnectionLost && c.isEnding() {
		return result, &protocol.CallError{Reason: ReasonEnded, NotSent: f.NotSent, Cause: err}
	}
	if !ok || f.Unauthenticated || f.RetryAfter > 0 || !(f.NotSent || (f.ConnectionLost && !f.MayHaveExecuted && c.mayRepeat(cl))) {
		return result, err
	}
	c.o.Metrics.resends.WithLabelValues(c.o.Name).Inc()
	c.o.Logger.Info("a call is sent again", zap.String("method", cl.Method), zap.String("request", cl.ID),
		zap.Bool("delivered", !f.NotSent), zap.String("reason", f.Reason))
	first := f
	for began := time.Now(); ; {
		if conn, err = c.awaitRetry(ctx, g, cl, conn, f); err != nil {
			return call.Result{}, ofDelivered(first, err)
		}
		result, err = c.attempt(ctx, g, conn, cl)
		f, ok = errors.AsType[*protocol.CallError](err)
		if unreached := ok && f.NotSent && f.ConnectionLost; !unreached || time.Since(began) >= c.o.Limits.StartupWait {
			return result, ofDelivered(first, err)
		}
	}
}

// ofDelivered returns the error of a call that failed first with first, and with err when it was sent again. If only the
// first attempt reached the server, the error is that of the first: the server may have executed the call.
func ofDelivered(first *protocol.CallError, err error) error {
	again, ok := errors.AsType[*protocol.CallError](err)
	if first.NotSent || !ok || !again.NotSent || again.Unauthenticated && !again.Temporary {
		return err
	}
	return &protocol.CallError{Reason: first.Reason, ConnectionLost: true, ConversationClosed: first.ConversationClosed, RetryAfter: again.RetryAfter, Cause: err}
}

// awaitRetry returns the conversation for a call that failed with f in the conversation
// past: another one if past has ended. Otherwise past is checking its connection.
func (c *Connector) awaitRetry(ctx context.Context, g *callGuard, cl *call.Call, past protocol.Conn, f *protocol.CallError) (protocol.Conn, error) {
	switch {
	case f.ConversationClosed:
		return c.awaitFor(ctx, g, cl, past)
	case !f.ConnectionLost:
		return c.awaitFor(ctx, g, cl, nil)
	}
	defer g.connected(time.Now())
	timer := c.startConnect(ctx, cl)
	var conn protocol.Conn
	err := protocol.Sleep(ctx, protocol.AttemptGap)
	if err == nil {
		conn, err = c.await(ctx, nil)
	}
	timer.End(err)
	return conn, err
}

// attempt sends a call once. The server gets the trace context of the attempt.
func (c *Connector) attempt(ctx context.Context, g *callGuard, conn protocol.Conn, cl *call.Call) (call.Result, error) {
	timer := cl.Trace.Start(ctx, call.StageUpstream, c.spanStart(cl))
	if timer.Span != nil {
		g.setSpan(timer.Span)
	}
	result, err := c.draft.call(ctx, conn, protocol.Traced(cl, &timer))
	timer.EndWith(call.SpanEnd{Err: err, Revision: result.Revision})
	return result, err
}

// spanStart returns what spans of a call say about it.
func (c *Connector) spanStart(cl *call.Call) call.SpanStart {
	about := call.SpanStart{Method: cl.Method, Upstream: c.o.Name, Peer: c.o.Peer}
	if m := wire.MethodOf(cl.Method); cl.Trace.Span() != nil && m.Kind == wire.KindCall && m.Member == "name" { // a URI may be an argument
		about.Item = wire.ValueOf(cl.Params).Get(m.Member).Str()
	}
	return about
}

// awaitFor is await for a call, whose wait for a connection is measured. g is nil before the clocks of the call run.
func (c *Connector) awaitFor(ctx context.Context, g *callGuard, cl *call.Call, past protocol.Conn) (protocol.Conn, error) {
	if found := c.current(); found != nil && found != past {
		return found, nil
	}
	if g != nil {
		defer g.connected(time.Now())
	}
	timer := c.startConnect(ctx, cl)
	conn, err := c.await(ctx, past)
	timer.End(err)
	return conn, err
}

// startConnect starts the stage in which a call waits for its connection.
func (c *Connector) startConnect(ctx context.Context, cl *call.Call) call.Timer {
	return cl.Trace.Start(ctx, call.StageConnect, call.SpanStart{Upstream: c.o.Name})
}

// needsTurn reports whether a request waits for its turn where calls take turns.
// Requests about a task that already runs do not: what the server asks for a task
// names the task, and a request that waits for the result of one must not keep others
// from asking how it is.
func needsTurn(method string) bool { return wire.MethodOf(method).Kind != wire.KindTask }

// acquireSlot acquires a slot for a call, see [fairLimiter.acquire].
func (c *Connector) acquireSlot(g *callGuard, p *fairLimiter, cl *call.Call) error {
	if p.tryAcquire() {
		return nil
	}
	ctx := context.Context(&g.Scope)
	defer g.queued(p, time.Now())
	timer := cl.Trace.Start(ctx, call.StageSlot, call.SpanStart{Upstream: c.o.Name})
	err := p.acquire(ctx, cl.ShareKey)
	timer.End(err)
	if err != nil && ctx.Err() != nil {
		return c.expired(ctx, p)
	}
	return err
}

// expired is the error of a call whose time ran out before it was sent.
func (c *Connector) expired(ctx context.Context, p *fairLimiter) error {
	if context.Cause(ctx) == errSilent {
		if p == c.single {
			return &protocol.CallError{Reason: fmt.Sprintf("overloaded: the server gets one call at a time, and those before this one took longer than %s", c.o.Limits.Timeout), NotSent: true, RetryAfter: protocol.RetryOverloaded}
		}
		return &protocol.CallError{Reason: fmt.Sprintf("overloaded: no slot was free within %s", c.o.Limits.Timeout), NotSent: true, RetryAfter: protocol.RetryOverloaded}
	}
	return ctx.Err()
}

// Await returns the present conversation. If there is none it asks for an attempt and
// waits for the outcome, at most StartupWait; the wait counts as one of cl for its connection.
// The error is a [protocol.CallError] or that of ctx.
func (c *Connector) Await(ctx context.Context, cl *call.Call) (protocol.Conn, error) {
	c.beginUse()
	defer c.endUse()
	return c.awaitFor(ctx, nil, cl, nil)
}

// await returns the conversation, unless it is past, which the caller knows to have
// ended. If there is none it asks for an attempt and waits for the outcome, at most
// StartupWait. While the server asks for a pause it fails immediately. The caller has
// begun a use.
func (c *Connector) await(ctx context.Context, past protocol.Conn) (protocol.Conn, error) {
	if found := c.current(); found != nil && found != past {
		return found, nil
	}
	var found protocol.Conn
	var changed chan struct{}
	var ended bool
	var failures int
	var retryAt time.Time
	look := func() {
		c.view(func(s *state) {
			found, changed, ended, failures, retryAt = s.conn, c.changed, s.ended, s.failures, s.retryAt
		})
	}
	look()
	timer := time.NewTimer(c.o.Limits.StartupWait)
	defer timer.Stop()
	for since := failures; ; {
		switch {
		case ended:
			return nil, &protocol.CallError{Reason: ReasonEnded, NotSent: true}
		case found != nil && found != past:
			return found, nil
		case failures > since, time.Now().Before(retryAt):
			return nil, c.unavailable(protocol.ReasonConnectionLost)
		}
		protocol.Poke(c.signals.attempt)
		select {
		case <-changed:
		case <-timer.C:
			return nil, c.unavailable(fmt.Sprintf("the server is still starting after %s", c.o.Limits.StartupWait))
		case <-ctx.Done():
			return nil, c.expiredWaiting(ctx)
		}
		look()
	}
}

func (c *Connector) expiredWaiting(ctx context.Context) error {
	if context.Cause(ctx) == errSilent {
		return c.unavailable(fmt.Sprintf("the server is still starting after %s", c.o.Limits.Timeout))
	}
	return ctx.Err()
}

// mayRepeat reports whether a call can be repeated: the server marks the tool as
// read-only or idempotent, and the call is not so large that it may have broken the
// connection.
func (c *Connector) mayRepeat(cl *call.Call) bool {
	return len(cl.Params) <= protocol.LargeCall && cl.Method == wire.MethodToolsCall && c.tools.Load().repeatable[wire.ValueOf(cl.Params).Get("name").Str()]
}
