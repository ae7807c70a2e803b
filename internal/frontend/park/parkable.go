package park

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

// parkable is a call that may be parked. It is the call's back channel.
//
// Each transition happens in one critical section of mu, so that exactly one of
// several concurrent attempts makes it.
type parkable struct {
	t     *Table
	scope call.Scope // the context of the call
	call  call.Call
	trace call.Trace // of the call
	id    string     // identifies the parked call, unguessable; "" before it was parked

	mu sync.Mutex
	// client is the client as its last request has described it: with each request it
	// may declare other capabilities.
	client *call.Client
	// waiters are the requests that wait for the call; there are none while it is
	// parked. The first one gets progress and log messages.
	waiters []*waiter
	open    []*ask // unanswered, in the order in which they came
	asked   int    // asks so far; no key is used twice
	round   uint32 // states issued so far; each can be used once
	binding *bridge.Binding
	parked  bool
	lapsed  bool   // the call has ended while it was parked
	ended   bool   // the handler has returned
	final   answer // the handler's
	over    bool   // no request can wait for the call
	gather  *time.Timer
	expire  *time.Timer
	pause   call.Timer // while the call is parked
	state   *Snapshot  // nil before the call was parked, see noteState
}

// answer is the result or error of the handler, or the result of a round.
type answer struct {
	result call.Result
	err    error
}

// waiter is a request that waits for a call.
type waiter struct {
	Request
	token wire.Raw // its progress token, nil for none
	done  chan answer
}

func newWaiter(r Request) *waiter {
	token := wire.ValueOf(r.Call().Params).Get("_meta", wire.MetaProgressToken).Raw()
	return &waiter{Request: r, token: bytes.Clone(token), done: make(chan answer, 1)}
}

// Parkable reports whether a call of a modern client has to be run with [Table.Run]
// in order to ask something: only some methods may be answered with input_required,
// and only clients that declare a capability for it are asked.
func Parkable(c *call.Call) bool {
	if !wire.MethodOf(c.Method).Rounds {
		return false
	}
	for m := range wire.ValueOf(c.Client.Capabilities).Members() {
		if m.Value.Kind() == '{' && (m.Is("elicitation") || m.Is("sampling") || m.Is("roots")) {
			return true
		}
	}
	return false
}

// Run has the call of r handled on a separate goroutine, and returns its result or its
// first round. The error is that of the handler, that of r's context, or the cause of
// [Table.Stop]. After Stop, Run does not call handle. The call may keep its params
// longer than Run runs. release is called once, when they are no longer needed.
func (t *Table) Run(r Request, handle Handler, release func()) (call.Result, error) {
	k := &parkable{t: t, call: *r.Call()}
	k.scope.Begin(context.WithoutCancel(r.Context()))
	k.call.Back = k
	k.startTrace()
	w := newWaiter(r)
	k.client, k.waiters = k.call.Client, []*waiter{w}
	err := t.start(k, func() {
		defer release()
		res, err := handle(&k.scope, &k.call)
		t.done(k)
		k.finish(res, err)
	})
	if err != nil {
		release()
		k.scope.Cancel(err)
		return call.Result{}, err
	}
	return k.wait(w)
}

// wait waits for the answer to the request of w.
func (k *parkable) wait(w *waiter) (call.Result, error) {
	select {
	case a := <-w.done:
		return a.result, a.err
	case <-w.Context().Done():
		k.leave(w)
		return call.Result{}, w.Context().Err()
	}
}

// share returns the share that the parked call counts for.
func (k *parkable) share() fairshare.Share { return fairshare.ShareOf(k.call.ShareKey) }

// park answers the waiting requests with the open asks. The caller holds mu, and
// has checked that there are both. An ask that the client no longer declares gets no answer
// (2026-07-28, basic/patterns/mrtr, "Server Requirements").
func (k *parkable) park() {
	k.open = slices.DeleteFunc(k.open, func(q *ask) bool {
		if bridge.Declared(k.client, q.method, q.params) {
			return false
		}
		q.answer <- nil
		return true
	})
	if len(k.open) == 0 {
		return
	}
	if !k.t.admit(k) {
		k.t.options.Logger.Info("an ask was dropped: no more calls can be parked", zap.String("request", k.call.ID))
		k.giveUp()
		return
	}
	if k.binding == nil {
		binding := bridge.BindingOf(&k.call)
		k.binding = &binding
	}
	k.round++
	k.parked = true
	k.pause = k.trace.Start(context.Background(), call.StageParked, call.SpanStart{})
	k.t.options.Gauge.Inc()
	round := k.round
	ttl := k.t.options.TTL()
	k.expire = time.AfterFunc(ttl, func() { k.expired(round) })
	now := time.Now()
	expires := now.Add(ttl)
	k.noteState(now, expires)
	k.deliver(answer{result: call.Result{Raw: k.inputRequired(expires)}})
}

// inputRequired returns the result with the open asks and the state of the round. The
// caller holds mu.
func (k *parkable) inputRequired(expires time.Time) wire.Raw {
	out := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, q := range k.open {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(wire.AppendString(out, q.key), `:{"method":`...)
		out = wire.AppendString(out, q.method)
		params := q.params
		if params == nil {
			params = wire.Raw(`{}`) // some clients cannot read a request without params (Go SDK 1.8)
		}
		out = append(append(append(out, `,"params":`...), params...), '}')
	}
	state := k.t.options.Sealer.Seal(bridge.State{
		Kind: bridge.Parked, Recipient: k.t.options.Replica, Text: k.id, Round: k.round,
		Request: k.call.ID, Expires: expires, Trace: k.trace.Traceparent(),
	}, *k.binding)
	out = wire.AppendString(append(out, `},"requestState":`...), state)
	return append(out, '}')
}

// finish takes what the handler has returned. If no request waits, the answer is kept
// for the retry.
func (k *parkable) finish(res call.Result, err error) {
	if cause := context.Cause(&k.scope); err != nil && cause != nil && !errors.As(err, new(*wire.Error)) {
		err = cause
	}
	k.scope.Cancel(nil)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.round > 0 || len(k.waiters) != 1 {
		res.Buffer = nil // the first of several requests would release it
	}
	k.ended, k.final = true, answer{res, err}
	if !k.over && len(k.waiters) > 0 {
		k.deliver(k.final)
		k.close()
	}
}

// leave removes a request whose client has gone. If it was the last, the call ends.
func (k *parkable) leave(w *waiter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(k.waiters, w)
	if i < 0 {
		return // it was answered meanwhile
	}
	k.waiters = slices.Delete(k.waiters, i, i+1)
	if len(k.waiters) == 0 {
		k.end(ErrAbandoned)
	}
}

// expired ends the call if the client has not come back for this round.
func (k *parkable) expired(round uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parked && k.round == round {
		k.t.options.Logger.Info("a parked call has expired", zap.String("request", k.call.ID))
		k.end(ErrExpired)
	}
}

// endParked ends the call if it is parked.
func (k *parkable) endParked(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parked {
		k.end(cause)
	}
}

// end cancels the call. The asks end first, so that the upstream gets answers to them.
// The caller holds mu.
func (k *parkable) end(cause error) {
	k.lapsed = k.parked
	k.giveUp()
	k.close()
	k.scope.Cancel(cause)
}

// deliver answers the waiting requests. The caller holds mu.
func (k *parkable) deliver(a answer) {
	for _, w := range k.waiters {
		w.EndNotify()
		w.done <- a
	}
	k.waiters = nil
}

// close makes the call one that cannot be resumed. The caller holds mu.
func (k *parkable) close() {
	k.unpark()
	k.over = true
	if k.gather != nil {
		k.gather.Stop()
	}
	k.t.remove(k)
}

// unpark ends the parked state, if the call is in it. The caller holds mu.
func (k *parkable) unpark() {
	if k.parked {
		k.parked = false
		k.pause.End(nil)
		k.expire.Stop()
		k.t.options.Gauge.Dec()
	}
}
