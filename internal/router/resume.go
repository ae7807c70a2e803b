package router

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// errState is all that a client learns of a requestState that is refused.
var errState = wire.Errorf(wire.CodeInvalidParams,
	"invalid requestState: it was not issued for this request, or has expired; send the request again without it")

// roundKinds are the kinds of states that belong to a round of a call, and not to a
// parked one.
var roundKinds = []bridge.StateKind{bridge.UpstreamState, bridge.NoUpstreamState, bridge.Resend, bridge.Consent}

// resume opens the request state with which a client sends a call again. A call
// without one begins from the start.
func (f *forwarding) resume(context.Context) (bool, error) {
	if !f.method.Rounds || !f.call.TakesRounds {
		return false, nil
	}
	sealed := wire.ValueOf(f.call.Params).Get("requestState")
	if !sealed.Exists() {
		return false, nil
	}
	st, err := f.router.sealer.Open(sealed.Str(), bridge.BindingOf(f.call), time.Now())
	if err == nil && (st.Recipient != f.upstreamName() || !slices.Contains(roundKinds, st.Kind)) {
		err = fmt.Errorf("%w: it is of kind %q for %q", bridge.ErrRequest, st.Kind, st.Recipient)
	}
	if err != nil {
		return false, f.refuseState(err, errState)
	}
	f.state = &st
	f.call.Trace.Continue(st.Trace)
	return false, nil
}

// refuseState logs why a state is refused, and returns the error for the caller, which says less.
func (f *forwarding) refuseState(reason error, answer *wire.Error) error {
	f.log.reason = plaintext.Line(reason.Error(), maxReason)
	f.router.ratelog.Warn("request state refused", zap.String("request", f.call.ID), zap.String("principal", f.call.Principal.Subject),
		ratelog.Profile(f.call.Principal.Profile),
		zap.String("upstream", f.upstreamName()), zap.String("method", f.call.Method), zap.NamedError("reason", reason))
	return answer
}
