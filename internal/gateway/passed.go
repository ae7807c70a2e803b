package gateway

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/replica"
	"mcpgateway/internal/replica/remote"
	"mcpgateway/internal/wire"
)

// kindRetry is the kind of retries of calls that another replica has parked.
const kindRetry = "retry"

// handlePassed takes the calls that other replicas pass to this one.
func (g *Gateway) handlePassed() {
	remote.Handle(g.sharing.replicas, kindRetry, func(ctx context.Context, _ string, c *call.Call) (call.Result, error) {
		return g.front.ResumePassed(ctx, c)
	})
	g.sharing.held.Serve(g.router.Routes, g.subscriptions, func() (leave func()) { return g.epochs.enter().leave })
}

// drainPassed waits until calls that other replicas have passed to this one have ended, or ctx has.
func (g *Gateway) drainPassed(ctx context.Context) {
	if g.sharing != nil {
		g.sharing.replicas.Drain(ctx)
	}
}

// giveUpSessions leaves sessions with upstreams to other replicas when no call runs in them here, until ctx ends.
func (g *Gateway) giveUpSessions(ctx context.Context) {
	if g.sharing != nil {
		g.sharing.held.GiveUp(ctx)
	}
}

// errHolderEnded answers a retry whose call waited at a replica that has ended, so that the server has not got the answers.
var errHolderEnded = wire.Errorf(wire.CodeInternal, "the replica that ran this call has ended; call again").
	WithData(wire.Raw(`{"reason":"the replica that ran this call has ended","retryable":true}`))

// errHolderLost answers a retry that may have reached the replica of its call before that ended, or the store was away for long. The server may have got the answers, and done what the
// call asks for.
var errHolderLost = wire.Errorf(wire.CodeInternal, "the replica that ran this call has ended or cannot be reached, and nobody knows how far the call came: call again if it may run twice").
	WithData(wire.Raw(`{"reason":"the replica that ran this call has ended or cannot be reached; the server may have run it","retryable":false}`))

// errHolderAway answers a retry that cannot be passed on now. Its state can still be used.
var errHolderAway = wire.Errorf(wire.CodeInternal, "the replica that runs this call cannot be reached; send the same request again").
	WithData(wire.Raw(`{"reason":"the replica that runs this call cannot be reached","retryable":true,"retryAfter":1}`))

// passRetry passes a retry to the replica that holds its parked call.
func (g *Gateway) passRetry(ctx context.Context, to string, c *call.Call) (call.Result, error) {
	res, err := remote.Do(ctx, g.sharing.replicas, to, kindRetry, "", c)
	switch {
	case err == nil, errors.As(err, new(*wire.Error)):
		return res, err
	case ctx.Err() != nil:
		return call.Result{}, ctx.Err()
	}
	g.ratelog.Warn("a retry could not be passed to the replica that holds its call", zap.String("request", c.ID), zap.String("principal", c.Principal.Subject),
		ratelog.Profile(c.Principal.Profile), zap.String("replica", to), zap.Error(err))
	switch {
	case errors.Is(err, replica.ErrGone), errors.Is(err, replica.ErrEnding): // parked calls end when the drain begins
		return call.Result{}, errHolderEnded
	case remote.Begun(err):
		return call.Result{}, errHolderLost
	}
	return call.Result{}, errHolderAway
}
