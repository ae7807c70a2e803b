package replica

import (
	"context"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/store"
)

// cursor is where a log is read on after this replica has joined, or the store has lost the log.
type cursor struct {
	after string
	epoch int // grows with each change
}

// follow reads a log until ctx ends, and calls each for every entry.
func (r *Replicas) follow(ctx context.Context, key store.Key, each func(data []byte)) {
	var at cursor
	failures := 0
	for ctx.Err() == nil {
		r.mu.Lock()
		joined := r.rejoined
		r.mu.Unlock()
		select {
		case <-joined:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		set := r.cursors[key]
		r.mu.Unlock()
		if set.epoch != at.epoch {
			at = set
		}
		entries, err := r.o.Store.Read(ctx, key, at.after, 256, r.o.Beat)
		if err != nil {
			if !pause(ctx, failures) {
				return
			}
			failures++
			continue
		}
		failures = 0
		for _, e := range entries {
			at.after = e.ID
			each(e.Data)
		}
	}
}

func (r *Replicas) inboxLoop(ctx context.Context) {
	r.follow(ctx, inboxKey(r.o.Name), func(data []byte) { r.receive(ctx, data) })
}

// receive handles an entry of the inbox.
func (r *Replicas) receive(ctx context.Context, data []byte) {
	f, err := decode(data)
	if err != nil || f.kind == frameNote || f.from == r.o.Name || f.stored > uint64(r.o.MaxMessage) {
		r.count(lostMalformed)
		r.log.Warn("a message of another replica is malformed")
		return
	}
	r.mu.Lock()
	p := r.peerOf(f.from)
	if p == nil || !r.accept(p, f) {
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	if f.stored > 0 && !r.fetchBody(ctx, f) {
		r.count(lostTTL)
		r.mu.Lock()
		r.lost(p, "a message has expired")
		r.mu.Unlock()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliver(p, f)
	p.received++
	p.inBytes += len(f.body)
	if f.kind != frameHello && (p.received >= maxUnacked/4 || p.inBytes >= maxUnackedBytes/4) {
		p.owesHello = true
		r.startSender(p)
	}
}

// accept reports whether a frame is the next one of its link. The caller holds mu.
func (r *Replicas) accept(p *peer, f *frame) bool {
	if f.at.link < p.in.link {
		return false // it was sent before the current link began
	}
	if f.at.link > p.in.link {
		r.restart(p, f.since)
		p.in = position{link: f.at.link}
	}
	p.acknowledged(f.ack)
	next := p.in.number + 1
	if f.kind == frameHello {
		next-- // it has the number of the frame before it
	}
	switch {
	case f.at.number < next:
		return false // it came before
	case f.at.number == next:
		p.in = f.at
		return true
	}
	// Frames are missing. This one is not used either, because its conversation may be one of those
	// that have lost something.
	p.in = f.at
	r.count(lostGap)
	r.lost(p, "messages were lost")
	if f.kind == frameBegin {
		r.enqueue(p, &frame{kind: frameRefused, id: f.id, body: []byte("messages were lost before the request")})
	}
	return false
}

// restart ends the conversations that a peer has ended when it began a new link. The caller holds mu.
func (r *Replicas) restart(p *peer, since position) {
	cause := lostTo(p.name, "has lost messages")
	for _, c := range r.calls {
		if c.peer == p.name && c.begun.number > 0 && !c.begun.after(since) {
			r.finish(c, cause)
		}
	}
	for k, c := range r.handled {
		if k.from == p.name {
			r.finish(c, cause)
		}
	}
}

// lost ends all conversations with a peer because something of them is missing, and tells the peer with
// a new link. The caller holds mu.
func (r *Replicas) lost(p *peer, reason string) {
	r.log.Warn("messages between replicas were lost", zap.String("replica", p.name), zap.String("reason", reason))
	r.newLink(p)
	r.breakAll(p.name, lostTo(p.name, reason))
	p.owesHello = true
	r.startSender(p)
}

// fetchBody gets the body of a frame from the store.
func (r *Replicas) fetchBody(ctx context.Context, f *frame) bool {
	key := bodyKey(r.o.Name, f)
	deadline := time.Now().Add(2 * r.ttl())
	for failures := 0; time.Now().Before(deadline); failures++ {
		values, err := r.o.Store.Get(ctx, key)
		if err == nil {
			if uint64(len(values[0])) != f.stored {
				return false
			}
			f.body = values[0]
			_ = r.o.Store.Delete(ctx, key) // otherwise it ends by itself
			return true
		}
		if !pause(ctx, failures) {
			return false
		}
	}
	return false
}

// deliver handles a frame that has arrived in order. The caller holds mu.
func (r *Replicas) deliver(p *peer, f *frame) {
	switch f.kind {
	case frameHello:
	case frameBegin:
		r.begin(p, f)
	case frameCancel:
		if c := r.handled[handledKey{p.name, f.id}]; c != nil {
			r.finish(c, context.Canceled)
		}
	case frameMessage:
		r.push(r.handled[handledKey{p.name, f.id}], f)
	case frameBack, frameReply, frameFailed, frameRefused:
		if c := r.calls[f.id]; c != nil && c.peer == p.name {
			r.push(c, f)
		}
	case frameBye:
		delete(r.alive, p.name)
		r.o.Metrics.replicas.Set(float64(len(r.alive) + 1))
		r.drop(p, lostTo(p.name, "has ended"))
	}
}
