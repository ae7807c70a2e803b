package frontend

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// gatherWindow is how long a question waits for others of its call, so that
// questions asked together reach the client together.
const gatherWindow = 20 * time.Millisecond

// parkable is a call of a modern client that can be asked while it runs. Such a
// client takes no requests: the questions go into an input_required result,
// which ends the client's request, and the answers come with another request for
// the same thing (2026-07-28, basic/patterns/mrtr). Meanwhile the call is
// parked: it goes on, on a goroutine of its own, with nobody waiting for it.
//
//	            ask, and no other for a moment
//	attended ───────────────────────────────────▶ parked ──▶ over: lapsed, or drained
//	   │  ▲                                          │
//	   │  └──────── retry with the round's state ────┘
//	   ▼
//	over: the result was given to those who wait, or the last of them has gone
//
// Every transition happens in one critical section of mu, so exactly one of
// those who want to make one does.
type parkable struct {
	s *Server
	x *exchange // the call; its back channel is the parkable
	// binding is what the states of the call are bound to.
	binding bridge.Binding

	mu sync.Mutex
	// client is the client as it last described itself: with each request it may
	// declare to answer other things.
	client *call.Client
	// waiters are the requests that wait for the call, none while it is parked.
	// The first gets progress and log messages.
	waiters []*waiter
	open    []*question // without an answer, in the order in which they came
	keys    int         // questions so far: no key is used twice
	round   uint32      // states given out so far: each is good for one use
	parked  bool
	listed  bool   // in the table of calls that have been parked
	ended   bool   // the handler has returned
	final   answer // with this
	over    bool   // nobody can wait for the call any more
	gather  *time.Timer
	lapse   *time.Timer
}

// question is an ask that waits for its answer.
type question struct {
	key    string
	method string
	params wire.Raw
	answer chan wire.Raw // takes the one answer, nil when there will be none
}

// waiter is a request of the client's that waits for a call.
type waiter struct {
	x     *exchange
	token wire.Raw // its progress token, nil when it has none
	done  chan answer
}

func newWaiter(x *exchange) *waiter {
	token := wire.ValueOf(x.call.Params).Get("_meta", wire.MetaProgressToken).Raw()
	return &waiter{x: x, token: bytes.Clone(token), done: make(chan answer, 1)}
}

// mayPark reports whether the call has to be parked if it asks something: only
// requests of these methods may be answered with input_required, and only
// clients that declare to answer something are asked.
func (x *exchange) mayPark() bool {
	c := &x.call
	return wire.MethodOf(c.Method).Rounds && (c.Client.Can("elicitation") || c.Client.Can("sampling") || c.Client.Can("roots"))
}

// runParkable has the call handled on a goroutine of its own and waits for its
// result or for its first questions. Nothing of the request is used after it
// has returned.
func (x *exchange) runParkable() answer {
	k := &parkable{s: x.s, x: x.s.newExchange(context.WithoutCancel(x.ctx), nil, x.id)}
	k.x.call = x.call // the params are the call's own: see (*requestMeta).strip
	k.x.call.Back = k
	hold := x.reserved.takeBody()
	w := newWaiter(x)
	k.client, k.waiters = x.call.Client, []*waiter{w}
	started := x.s.parked.run(func() {
		defer hold.release()
		k.x.begin()
		a := k.x.run()
		k.x.end()
		k.x.Cancel(nil)
		k.finish(a)
	})
	if !started {
		hold.release()
		k.x.Cancel(errStopped)
		return answer{fault: wire.Errorf(wire.CodeInternal, "%s", errStopped)}
	}
	return k.wait(w)
}

// wait returns what there is to answer the request of w with.
func (k *parkable) wait(w *waiter) answer {
	select {
	case a := <-w.done:
		return a
	case <-w.x.ctx.Done():
		k.leave(w)
		return w.x.outcome(call.Result{}, w.x.ctx.Err())
	}
}

// Notify implements call.BackChannel. What comes while nobody waits is dropped:
// there is no stream that it could go on.
func (k *parkable) Notify(method string, params wire.Raw) {
	k.mu.Lock()
	if len(k.waiters) == 0 {
		k.mu.Unlock()
		return
	}
	w := k.waiters[0]
	k.mu.Unlock()
	if method == wire.NoteProgress { // every request has a token of its own
		if w.token == nil {
			return
		}
		e := wire.NewEdit(params)
		e.Replace(e.Root().Get(wire.MetaProgressToken), w.token)
		params = e.Bytes()
	}
	w.x.Notify(method, params)
}

// Ask implements call.BackChannel.
func (k *parkable) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	q, client := k.enqueue(method, params)
	switch {
	case !bridge.Declared(client, method, params):
		return undeclared(client, method)
	case q == nil:
		return unanswered(method)
	}
	defer k.withdraw(q)
	select {
	case a := <-q.answer:
		if a == nil {
			return unanswered(method)
		}
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-k.x.ctx.Done():
		return unanswered(method)
	}
}

// enqueue takes a question in for the client, nil when it cannot be asked. One
// that comes while the call is parked waits for the next retry.
func (k *parkable) enqueue(method string, params wire.Raw) (*question, *call.Client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.ended || !bridge.Declared(k.client, method, params) {
		return nil, k.client
	}
	k.keys++
	q := &question{key: "ask-" + strconv.Itoa(k.keys), method: method, params: params, answer: make(chan wire.Raw, 1)}
	k.open = append(k.open, q)
	if len(k.waiters) > 0 {
		if k.gather == nil {
			k.gather = time.AfterFunc(gatherWindow, k.gathered)
		} else {
			k.gather.Reset(gatherWindow)
		}
	}
	return q, k.client
}

// withdraw takes a question out that nobody waits for any more. A late answer
// to it is ignored like any other that was not asked for.
func (k *parkable) withdraw(q *question) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = slices.DeleteFunc(k.open, func(o *question) bool { return o == q })
}

// gathered parks the call when there are questions and somebody to put them to.
func (k *parkable) gathered() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over && !k.ended && len(k.waiters) > 0 && len(k.open) > 0 {
		k.park()
	}
}

// park answers those who wait with the open questions. The caller holds mu, and
// there are both. Questions that the client does not declare to answer any more
// get no answer (2026-07-28, basic/patterns/mrtr, "Server Requirements").
func (k *parkable) park() {
	k.open = slices.DeleteFunc(k.open, func(q *question) bool {
		if bridge.Declared(k.client, q.method, q.params) {
			return false
		}
		q.answer <- nil
		return true
	})
	if len(k.open) == 0 {
		return
	}
	if k.s.draining.Load() || !k.listed && !k.s.parked.add(k) {
		k.s.ratelog.Info("a question was not put to the client: no call can be parked", zap.String("call", k.x.call.ID))
		k.giveUp()
		return
	}
	if !k.listed {
		k.listed = true
		k.binding = bridge.BindingOf(&k.x.call)
	}
	k.round++
	k.parked = true
	k.s.options.Metrics.Parked.Inc()
	round := k.round
	ttl := k.s.settings.Load().parkTTL
	k.lapse = time.AfterFunc(ttl, func() { k.lapsed(round) })
	k.deliver(answer{result: call.Result{Raw: k.inputRequired(time.Now().Add(ttl))}})
}

// inputRequired is the result with the open questions and the state of the
// round, which is good until it expires. The caller holds mu.
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
			params = wire.Raw(`{}`) // there are clients that cannot read a request without any (Go SDK 1.8)
		}
		out = append(append(append(out, `,"params":`...), params...), '}')
	}
	state := k.s.options.Sealer.Seal(bridge.State{
		Kind: bridge.Parked, Holder: k.s.options.Replica, Text: k.x.call.ID, Round: k.round,
		Expires: expires,
	}, k.binding)
	out = wire.AppendString(append(out, `},"requestState":`...), state)
	return append(out, '}')
}

// finish takes what the call came to. Where nobody waits it is kept until
// somebody does, or the parked call lapses.
func (k *parkable) finish(a answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended, k.final = true, a
	if !k.over && len(k.waiters) > 0 {
		k.deliver(a)
		k.close()
	}
}

// leave takes a request out whose client has gone. When it was the last, the
// call is cancelled.
func (k *parkable) leave(w *waiter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(k.waiters, w)
	if i < 0 {
		return // it has its answer, and nobody to take it
	}
	k.waiters = slices.Delete(k.waiters, i, i+1)
	if len(k.waiters) == 0 {
		k.end(errLost)
	}
}

// lapsed ends the call if nobody has come back for this round.
func (k *parkable) lapsed(round uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parked && k.round == round {
		k.s.ratelog.Info("a parked call has lapsed", zap.String("call", k.x.call.ID))
		k.end(errLapsed)
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

// end cancels the call: the upstream first gets answers to its questions. The
// caller holds mu.
func (k *parkable) end(cause error) {
	k.giveUp()
	k.close()
	k.x.Cancel(cause)
}

// giveUp lets every open question go without an answer. The caller holds mu.
func (k *parkable) giveUp() {
	for _, q := range k.open {
		q.answer <- nil
	}
	k.open = nil
}

// deliver answers all who wait. The caller holds mu.
func (k *parkable) deliver(a answer) {
	for _, w := range k.waiters {
		w.x.over.Store(true)
		w.done <- a
	}
	k.waiters = nil
}

// close says that nobody can come back. The caller holds mu.
func (k *parkable) close() {
	k.unpark()
	k.over = true
	if k.gather != nil {
		k.gather.Stop()
	}
	if k.listed {
		k.s.parked.remove(k)
	}
}

// unpark ends the state of being parked, if the call is. The caller holds mu.
func (k *parkable) unpark() {
	if k.parked {
		k.parked = false
		k.lapse.Stop()
		k.s.options.Metrics.Parked.Dec()
	}
}
