package replica

import (
	"context"
	"encoding/binary"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/store"
)

// The window: what may be sent to one replica before it has acknowledged something.
const (
	maxUnacked      = 512 // frames
	maxUnackedBytes = 16 << 20
	maxBatch        = 64 // frames that are appended together
)

// peer is another replica. Replicas.mu guards it.
type peer struct {
	name string

	// Frames to the peer.
	out          position // the last frame that was taken from the queue
	since        position // of the link: what had been received from the peer when the link began
	queue        []*frame
	queuedBytes  int
	unacked      []int // the sizes of the frames that are not acknowledged, the oldest first
	unackedBytes int
	owesHello    bool
	sending      bool
	idle         chan struct{}      // closed when the sender ends, nil if nobody waits
	wake         chan struct{}      // capacity 1: the window has opened, or a hello is due
	cut          context.Context    // ends with the link
	endLink      context.CancelFunc // ends cut

	// Frames from the peer.
	in                position
	received, inBytes int // since the last acknowledgement
}

// peerOf returns the peer with this name, and makes it if there is none; nil if there is no room. The
// caller holds mu.
func (r *Replicas) peerOf(name string) *peer {
	p := r.peers[name]
	if p == nil && len(r.peers) < maxPeers && !r.stopped {
		p = &peer{name: name, wake: make(chan struct{}, 1)}
		before, ok := r.dropped[name]
		p.in = before.position
		r.newLink(p)
		r.peers[name] = p
		if ok {
			delete(r.dropped, name)
			p.owesHello = true // the new link tells the peer that its conversations have ended
			r.startSender(p)
		}
	}
	return p
}

// droppedPeer is what was received from a peer that was dropped.
type droppedPeer struct {
	position
	at time.Time
}

// newLink begins a link to a peer. Messages that wait for the former one are dropped. The caller holds mu.
func (r *Replicas) newLink(p *peer) {
	if p.endLink != nil {
		p.endLink()
	}
	// Links grow, even when another process gets this replica's name, so that a frame that arrives
	// late cannot be taken for a new one.
	r.lastLink = max(r.lastLink+1, uint64(time.Now().UnixNano()))
	p.out, p.since = position{link: r.lastLink}, p.in
	p.queue, p.queuedBytes, p.unacked, p.unackedBytes = nil, 0, nil, 0
	p.cut, p.endLink = context.WithCancel(r.life)
}

// drop forgets a peer and ends all conversations with it. The caller holds mu.
func (r *Replicas) drop(p *peer, cause error) {
	p.endLink()
	p.queue = nil
	delete(r.peers, p.name)
	r.dropped[p.name] = droppedPeer{p.in, time.Now()}
	r.breakAll(p.name, cause)
}

// enqueue adds a frame to what is sent to a peer. The caller holds mu.
func (r *Replicas) enqueue(p *peer, f *frame) {
	f.from = r.o.Name
	p.queue = append(p.queue, f)
	p.queuedBytes += len(f.body)
	r.startSender(p)
}

// full reports whether a peer gets no more messages for now. The caller holds mu.
func (p *peer) full() bool { return len(p.queue) >= maxQueued || p.queuedBytes >= maxQueuedBytes }

// windowFull reports whether the peer has to acknowledge something before it gets more.
func (p *peer) windowFull() bool {
	return len(p.unacked) >= maxUnacked || p.unackedBytes >= maxUnackedBytes
}

// startSender makes sure that a goroutine sends what is queued. The caller holds mu.
func (r *Replicas) startSender(p *peer) {
	select {
	case p.wake <- struct{}{}:
	default:
	}
	if !p.sending && !r.stopped {
		p.sending = true
		r.running.Go(func() { r.sendAll(p) })
	}
}

// sendAll appends the frames of a peer's queue to its inbox until none is left.
func (r *Replicas) sendAll(p *peer) {
	for {
		r.mu.Lock()
		var batch []*frame
		cut, ended := p.cut, r.stopped || r.peers[p.name] != p
		if !ended {
			batch = r.nextBatch(p)
		}
		if len(batch) == 0 {
			if ended || len(p.queue) == 0 {
				p.sending = false
				if p.idle != nil {
					close(p.idle)
					p.idle = nil
				}
				r.mu.Unlock()
				return
			}
			r.mu.Unlock()
			select {
			case <-p.wake:
			case <-cut.Done():
			}
			continue
		}
		r.mu.Unlock()
		r.send(cut, p.name, batch)
	}
}

// nextBatch takes frames from the queue. The caller holds mu.
func (r *Replicas) nextBatch(p *peer) []*frame {
	var batch []*frame
	for len(p.queue) > 0 && len(batch) < maxBatch && !p.windowFull() {
		f := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.queuedBytes -= len(f.body)
		p.out.number++
		f.at = p.out
		if c := r.calls[f.id]; c != nil && f.kind == frameBegin {
			c.begun = f.at
		}
		size := len(f.body)
		p.unacked = append(p.unacked, size)
		p.unackedBytes += size
		batch = append(batch, p.stamp(f))
	}
	if len(batch) == 0 && p.owesHello {
		batch = append(batch, p.stamp(&frame{kind: frameHello, from: r.o.Name, at: p.out}))
	}
	if len(batch) > 0 {
		p.owesHello, p.received, p.inBytes = false, 0, 0
	}
	return batch
}

// stamp completes a frame with what has been received.
func (p *peer) stamp(f *frame) *frame {
	f.ack, f.since = p.in, p.since
	return f
}

// acknowledged notes that the peer has received all frames up to one. The caller holds mu.
func (p *peer) acknowledged(ack position) {
	if ack.link != p.out.link || ack.number > p.out.number {
		return
	}
	left := int(min(p.out.number-ack.number, uint64(len(p.unacked))))
	for len(p.unacked) > left {
		p.unackedBytes -= p.unacked[0]
		p.unacked = p.unacked[1:]
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// send appends frames to an inbox. It tries again while the store is away: a frame that arrives twice
// is ignored.
func (r *Replicas) send(ctx context.Context, to string, batch []*frame) {
	entries := make([][]byte, len(batch))
	for i, f := range batch {
		if len(f.body) > maxInline {
			if !r.storeBody(ctx, to, f) {
				return
			}
			short := *f
			short.stored, short.body = uint64(len(f.body)), nil
			f = &short
		}
		entries[i] = f.encode()
	}
	for failures := 0; ctx.Err() == nil; failures++ {
		err := r.o.Store.Append(ctx, inboxKey(to), keepInbox, frameTTL, entries...)
		if err == nil {
			return
		}
		r.log.Warn("messages for another replica wait for the store", zap.Error(err))
		if !pause(ctx, failures) {
			return
		}
	}
}

func (r *Replicas) storeBody(ctx context.Context, to string, f *frame) bool {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := r.o.Store.Put(ctx, bodyKey(to, f), f.body, frameTTL)
		if err == nil {
			return true
		}
		r.log.Warn("messages for another replica wait for the store", zap.Error(err))
		if !pause(ctx, failures) {
			break
		}
	}
	return false
}

// bodyKey names the body of a frame to a replica.
func bodyKey(to string, f *frame) store.Key {
	name := binary.BigEndian.AppendUint64(nil, f.at.link)
	name = binary.BigEndian.AppendUint64(name, f.at.number)
	return store.Key{Kind: kindBody, Name: string(name) + f.from + "\x00" + to}
}
