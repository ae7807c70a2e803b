package frontend

import (
	"bytes"
	"errors"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/wire"
)

// What clients learn of a requestState that cannot be used.
var (
	errState = wire.Errorf(wire.CodeInvalidParams,
		"invalid requestState: it was not issued for this request, or has expired; send the request again without it")
	errUsed = wire.Errorf(wire.CodeInvalidParams,
		"invalid requestState: it was already used, or its call has ended; send the request again without it")
)

// Why the log says that a state was refused, beside the reasons of bridge.
var (
	errElsewhere = errors.New("the call is parked at another replica")
	errNoCall    = errors.New("there is no such call: it has ended, or its result was given out")
	errOldRound  = errors.New("the request state was already used")
)

// parkedState returns the requestState of a retry for a parked call, "" for
// every other request.
func (x *exchange) parkedState() string {
	if !wire.MethodOf(x.call.Method).Rounds {
		return ""
	}
	state := wire.ValueOf(x.call.Params).Get("requestState").Str()
	if bridge.KindOf(state) != bridge.Parked {
		return ""
	}
	return state
}

// resume takes the answers of a retry to the call that waits for them, and
// waits for its result or its next questions. The retry is a request of its
// own: whoever made it must be allowed to make it now.
func (x *exchange) resume(sealed string) answer {
	st, err := x.s.options.Sealer.Open(sealed, bridge.BindingOf(&x.call), time.Now())
	switch {
	case err != nil:
		return x.refuseState(err, errState)
	case st.Holder != x.s.options.Replica:
		return x.refuseState(errElsewhere, errState)
	}
	if fault := x.s.options.Permit(&x.call); fault != nil {
		return answer{fault: fault}
	}
	k := x.s.parked.get(st.Text)
	if k == nil {
		return x.refuseState(errNoCall, errUsed)
	}
	w := newWaiter(x)
	fault, reason := k.rejoin(w, st.Round, wire.ValueOf(x.call.Params).Get("inputResponses"))
	switch {
	case reason != nil:
		return x.refuseState(reason, errUsed)
	case fault != nil:
		return answer{fault: fault}
	}
	return k.wait(w)
}

// refuseState tells the log why, and the client only that.
func (x *exchange) refuseState(reason error, fault *wire.Error) answer {
	x.s.ratelog.Warn("request state refused", zap.String("request", x.call.ID), zap.String("principal", x.call.Principal.Subject),
		zap.String("method", x.call.Method), zap.NamedError("reason", reason))
	return answer{fault: fault}
}

// rejoin makes w wait for the call again. Answers go to the questions of the
// round; what was not asked is ignored, and what was asked and has no answer is
// asked again under the same key. A second request with the state of a round
// whose call is running waits for the same answer.
//
// The reason says why the state cannot be used; the fault what is wrong with
// the answers, and then the state is still good.
func (k *parkable) rejoin(w *waiter, round uint32, responses wire.Value) (fault *wire.Error, reason error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.over:
		return nil, errNoCall
	case round != k.round:
		return nil, errOldRound
	case !k.parked:
		k.waiters = append(k.waiters, w)
		return nil, nil
	}
	if fault := k.checkAnswers(responses); fault != nil {
		return fault, nil
	}
	k.unpark()
	k.client, k.waiters = w.x.call.Client, append(k.waiters, w)
	left := k.open[:0:0]
	for _, q := range k.open {
		if a := responses.Get(q.key); a.Exists() {
			q.answer <- bytes.Clone(a.Raw())
		} else {
			left = append(left, q)
		}
	}
	k.open = left
	switch {
	case k.ended:
		k.deliver(k.final)
		k.close()
	case len(left) > 0:
		k.park()
	}
	return nil, nil
}

// checkAnswers reports what is wrong with the answers to open questions. The
// caller holds mu.
func (k *parkable) checkAnswers(responses wire.Value) *wire.Error {
	if responses.Exists() && responses.Kind() != '{' {
		return wire.Errorf(wire.CodeInvalidParams, "invalid params: inputResponses must be an object with an answer for each key of inputRequests")
	}
	for _, q := range k.open {
		if a := responses.Get(q.key); a.Exists() {
			if fault := bridge.CheckAnswer(q.method, a); fault != nil {
				return wire.Errorf(fault.Code, "invalid params: inputResponses.%s: %s", q.key, fault.Message)
			}
		}
	}
	return nil
}
