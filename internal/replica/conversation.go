package replica

import (
	"context"
	"errors"
	"fmt"

	"mcpgateway/internal/store"
)

// Handler handles a request of another replica. Its context ends when the caller does not wait any more,
// when the caller's replica has ended, and when messages were lost.
type Handler func(ctx context.Context, from string, request []byte, c *Conversation) ([]byte, error)

// Bounds of what has arrived for one conversation and was not received yet.
const (
	maxReceived      = 1024
	maxReceivedBytes = 64 << 20
)

// Conversation is one request with the messages that belong to it, in both directions. Its methods may
// be called concurrently until the handler has returned.
type Conversation struct {
	r      *Replicas
	peer   string
	id     uint64
	caller bool
	cancel context.CancelCauseFunc // of the handler's context

	// Replicas.mu guards the rest.
	begun         position // of the frame with the request, if this side is the caller
	received      []*frame
	receivedBytes int
	arrived       chan struct{} // capacity 1
	ended         error
	over          chan struct{} // closed with ended
}

func (r *Replicas) newConversation(peer string, id uint64, caller bool) *Conversation {
	return &Conversation{r: r, peer: peer, id: id, caller: caller, arrived: make(chan struct{}, 1), over: make(chan struct{})}
}

// Call passes a request to another replica and returns the reply. receive gets the messages of the other
// side in their order, on the goroutine of Call; it may be nil. When ctx ends, Call returns its error and
// the handler's context ends.
//
// ErrGone, ErrRefused, ErrTooLong, and ErrUnavailable without ErrLost, mean that the request was not
// handled. After any other error this is not known.
func (r *Replicas) Call(ctx context.Context, to, kind string, request []byte, receive func(c *Conversation, msg []byte)) ([]byte, error) {
	reply, err := r.call(ctx, to, kind, request, receive)
	r.o.Metrics.calls.WithLabelValues(kind, outcomeOf(err)).Inc()
	return reply, err
}

func (r *Replicas) call(ctx context.Context, to, kind string, request []byte, receive func(*Conversation, []byte)) ([]byte, error) {
	if len(request) > r.o.MaxMessage {
		return nil, ErrTooLong
	}
	if err := r.reachable(ctx, to); err != nil {
		return nil, err
	}
	c, err := r.open(to, kind, request)
	if err != nil {
		return nil, err
	}
	defer r.close(c)
	for {
		f, err := c.next(ctx)
		if err != nil {
			return nil, err
		}
		switch f.kind {
		case frameReply:
			return f.body, nil
		case frameFailed:
			return nil, &Failed{string(f.body)}
		case frameRefused:
			if string(f.body) == reasonEnding {
				return nil, ErrEnding
			}
			return nil, fmt.Errorf("%w: %s", ErrRefused, f.body)
		}
		if receive != nil {
			receive(c, f.body)
		}
	}
}

// outcomeOf returns the label for the end of a call.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeOK
	case errors.As(err, new(*Failed)):
		return outcomeFailed
	case errors.Is(err, ErrGone):
		return outcomeGone
	case errors.Is(err, ErrRefused), errors.Is(err, ErrTooLong), errors.Is(err, ErrFull):
		return outcomeRefused
	case errors.Is(err, ErrLost):
		return outcomeLost
	case errors.Is(err, store.ErrUnavailable):
		return outcomeStoreAway
	}
	return outcomeCancelled
}

// open begins a conversation.
func (r *Replicas) open(to, kind string, request []byte) (*Conversation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.peerOf(to)
	if p == nil || p.full() {
		return nil, fmt.Errorf("%w: %w", ErrRefused, ErrFull)
	}
	r.nextID++
	c := r.newConversation(to, r.nextID, true)
	r.calls[c.id] = c
	r.o.Metrics.conversations.WithLabelValues(sideCaller).Inc()
	r.enqueue(p, &frame{kind: frameBegin, id: c.id, topic: kind, body: request})
	return c, nil
}

// close ends a conversation of this replica as the caller. If the handler may still run, it learns that
// nobody waits.
func (r *Replicas) close(c *Conversation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls[c.id] == nil {
		return
	}
	r.finish(c, context.Canceled)
	if p := r.peers[c.peer]; p != nil {
		r.enqueue(p, &frame{kind: frameCancel, id: c.id})
	}
}

// begin runs the handler of a request. The caller holds mu.
func (r *Replicas) begin(p *peer, f *frame) {
	h := r.handlers[f.topic]
	refuse := func(reason string) {
		r.enqueue(p, &frame{kind: frameRefused, id: f.id, body: []byte(reason)})
	}
	switch {
	case h == nil:
		refuse("it does not know this kind of requests")
		return
	case r.draining:
		refuse(reasonEnding)
		return
	case len(r.handled) >= r.o.MaxConversations:
		refuse("it handles too many requests")
		return
	}
	c := r.newConversation(p.name, f.id, false)
	ctx, cancel := context.WithCancelCause(r.life)
	c.cancel = cancel
	r.handled[handledKey{p.name, f.id}] = c
	r.o.Metrics.conversations.WithLabelValues(sideHandler).Inc()
	r.running.Go(func() {
		reply, err := h(ctx, p.name, f.body, c)
		r.reply(c, reply, err)
	})
}

// reply sends what a handler has returned, unless the conversation has ended.
func (r *Replicas) reply(c *Conversation, reply []byte, err error) {
	f := &frame{kind: frameReply, id: c.id, body: reply}
	if err == nil && len(reply) > r.o.MaxMessage {
		err = ErrTooLong
	}
	if err != nil {
		f = &frame{kind: frameFailed, id: c.id, body: []byte(err.Error())}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.ended != nil {
		return
	}
	r.finish(c, context.Canceled)
	if p := r.peers[c.peer]; p != nil {
		r.enqueue(p, f)
	}
}

// Send sends a message to the other side. It does not wait. ErrFull says that too many messages wait: a
// sender may drop the message. Any other error means that the conversation has ended, or that the
// message is too long.
func (c *Conversation) Send(msg []byte) error {
	if len(msg) > c.r.o.MaxMessage {
		return ErrTooLong
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	p := c.r.peers[c.peer]
	switch {
	case c.ended != nil:
		return c.ended
	case p == nil:
		return ErrLost
	case p.full():
		return ErrFull
	}
	kind := frameBack
	if c.caller {
		kind = frameMessage
	}
	c.r.enqueue(p, &frame{kind: kind, id: c.id, body: msg})
	return nil
}

// Receive returns the next message of the caller, for handlers.
func (c *Conversation) Receive(ctx context.Context) ([]byte, error) {
	f, err := c.next(ctx)
	if err != nil {
		return nil, err
	}
	return f.body, nil
}

// next returns the next frame of the other side.
func (c *Conversation) next(ctx context.Context) (*frame, error) {
	for {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.r.mu.Lock()
		if len(c.received) > 0 {
			f := c.received[0]
			c.received[0] = nil
			c.received = c.received[1:]
			c.receivedBytes -= len(f.body)
			c.r.mu.Unlock()
			return f, nil
		}
		ended := c.ended
		c.r.mu.Unlock()
		if ended != nil {
			return nil, ended
		}
		select {
		case <-c.arrived:
		case <-c.over:
		case <-ctx.Done():
		}
	}
}

// push hands a frame to a conversation. If the conversation is too slow, it ends. The caller holds mu.
func (r *Replicas) push(c *Conversation, f *frame) {
	if c == nil {
		return
	}
	isMessage := f.kind == frameMessage || f.kind == frameBack
	if isMessage && (len(c.received) >= maxReceived || c.receivedBytes >= maxReceivedBytes) {
		r.count(lostOverflow)
		r.interrupt(c, lostTo(c.peer, "sends more than can be received"))
		return
	}
	c.received = append(c.received, f)
	c.receivedBytes += len(f.body)
	if c.caller && !isMessage {
		r.finish(c, context.Canceled) // next still returns what has been received
	}
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

// interrupt ends a conversation on both sides. The caller holds mu.
func (r *Replicas) interrupt(c *Conversation, cause error) {
	r.finish(c, cause)
	p := r.peers[c.peer]
	switch {
	case p == nil:
	case c.caller:
		r.enqueue(p, &frame{kind: frameCancel, id: c.id})
	default:
		r.enqueue(p, &frame{kind: frameFailed, id: c.id, body: []byte(cause.Error())})
	}
}

// finish ends a conversation on this side. The caller holds mu.
func (r *Replicas) finish(c *Conversation, cause error) {
	if c.ended != nil {
		return
	}
	c.ended = cause
	close(c.over)
	side := sideHandler
	if c.caller {
		side = sideCaller
		delete(r.calls, c.id)
	} else {
		c.cancel(cause)
		delete(r.handled, handledKey{c.peer, c.id})
	}
	r.o.Metrics.conversations.WithLabelValues(side).Dec()
	if r.draining && len(r.handled) == 0 && r.drained != nil {
		close(r.drained)
		r.drained = nil
	}
}

// talksWith reports whether there are conversations with a replica. The caller holds mu.
func (r *Replicas) talksWith(name string) bool {
	for _, c := range r.calls {
		if c.peer == name {
			return true
		}
	}
	for k := range r.handled {
		if k.from == name {
			return true
		}
	}
	return false
}

// breakAll ends all conversations with a replica. If it is still there, it learns that nobody waits for
// its replies any more. The caller holds mu.
func (r *Replicas) breakAll(name string, cause error) {
	p := r.peers[name]
	for _, c := range r.calls {
		if c.peer == name {
			r.finish(c, cause)
			if p != nil {
				r.enqueue(p, &frame{kind: frameCancel, id: c.id})
			}
		}
	}
	for k, c := range r.handled {
		if k.from == name {
			r.finish(c, cause)
		}
	}
}
