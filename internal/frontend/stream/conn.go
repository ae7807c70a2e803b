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

// Waiter is a Writer that waits by itself, at less cost than a Conn does.
type Waiter interface {
	Writer
	// Wait returns when Wake is called, at the latest at a time, and possibly earlier. A
	// call of Wake before Wait counts. The zero time means no limit. Wait reports false if
	// the client is gone.
	Wait(until time.Time) bool
	// Wake may be called by any goroutine, also after Run. It does not block.
	Wake()
}

// Conn is one connection that carries a stream. It ends when the stream ends, or
// when another connection takes the stream over.
type Conn struct {
	st *Stream
	w  Writer // of Run

	// The lock of the stream guards these until Run has begun.
	waiter Waiter        // w, or nil if the Conn itself has to wait
	wake   chan struct{} // holds at most one token; nil with a waiter

	timer *time.Timer // for wait; nil with a waiter
	spare []byte      // what was written last, to reuse
}

// begin makes signal wake up a Run that writes to w.
func (c *Conn) begin(w Writer) {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.w = w
	if c.waiter, _ = w.(Waiter); c.waiter == nil {
		c.wake = make(chan struct{}, 1)
	}
}

// signal wakes up Run. The caller holds the lock of the stream.
func (c *Conn) signal() {
	if c.waiter != nil {
		c.waiter.Wake()
		return
	}
	select {
	case c.wake <- struct{}{}:
	default: // a token is there already, or Run has not begun
	}
}

// wait waits for a signal, at most until a time unless that is zero. It reports false if
// ctx has ended.
func (c *Conn) wait(ctx context.Context, until time.Time) bool {
	var late <-chan time.Time
	if !until.IsZero() {
		if c.timer == nil {
			c.timer = time.NewTimer(time.Until(until))
		} else {
			c.timer.Reset(time.Until(until))
		}
		late = c.timer.C
	}
	select {
	case <-c.wake:
	case <-late:
	case <-ctx.Done():
		return false
	}
	return true
}

// batch is the data that a connection writes next.
type batch struct {
	frames  []byte
	last    [2][]byte                 // follows the frames
	pending map[wire.ID]Notifications // the notifications among the frames
	gone    bool                      // the stream has left the connection
	ended   bool                      // nothing comes after the frames
}

// maxSpare is the size up to which a connection keeps the buffer of what it has written:
// most streams are silent most of the time.
const maxSpare = 512

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
	if len(b.frames) == 0 {
		if b.frames = nil; cap(spare) > maxSpare {
			spare = nil
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

// Ends says when a connection ends although its client is there. The zero time means never.
type Ends struct {
	Poll time.Time // the client is told to come again, and the stream stays
	At   time.Time // the connection just ends
}

// Run writes to w what is put into the stream until the stream ends, and keep-alive
// comments while there is nothing to write. It reports whether the stream ended in
// good order: not if ctx or the connection ended, if the client has gone or was too slow,
// or if another connection took over. A [Waiter] may notice the end of ctx with the next
// keep-alive only. Run is called once.
func (c *Conn) Run(ctx context.Context, w Writer, ends Ends) bool {
	c.begin(w)
	if c.st.Gauge != nil {
		c.st.Gauge.Inc()
		defer c.st.Gauge.Dec()
	}
	c.w.Open()
	if c.waiter == nil {
		defer c.stopTimer()
	}
	silent := time.Now().Add(silence()) // when a keep-alive is due
	for {
		switch c.writeNext() {
		case streamEnded:
			return true
		case connEnded:
			return false
		case written:
			silent = time.Now().Add(silence())
			continue
		}
		alive, until := false, ends.before(silent)
		if c.waiter != nil {
			alive = c.waiter.Wait(until) && ctx.Err() == nil
		} else {
			alive = c.wait(ctx, until)
		}
		if !alive || !c.writeDue(&silent, ends) {
			c.st.release(c, nil)
			return false
		}
	}
}

func (c *Conn) stopTimer() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// The outcomes of writeNext.
const (
	nothing     = iota // there is nothing to write
	written            // there may be more
	streamEnded        // everything is written
	connEnded          // the client is gone or too slow, or another connection took over
)

// writeNext writes what is in the stream now.
func (c *Conn) writeNext() (outcome int) {
	b := c.st.next(c, c.spare)
	c.spare = b.frames
	switch {
	case b.gone:
		return connEnded
	case len(b.frames) > 0:
		if !c.w.Write(Pieces{b.frames, b.last[0], b.last[1]}) {
			c.st.release(c, b.pending)
			return connEnded
		}
		return written
	case b.ended:
		c.st.release(c, nil)
		return streamEnded
	}
	return nothing
}

// writeDue writes what the time demands. It reports whether the connection goes on.
func (c *Conn) writeDue(silent *time.Time, ends Ends) bool {
	now := time.Now()
	switch {
	case isDue(ends.At, now):
		return false
	case isDue(ends.Poll, now):
		c.w.Write(Pieces{wire.AppendRetry(nil, pollAgain)})
		return false
	case isDue(*silent, now):
		*silent = now.Add(silence())
		return c.st.Lines || c.w.Write(Pieces{keepAliveComment})
	}
	return true
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// before returns the earliest of the ends and another time.
func (e Ends) before(t time.Time) time.Time {
	for _, at := range [...]time.Time{e.Poll, e.At} {
		if !at.IsZero() && at.Before(t) {
			t = at
		}
	}
	return t
}
