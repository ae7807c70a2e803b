package park

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// Errors for clients that send a requestState which cannot be used.
var (
	errState = wire.Errorf(wire.CodeInvalidParams,
		"invalid requestState: it was not issued for this request, or has expired; send the request again without it")
	errUsed = wire.Errorf(wire.CodeInvalidParams,
		"invalid requestState: it was already used, or its call has ended; send the request again without it")
)

// Reasons in the log for which a state was refused, beside those of package bridge.
var (
	errElsewhere = errors.New("the call is parked at another replica")
	errNoCall    = errors.New("there is no such call: it has ended, or its result was given out")
	errOldRound  = errors.New("the request state was already used")
	errForbidden = errors.New("the call is not permitted any more, or not now")
)

// StateOf returns the requestState of a retry for a parked call, or "" for any other
// request.
func StateOf(c *call.Call) string {
	if !wire.MethodOf(c.Method).Rounds {
		return ""
	}
	state := wire.ValueOf(c.Params).Get("requestState").Str()
	if state == "" || bridge.KindOf(state) != bridge.Parked {
		return ""
	}
	return state
}

// Resume passes the answers of the retry r to the call that its state names, and
// returns the call's result or its next round. If the context of r ends first, Resume
// returns its error; any other error is a *wire.Error or that of the call's handler.
// The retry is a separate request, so it must be permitted now.
func (t *Table) Resume(r Request, state string) (call.Result, error) {
	c := r.Call()
	st, err := t.options.Sealer.Open(state, bridge.BindingOf(c), time.Now())
	switch {
	case err != nil:
		return t.refuse(c, err, errState)
	case st.Recipient != t.options.Replica && t.options.Pass == nil:
		return t.refuse(c, errElsewhere, errState)
	}
	continueTrace(c, st)
	if err := t.options.Permit(r.Context(), c); err != nil {
		if errors.As(err, new(*wire.Error)) {
			t.logRefused(c, errForbidden, zap.String("first_request", st.Request))
		}
		return call.Result{}, err
	}
	// The line of the call has the id of its first request.
	t.options.Logger.Info("a parked call is resumed", zap.String("request", c.ID), zap.String("first_request", st.Request),
		zap.String("principal", c.Principal.Subject), ratelog.Profile(c.Principal.Profile), zap.String("method", c.Method))
	if st.Recipient != t.options.Replica {
		return t.options.Pass(r.Context(), st.Recipient, c)
	}
	return t.resume(r, st)
}

// ResumePassed is Resume for a retry that another replica has permitted and passed on.
func (t *Table) ResumePassed(ctx context.Context, c *call.Call) (call.Result, error) {
	st, err := t.options.Sealer.Open(StateOf(c), bridge.BindingOf(c), time.Now())
	switch {
	case err != nil:
		return t.refuse(c, err, errState)
	case st.Recipient != t.options.Replica:
		return t.refuse(c, errElsewhere, errState)
	}
	return t.resume(&passed{c: c, ctx: ctx}, st)
}

// passed is the request of a retry that another replica has passed on.
type passed struct {
	c     *call.Call
	ctx   context.Context
	mu    sync.Mutex
	ended bool
}

func (p *passed) Call() *call.Call         { return p.c }
func (p *passed) Context() context.Context { return p.ctx }

func (p *passed) Notify(method string, params wire.Raw) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.c.Back.Notify(method, params)
	}
}

func (p *passed) EndNotify() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// resume passes the answers of a retry to its call, and waits.
func (t *Table) resume(r Request, st bridge.State) (call.Result, error) {
	c := r.Call()
	k := t.get(st.Text)
	if k == nil {
		return t.refuse(c, errNoCall, errUsed)
	}
	w := newWaiter(r)
	invalid, reason := k.rejoin(w, st.Round, wire.ValueOf(c.Params).Get("inputResponses"))
	switch {
	case reason != nil:
		return t.refuse(c, reason, errUsed)
	case invalid != nil:
		return t.refuse(c, invalid, invalid)
	}
	return k.wait(w)
}

// refuse logs the reason, of which the client may learn less, and returns the error for
// the client.
func (t *Table) refuse(c *call.Call, reason error, err *wire.Error) (call.Result, error) {
	t.logRefused(c, reason)
	return call.Result{}, err
}

func (t *Table) logRefused(c *call.Call, reason error, fields ...zap.Field) {
	t.options.Logger.Warn("request state refused", append(fields, zap.String("request", c.ID), zap.String("principal", c.Principal.Subject),
		ratelog.Profile(c.Principal.Profile), zap.String("method", c.Method), zap.NamedError("reason", reason))...)
}

// rejoin makes w wait for the call. Its answers go to the asks of the round. An answer
// that was not asked for is ignored, and an ask without an answer is asked again under
// the same key. While the call runs, a second request with the state of the last round
// waits for the same answer.
//
// The reason says why the state cannot be used. If only the answers are invalid, the
// state can still be used.
func (k *parkable) rejoin(w *waiter, round uint32, responses wire.Value) (invalid *wire.Error, reason error) {
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
	if err := k.checkAnswers(responses); err != nil {
		return err, nil
	}
	k.linkPause(w.Call().Trace.Span())
	k.unpark()
	k.client, k.waiters = w.Call().Client, append(k.waiters, w)
	unanswered := k.open[:0:0]
	for _, q := range k.open {
		if a := responses.Get(q.key); a.Exists() {
			q.answer <- bytes.Clone(a.Raw())
		} else {
			unanswered = append(unanswered, q)
		}
	}
	k.open = unanswered
	switch {
	case k.ended:
		k.deliver(k.final)
		k.close()
	case len(unanswered) > 0:
		k.park()
	}
	return nil, nil
}

// checkAnswers returns why the answers to the open asks are invalid, or nil. The
// caller holds mu.
func (k *parkable) checkAnswers(responses wire.Value) *wire.Error {
	if responses.Exists() && responses.Kind() != '{' {
		return wire.Errorf(wire.CodeInvalidParams, "invalid params: inputResponses must be an object with an answer for each key of inputRequests")
	}
	for _, q := range k.open {
		if a := responses.Get(q.key); a.Exists() {
			if err := bridge.CheckAnswer(q.method, a); err != nil {
				return wire.Errorf(err.Code, "invalid params: inputResponses.%s: %s", q.key, err.Message)
			}
		}
	}
	return nil
}
