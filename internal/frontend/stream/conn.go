package stream

import (
	"context"
	"math/rand/v2"
	"time"

	"mcpgateway/internal/wire"
)

// Writer sends bytes to one client. Only one goroutine uses it at a time.
type Writer interface {
	// Open is called once, before the first Write.
	Open()
	// Write sends the pieces of a text without delay. It reports false if the client is
	// gone or does not read.
	Write(text Pieces) bool
}

// Pieces is a text in up to three pieces, some of which may be empty.
type Pieces [3][]byte

// Conn is one connection that carries a stream. It ends when the stream ends, or
// when another connection takes the stream over.
type Conn struct {
	st   *Stream
	w    Writer
	wake chan struct{} // holds at most one token
}

// signal wakes up Run.
func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // a token is there already
	}
}

// batch is what a connection writes next.
type batch struct {
	frames  []byte
	last    [2][]byte                 // follows the frames
	pending map[wire.ID]Notifications // the notifications among the frames
	gone    bool                      // the stream has left the connection
	ended   bool                      // nothing comes after the frames
}

// next takes out of the stream what c has to write. spare is a buffer to reuse.
func (st *Stream) next(c *Conn, spare []byte) batch {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.conn != c {
		return batch{gone: true}
	}
	b := batch{frames: st.queue, last: st.last, pending: st.pending, ended: st.ended}
	for subscription, n := range st.pending {
		for _, msg := range n.messages(subscription) {
			b.frames = st.appendFrame(b.frames, st.record.add(msg, false), msg)
		}
	}
	st.queue, st.last, st.behind, st.pending = spare[:0], [2][]byte{}, 0, nil
	st.taken.Broadcast()
	return b
}

var keepAliveComment = wire.AppendComment(nil, "keep-alive")

// silence returns how long a stream may be silent this time. It differs, because the
// comments of thousands of streams that opened together would delay calls every time.
func silence() time.Duration { return keepAlive - rand.N(keepAlive/3) }

// Run writes what is put into the stream until the stream ends, and keep-alive
// comments while there is nothing to write. It reports whether the stream ended in
// good order: not if ctx ended, if the client has gone or was too slow, or if another
// connection took over. When expire fires, the client is told to come again and Run
// returns, while the stream stays. A nil expire never fires. Run is called once.
func (c *Conn) Run(ctx context.Context, expire <-chan time.Time) bool {
	if c.st.Gauge != nil {
		c.st.Gauge.Inc()
		defer c.st.Gauge.Dec()
	}
	c.w.Open()
	tick := time.NewTicker(silence())
	defer tick.Stop()
	var spare []byte
	for {
		b := c.st.next(c, spare)
		switch {
		case b.gone:
			return false
		case len(b.frames) > 0:
			if !c.w.Write(Pieces{b.frames, b.last[0], b.last[1]}) {
				c.st.release(c, b.pending)
				return false
			}
			tick.Reset(silence())
			spare = b.frames
			continue
		case b.ended:
			c.st.release(c, nil)
			return true
		}
		spare = b.frames
		alive := true
		select {
		case <-c.wake:
		case <-tick.C:
			alive = c.st.Lines || c.w.Write(Pieces{keepAliveComment})
			tick.Reset(silence())
		case <-ctx.Done():
			alive = false
		case <-expire:
			c.w.Write(Pieces{wire.AppendRetry(nil, pollAgain)})
			alive = false
		}
		if !alive {
			c.st.release(c, nil)
			return false
		}
	}
}
