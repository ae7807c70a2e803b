package router

import (
	"context"
	"errors"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// send sends the call to its upstream and keeps what comes back as the result, once
// rounds and tasks that the client cannot take part in are over.
func (f *forwarding) send(ctx context.Context) (bool, error) {
	session, err := f.upstream.Session(ctx, f.call)
	if err != nil {
		if f.usesItem() {
			err = f.maskNotFound(err)
		}
		return false, err
	}
	f.down.Session, f.down.Back = session, f.openBackChannel(session)
	f.sent = true
	if f.call.Method == wire.MethodToolsCall {
		f.result, err = f.callTool(ctx, f.down)
	} else {
		f.result, err = f.exchange(ctx, f.down)
	}
	return false, err
}

// exchange sends a request once and concludes what comes back.
func (f *forwarding) exchange(ctx context.Context, down *call.Call) (call.Result, error) {
	res, err := f.upstream.Do(ctx, down)
	f.router.metrics.countBridged(f.call.Client.Era(), res.Revision.Era())
	return f.conclude(ctx, down, res, err)
}

// conclude turns the answer of the upstream into one for the client. If the client takes no rounds,
// conclude asks the questions in a result; otherwise it seals and labels them.
func (f *forwarding) conclude(ctx context.Context, down *call.Call, res call.Result, err error) (call.Result, error) {
	rpc, failed := errors.AsType[*wire.Error](err)
	if required := failed && rpc.Code == wire.CodeURLElicitation; required || errors.As(err, new(*call.GrantRequired)) {
		f.log.decided, f.log.reason = outcomeURLRequired, f.router.reasonOf(outcomeURLRequired, f.call, &f.log, err)
		if required {
			return f.urlRequired(rpc)
		}
	}
	switch {
	case err != nil || res.Complete || res.Revision.Era() != wire.EraModern || !bridge.IsInputRequired(res.Value()):
		return res, err
	case !f.method.Rounds:
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream asked for input in answer to %s, where it may not", f.call.Method)
	case !f.call.TakesRounds:
		return bridge.AnswerRounds(ctx, down, res, func(ctx context.Context, down *call.Call) (call.Result, error) {
			res, err := f.upstream.Do(ctx, down)
			if err != nil { // it may require URLs, as the first answer may
				return f.conclude(ctx, down, res, err)
			}
			return res, nil
		})
	}
	if res.Raw, err = f.relay(res.Raw); err != nil {
		return call.Result{}, err
	}
	return res, nil
}
