package held

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/call"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/replica"
	"mcpgateway/internal/replica/remote"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

// heldAttempts bounds how often the holder of a session is looked for in one call.
const heldAttempts = 4

// The looks at a session whose holder ends, and what the client is told if it still has the session afterwards, because a call runs in it.
const (
	lookups      = 10
	lookupGap    = 100 * time.Millisecond
	reasonEnding = "the replica that holds the session shuts down, and a call still runs in the session"
	retryEnding  = time.Second
)

// heldUpstream is an upstream among several replicas. A session that belongs to one client or principal is
// held by one replica, to which the others pass its calls.
type heldUpstream struct {
	router.Upstream // as it is without other replicas
	h               *Holder
	name            string
	sessions        *upstream.Sessions
}

// heldGranter is a heldUpstream that principals have to grant access to.
type heldGranter struct {
	*heldUpstream
	router.Granter
}

// Upstream returns an upstream whose sessions may be held by other replicas. local is the upstream as it
// is without them.
func (h *Holder) Upstream(name string, sessions *upstream.Sessions, local router.Upstream) router.Upstream {
	u := h.upstream(name, sessions, local)
	if granter, ok := local.(router.Granter); ok {
		return heldGranter{u, granter}
	}
	return u
}

func (h *Holder) upstream(name string, sessions *upstream.Sessions, local router.Upstream) *heldUpstream {
	return &heldUpstream{Upstream: local, h: h, name: name, sessions: sessions}
}

// Session implements [router.Upstream]. The name of a session is the same at all replicas.
func (u *heldUpstream) Session(ctx context.Context, c *call.Call) (string, error) {
	name, err := u.sessions.Held(ctx, c)
	if err != nil {
		return "", err
	}
	if name != "" {
		holder, err := u.holder(ctx, name)
		if err == nil && holder != u.h.Name {
			return name, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	return u.Upstream.Session(ctx, c)
}

// Reconnect implements [router.Reconnecter]. Each replica gathers the lists itself.
func (u *heldUpstream) Reconnect(ctx context.Context, c *call.Call) error {
	return u.sessions.Reconnect(ctx, c)
}

// EndLeft ends a session that another replica has left open.
func (u *heldUpstream) EndLeft(ctx context.Context, s httpconn.OpenSession) error {
	return u.sessions.EndLeft(ctx, s)
}

// lease names the lease of a session.
func (u *heldUpstream) lease(session string) string { return u.name + "\x00" + session }

func (u *heldUpstream) isOpen(session string) func() bool {
	return func() bool { return u.sessions.IsOpen(session) }
}

func (u *heldUpstream) holder(ctx context.Context, session string) (string, error) {
	return u.h.leases.Holder(ctx, u.lease(session), u.isOpen(session))
}

// Do implements [router.Upstream]. While the store does not answer, this replica uses its own session.
func (u *heldUpstream) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	if !upstream.IsHeld(c.Session) {
		return u.Upstream.Do(ctx, c)
	}
	holder, err := u.holder(ctx, c.Session)
	if err == nil && holder != u.h.Name {
		res, forwarded, err := u.forward(ctx, holder, c)
		if forwarded {
			return res, err
		}
		c.Trace.Unforward()
	}
	if ctx.Err() != nil {
		return call.Result{}, ctx.Err()
	}
	return u.Upstream.Do(ctx, c)
}

// forward passes a call to the replica that holds its session, and to the next holder if that replica does not hold it any more. If the call was not
// forwarded, this replica is the holder by now or the store does not answer, and it has to make the call.
func (u *heldUpstream) forward(ctx context.Context, holder string, c *call.Call) (res call.Result, forwarded bool, err error) {
	timer := c.Trace.Start(ctx, call.StageReplica, call.SpanStart{Upstream: u.name})
	defer func() { timer.End(err) }()
	ctx = call.ContextWithSpan(ctx, timer.Span)
	for range heldAttempts {
		res, err = u.pass(ctx, holder, kindUpstream, c, &timer)
		switch {
		case err == nil, errors.As(err, new(*wire.Error)):
			return res, true, err
		case ctx.Err() != nil:
			return call.Result{}, true, ctx.Err()
		case errors.Is(err, remote.ErrNotHeld):
			u.h.leases.Forget(u.lease(c.Session), holder)
			holder, err = u.holder(ctx, c.Session)
		case errors.Is(err, replica.ErrGone):
			holder, err = u.takeOver(ctx, c, holder)
		case errors.Is(err, replica.ErrEnding):
			holder, err = u.nextHolder(ctx, c.Session, holder)
			if errors.As(err, new(*wire.Error)) {
				return call.Result{}, true, err
			}
		case remote.Begun(err):
			return call.Result{}, true, u.sessions.Failure("the replica that holds the session has ended or cannot be reached; the server may have run the call", false)
		case errors.Is(err, replica.ErrRefused), errors.Is(err, replica.ErrTooLong):
			return call.Result{}, true, u.sessions.Failure("the replica that holds the session has refused the call", true)
		}
		switch {
		case ctx.Err() != nil:
			return call.Result{}, true, ctx.Err()
		case err != nil, holder == u.h.Name:
			return call.Result{}, false, nil
		}
	}
	return call.Result{}, true, u.sessions.Failure("the session moves from replica to replica", true)
}

// pass passes a call to a replica, whose name the line of the call has. The server gets the trace context of the stage.
func (u *heldUpstream) pass(ctx context.Context, to, kind string, c *call.Call, stage *call.Timer) (call.Result, error) {
	c.Trace.Forward(to)
	return remote.Do(ctx, u.h.Replicas, to, kind, u.name, protocol.Traced(c, stage))
}

// DoTask implements [router.TaskHolder]. A task of a session that this replica has too may live in that of
// another one: in its process, or in its session of a legacy server. The other replica is asked while it
// lives; afterwards the server is asked here, in case it knows the tasks of all its sessions.
func (u *heldUpstream) DoTask(ctx context.Context, holder string, c *call.Call) (call.Result, error) {
	switch {
	case u.sessions.Stateless(c):
		return u.Upstream.Do(ctx, c)
	case upstream.IsHeld(c.Session):
		return u.Do(ctx, c)
	case holder == u.h.Name:
		return u.Upstream.Do(ctx, c)
	}
	timer := c.Trace.Start(ctx, call.StageReplica, call.SpanStart{Upstream: u.name})
	res, err := u.pass(call.ContextWithSpan(ctx, timer.Span), holder, kindTask, c, &timer)
	timer.End(err)
	switch {
	case err == nil, errors.As(err, new(*wire.Error)):
		return res, err
	case ctx.Err() != nil:
		return call.Result{}, ctx.Err()
	case errors.Is(err, replica.ErrGone), errors.Is(err, remote.ErrNotHeld):
		c.Trace.Unforward()
		return u.Upstream.Do(ctx, c)
	case errors.Is(err, replica.ErrEnding):
		return call.Result{}, u.sessions.RetryLater("the replica that holds the task shuts down", retryEnding)
	case errors.Is(err, replica.ErrRefused), errors.Is(err, replica.ErrTooLong):
		return call.Result{}, u.sessions.Failure("the replica that holds the task has refused the request", true)
	case remote.Begun(err) && wire.MethodOf(c.Method).Shape != wire.ShapeToolResult && c.Method != wire.MethodTasksGet:
		return call.Result{}, u.sessions.Failure("the replica that holds the task has ended or cannot be reached; the server may have got the request", false)
	}
	res, err = u.Upstream.Do(ctx, c)
	if !router.IsUnknownTask(err) || !slices.Contains(u.h.Replicas.Others(), holder) {
		c.Trace.Unforward()
		return res, err
	}
	return call.Result{}, u.sessions.Failure("the replica that holds the task cannot be reached", true)
}

// doTask makes a request about a task that began at this replica.
func (h *Holder) doTask(ctx context.Context, name string, c *call.Call) (call.Result, error) {
	defer h.enter()()
	u := h.byName(name)
	if u == nil {
		return call.Result{}, remote.ErrNotHeld
	}
	return u.doFor(ctx, c)
}

// byName returns the upstream with this name as it is among several replicas, nil for none.
func (h *Holder) byName(name string) *heldUpstream {
	switch u := h.routes().Upstreams[name].(type) {
	case *heldUpstream:
		return u
	case heldGranter:
		return u.heldUpstream
	}
	return nil
}

// takeOver makes a replica the holder of a session whose holder has ended.
func (u *heldUpstream) takeOver(ctx context.Context, c *call.Call, dead string) (string, error) {
	holder, err := u.h.leases.TakeOver(ctx, u.lease(c.Session), dead, u.isOpen(c.Session))
	if err == nil && holder == u.h.Name {
		u.h.Logger.Warn("the replica that held a session with an upstream has ended", zap.String("upstream", u.name), zap.String("session", c.Session),
			zap.String("replica", dead), zap.String("request", c.ID))
	}
	return holder, err
}

// nextHolder waits for a moment until a replica that ends has given up a session, and returns the new holder. The error is a *wire.Error if the
// replica still has the session.
func (u *heldUpstream) nextHolder(ctx context.Context, session, ending string) (string, error) {
	for range lookups {
		u.h.leases.Forget(u.lease(session), ending)
		if holder, err := u.holder(ctx, session); err != nil || holder != ending {
			return holder, err
		}
		select {
		case <-time.After(lookupGap):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", u.sessions.RetryLater(reasonEnding, retryEnding)
}

// do makes a call that another replica has passed on, in a session that this one holds.
func (h *Holder) do(ctx context.Context, name string, c *call.Call) (call.Result, error) {
	defer h.enter()()
	u := h.byName(name)
	if u == nil || !h.leases.Holds(u.lease(c.Session)) {
		return call.Result{}, remote.ErrNotHeld
	}
	return u.doFor(ctx, c)
}

// doFor makes a call for another replica, which gets the times of its stages and has its line in the log.
func (u *heldUpstream) doFor(ctx context.Context, c *call.Call) (call.Result, error) {
	began := time.Now()
	c.Trace = new(call.Trace)
	c.Trace.Begin(time.Now, nil)
	res, err := u.Upstream.Do(ctx, c)
	trace := zap.Skip()
	if id := c.TraceContext.TraceID(); id != "" {
		trace = zap.String("trace_id", id)
	}
	u.h.Logger.Log(zapcore.DebugLevel, "call for another replica", zap.String("request", c.ID), zap.String("principal", c.Principal.Subject),
		ratelog.Profile(c.Principal.Profile), zap.String("method", c.Method), zap.String("upstream", u.name), zap.Bool("failed", err != nil),
		trace, zap.Float64("duration_ms", float64(time.Since(began).Microseconds())/1000))
	return res, err
}
