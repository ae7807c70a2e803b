package remote

import (
	"context"
	"errors"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/replica"
	"mcpgateway/internal/store"
	"mcpgateway/internal/wire"
)

// ErrNotHeld is the error of a [Handler] that does not have what the call needs, and has not made it.
var ErrNotHeld = errors.New("the replica does not hold this any more")

// Handler handles a call that another replica has passed on; to says what it is for. It returns as a
// router or an upstream does, or ErrNotHeld. If it gives the call a trace, the other replica adds the times
// of the stages to those of its call.
type Handler func(ctx context.Context, to string, c *call.Call) (call.Result, error)

// Handle sets the handler of calls of a kind. Call it before r runs.
func Handle(r *replica.Replicas, kind string, h Handler) {
	r.Handle(kind, func(ctx context.Context, _ string, request []byte, conv *replica.Conversation) ([]byte, error) {
		to, c, err := decodeCall(request)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		back := &remoteBack{conv: conv, asks: map[uint64]chan outcome{}}
		var receiving sync.WaitGroup
		receiving.Go(func() { back.receive(ctx) })
		c.Back = back
		res, err := h(ctx, to, c)
		cancel()
		receiving.Wait()
		header := resultHeader{Revision: res.Revision, Extra: res.Extra, Spent: spentIn(c.Trace)}
		if err != nil {
			if header.NotHeld = errors.Is(err, ErrNotHeld); !header.NotHeld {
				if header.Error = encodeError(err); header.Error == nil {
					return nil, err
				}
			}
		}
		reply := join(header, res.Raw)
		if res.Buffer != nil {
			res.Buffer.Release()
		}
		return reply, nil
	})
}

// Do passes a call to a replica. Its messages and asks go to the back channel of the call. The error is a
// *wire.Error, a *call.Refused, that of ctx, ErrNotHeld, or one of package replica: see
// [replica.Replicas.Call], and Begun.
func Do(ctx context.Context, r *replica.Replicas, replicaName, kind, to string, c *call.Call) (call.Result, error) {
	here := &localBack{back: c.Back, asks: map[uint64]context.CancelFunc{}}
	here.ctx, here.end = context.WithCancel(ctx)
	reply, err := r.Call(ctx, replicaName, kind, encodeCall(to, c), here.receive)
	here.end()
	here.asking.Wait()
	if err != nil {
		return call.Result{}, err
	}
	var h resultHeader
	body, err := split(reply, &h)
	if err != nil {
		return call.Result{}, err
	}
	addSpent(c.Trace, h.Spent)
	switch {
	case h.NotHeld:
		return call.Result{}, ErrNotHeld
	case h.Error != nil:
		return call.Result{Revision: h.Revision}, h.Error.err()
	}
	return call.Result{Raw: body, Revision: h.Revision, Extra: h.Extra}, nil
}

// Begun reports whether a call may have been made although Do returned this error, which is not one for
// the client.
func Begun(err error) bool {
	switch {
	case errors.Is(err, replica.ErrLost):
		return true
	case errors.Is(err, ErrNotHeld), errors.Is(err, replica.ErrGone), errors.Is(err, replica.ErrRefused), errors.Is(err, replica.ErrTooLong),
		errors.Is(err, store.ErrUnavailable):
		return false
	}
	return true
}

// outcome is the answer to an ask.
type outcome struct {
	answer wire.Raw
	err    error
}

// remoteBack is the back channel of a call at the replica that it was passed to.
type remoteBack struct {
	conv *replica.Conversation

	mu   sync.Mutex
	last uint64
	asks map[uint64]chan outcome
}

// Notify implements [call.BackChannel]. When too many messages wait, it drops the notification.
func (b *remoteBack) Notify(method string, params wire.Raw) {
	_ = b.conv.Send(join(messageHeader{Kind: notify, Method: method, Has: params != nil}, params))
}

// Ask implements [call.BackChannel].
func (b *remoteBack) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	got := make(chan outcome, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.asks[id] = got
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.asks, id)
		b.mu.Unlock()
	}()
	if err := b.conv.Send(join(messageHeader{Kind: ask, Ask: id, Method: method, Has: params != nil}, params)); err != nil {
		return nil, wire.Errorf(wire.CodeInternal, "the client cannot be asked: its replica cannot be reached")
	}
	select {
	case o := <-got:
		return o.answer, o.err
	case <-ctx.Done():
		_ = b.conv.Send(join(messageHeader{Kind: withdraw, Ask: id}, nil))
		return nil, ctx.Err()
	}
}

// receive takes the answers to asks until ctx or the conversation ends.
func (b *remoteBack) receive(ctx context.Context) {
	for {
		msg, err := b.conv.Receive(ctx)
		if err != nil {
			return
		}
		var h messageHeader
		body, err := split(msg, &h)
		if err != nil || h.Kind != answer {
			continue
		}
		b.mu.Lock()
		got := b.asks[h.Ask]
		delete(b.asks, h.Ask)
		b.mu.Unlock()
		switch {
		case got == nil: // withdrawn meanwhile
		case h.Error != nil:
			got <- outcome{err: h.Error.err()}
		default:
			got <- outcome{answer: body}
		}
	}
}

// localBack carries the messages of a passed call to its own back channel.
type localBack struct {
	back   call.BackChannel
	ctx    context.Context // of asks
	end    context.CancelFunc
	asking sync.WaitGroup

	mu   sync.Mutex
	asks map[uint64]context.CancelFunc
}

func (b *localBack) receive(conv *replica.Conversation, msg []byte) {
	var h messageHeader
	body, err := split(msg, &h)
	if err != nil {
		return
	}
	if !h.Has {
		body = nil
	}
	switch h.Kind {
	case notify:
		b.back.Notify(h.Method, body)
	case ask:
		b.ask(conv, h, body)
	case withdraw:
		b.mu.Lock()
		defer b.mu.Unlock()
		if cancel := b.asks[h.Ask]; cancel != nil {
			cancel()
		}
	}
}

// ask asks the client and sends its answer.
func (b *localBack) ask(conv *replica.Conversation, h messageHeader, params wire.Raw) {
	ctx, cancel := context.WithCancel(b.ctx)
	b.mu.Lock()
	b.asks[h.Ask] = cancel
	b.mu.Unlock()
	b.asking.Go(func() {
		got, err := b.back.Ask(ctx, h.Method, params)
		b.mu.Lock()
		delete(b.asks, h.Ask)
		b.mu.Unlock()
		ended := ctx.Err() != nil
		cancel()
		reply := messageHeader{Kind: answer, Ask: h.Ask}
		if err != nil {
			if ended {
				return // nobody waits for it
			}
			if reply.Error = encodeError(err); reply.Error == nil {
				reply.Error = encodeError(wire.Errorf(wire.CodeInternal, "the client could not be asked"))
			}
		}
		_ = conv.Send(join(reply, got)) // otherwise the other side has ended
	})
}
