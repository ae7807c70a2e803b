package park

import (
	"context"
	"slices"
	"strconv"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// GatherWindow is how long an ask waits for other asks of its call, so that asks made
// together reach the client together.
const GatherWindow = 20 * time.Millisecond

// ask is an ask that waits for its answer.
type ask struct {
	key    string
	method string
	params wire.Raw
	answer chan wire.Raw // takes the one answer, or nil if there will be none
}

// Notify implements call.BackChannel. A notification that comes while no request
// waits is dropped: there is no stream for it.
func (k *parkable) Notify(method string, params wire.Raw) {
	k.mu.Lock()
	if len(k.waiters) == 0 {
		k.mu.Unlock()
		return
	}
	w := k.waiters[0]
	k.mu.Unlock()
	if method == wire.NoteProgress { // each request has its own token
		if w.token == nil {
			return
		}
		e := wire.NewEdit(params)
		e.Replace(e.Root().Get(wire.MetaProgressToken), w.token)
		params = e.Bytes()
	}
	w.Notify(method, params)
}

// Ask implements call.BackChannel.
func (k *parkable) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	q, client := k.enqueue(method, params)
	switch {
	case !bridge.Declared(client, method, params):
		return asError(bridge.Undeclared(client, method))
	case q == nil:
		return asError(bridge.Unanswered(method))
	}
	defer k.withdraw(q)
	var err error
	select {
	case a := <-q.answer:
		if a != nil {
			return a, nil
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-k.scope.Done():
	}
	switch { // ctx may have ended because the call has
	case k.hasLapsed():
		return nil, call.ErrLapsed
	case err != nil:
		return nil, err
	default:
		return asError(bridge.Unanswered(method))
	}
}

// hasLapsed reports whether the call ended while it was parked: nobody has answered its asks.
func (k *parkable) hasLapsed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lapsed
}

// asError keeps a nil *wire.Error from becoming an error that is not nil.
func asError(result wire.Raw, err *wire.Error) (wire.Raw, error) {
	if err != nil {
		return nil, err
	}
	return result, nil
}

// enqueue adds an ask, unless the client cannot be asked. An ask that comes while the
// call is parked waits for the next retry.
func (k *parkable) enqueue(method string, params wire.Raw) (*ask, *call.Client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.ended || !bridge.Declared(k.client, method, params) {
		return nil, k.client
	}
	k.asked++
	q := &ask{key: "ask-" + strconv.Itoa(k.asked), method: method, params: params, answer: make(chan wire.Raw, 1)}
	k.open = append(k.open, q)
	if len(k.waiters) > 0 {
		if k.gather == nil {
			k.gather = time.AfterFunc(GatherWindow, k.gathered)
		} else {
			k.gather.Reset(GatherWindow)
		}
	}
	return q, k.client
}

// withdraw removes an ask because its caller no longer waits. A late answer to it is
// ignored.
func (k *parkable) withdraw(q *ask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = slices.DeleteFunc(k.open, func(o *ask) bool { return o == q })
}

// gathered parks the call if it has asks and a request that can carry them.
func (k *parkable) gathered() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over && !k.ended && len(k.waiters) > 0 && len(k.open) > 0 {
		k.park()
	}
}

// giveUp ends each open ask without an answer. The caller holds mu.
func (k *parkable) giveUp() {
	for _, q := range k.open {
		q.answer <- nil
	}
	k.open = nil
}
