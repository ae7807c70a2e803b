package stream

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/wire"
)

const (
	// MaxQueue is how many bytes a client may fall behind on one stream. A single
	// larger message still passes if the client has kept up.
	MaxQueue = 1 << 20
	// keepAlive is how long a stream may be silent at most before a comment is sent. Proxies
	// commonly end idle connections after 30 or 60 seconds.
	keepAlive = 15 * time.Second
	// pollAgain is how long a client should wait before it resumes a stream whose
	// connection has expired.
	pollAgain = time.Second
)

// Options of a [Stream].
type Options struct {
	// Gauge counts the connections that carry the stream; nil if they are not counted.
	Gauge prometheus.Gauge
	// Lines makes each message a line, as on stdio, instead of a server-sent event.
	Lines bool
	// DropWhenBehind drops messages for a client that does not read. Without it such
	// a client loses its connection.
	DropWhenBehind bool
}

// Stream is a sequence of messages to one client. Its methods may be called
// concurrently. A stream of a [ReplayStore] outlives its connections; any other ends
// with its connection.
type Stream struct {
	Options
	record *recording // nil if messages are lost with the connection

	mu      sync.Mutex
	conn    *Conn                     // carries the stream; nil between connections
	queue   []byte                    // frames that conn has not taken yet
	last    [2][]byte                 // the rest of the last frame in queue, which is not copied
	behind  int                       // bytes of the new messages in queue; replayed events are not counted
	pending map[wire.ID]Notifications // not taken by conn yet, by subscription
	ended   bool                      // no more messages; those in the queue are still written
	taken   sync.Cond                 // the queue was taken, or never will be
}

// New returns a stream without a connection.
func New(o Options) *Stream {
	st := &Stream{Options: o}
	st.taken.L = &st.mu
	return st
}

// Send puts a message in, which is copied. It never blocks. A client that has fallen
// behind by more than MaxQueue loses the connection, or with DropWhenBehind the
// message. Send reports false if the message cannot reach the client.
func (st *Stream) Send(msg []byte) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.enqueue(msg)
}

// SendWait is Send, but waits first until a slow client has caught up: at most for
// limit, or if that is 0, without a limit.
func (st *Stream) SendWait(msg []byte, limit time.Duration) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	late := false
	if limit > 0 {
		timer := time.AfterFunc(limit, func() {
			st.mu.Lock()
			defer st.mu.Unlock()
			late = true
			st.taken.Broadcast()
		})
		defer timer.Stop()
	}
	for !late && !st.ended && st.conn != nil && st.overflows(msg) {
		st.taken.Wait()
	}
	return st.enqueue(msg)
}

// SendEvent puts an event in that is not a message. It must be called before any
// message can be.
func (st *Stream) SendEvent(ev wire.Event) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.queue = wire.AppendEvent(st.queue, ev)
}

// overflows reports whether the client has fallen too far behind for one more
// message. The caller holds mu.
func (st *Stream) overflows(msg []byte) bool {
	return st.behind > 0 && st.behind+len(msg) > MaxQueue
}

// enqueue puts a message in. The caller holds mu.
func (st *Stream) enqueue(msg []byte) bool {
	switch {
	case st.ended:
		return false
	case st.conn == nil || !st.overflows(msg):
	case st.DropWhenBehind:
		return false
	default:
		st.disconnect()
	}
	id := ""
	if st.record != nil {
		id = st.record.add(bytes.Clone(msg), false)
	}
	if st.conn == nil {
		return st.record != nil // the client can still fetch it
	}
	st.queue = st.appendFrame(st.queue, id, msg)
	st.behind += len(msg)
	st.conn.signal()
	return true
}

// appendFrame appends a message in its form on the wire.
func (st *Stream) appendFrame(dst []byte, id string, msg []byte) []byte {
	if st.Lines {
		return wire.AppendLine(dst, msg)
	}
	return wire.AppendEvent(dst, wire.Event{ID: id, HasID: id != "", Data: msg})
}

// Finish puts the last messages in, however far the client is behind, and ends the
// stream. The messages may be kept for a client that resumes the stream: the caller must
// not change them afterwards.
func (st *Stream) Finish(msgs ...[]byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	for i, msg := range msgs {
		id := st.record.add(msg, i == len(msgs)-1)
		if st.conn != nil {
			st.queue = st.appendFrame(st.queue, id, msg)
		}
	}
	st.endLocked()
}

// FinishLarge is Finish for one large message in three pieces. The connection writes the
// middle from where it is: the caller must not change it before [Conn.Run] has returned. For
// a log it is copied.
func (st *Stream) FinishLarge(begin, middle, end []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	id := ""
	if st.record != nil {
		msg := slices.Concat(begin, middle, end)
		id = st.record.add(msg, true)
		begin, middle, end = nil, msg, nil
	}
	switch {
	case st.conn == nil:
	case st.Lines || len(st.pending) > 0 || wire.HasLineBreak(begin) || wire.HasLineBreak(middle) || wire.HasLineBreak(end):
		st.queue = st.appendFrame(st.queue, id, slices.Concat(begin, middle, end))
	default:
		st.queue = append(wire.AppendEventStart(st.queue, id), begin...)
		st.last = [2][]byte{middle, slices.Concat(end, []byte(wire.EventEnd))}
	}
	st.endLocked()
}

// End ends the stream. The connection ends when it has written what is queued. End
// may be called more than once.
func (st *Stream) End() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.endLocked()
}

func (st *Stream) endLocked() {
	st.ended = true
	st.taken.Broadcast()
	if st.conn != nil {
		st.conn.signal()
	}
}

// Notify puts notifications in. If subscription is not the zero ID, they carry it.
// Notifications that were not written yet coalesce. Notify reports false if no
// connection carries the stream.
func (st *Stream) Notify(subscription wire.ID, n Notifications) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended || st.conn == nil {
		return false
	}
	st.addPending(subscription, n)
	st.conn.signal()
	return true
}

// addPending adds notifications for a subscription. The caller holds mu.
func (st *Stream) addPending(subscription wire.ID, newer Notifications) {
	if st.pending == nil {
		st.pending = make(map[wire.ID]Notifications)
	}
	n := st.pending[subscription]
	n.Add(newer)
	st.pending[subscription] = n
}

// IsConnected reports whether a connection carries the stream.
func (st *Stream) IsConnected() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.conn != nil
}

// Connect makes a new connection carry the stream. A connection that carried it
// before ends. Connect must be called before any message is put in; later connections
// come from Resume.
func (st *Stream) Connect() *Conn {
	st.mu.Lock()
	defer st.mu.Unlock()
	c := st.connectLocked()
	st.prime()
	return c
}

func (st *Stream) connectLocked() *Conn {
	st.disconnect()
	st.conn = &Conn{st: st}
	return st.conn
}

// prime puts an event in that has an id and no data, if the client knows such
// events. The caller holds mu.
func (st *Stream) prime() {
	if r := st.record; r != nil && r.primes && !st.ended {
		st.queue = st.appendFrame(st.queue, r.add(nil, false), nil)
	}
}

// Disconnect ends the connection that carries the stream. The client can resume the stream.
func (st *Stream) Disconnect() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.disconnect()
}

// disconnect takes the stream off its connection, which ends. The caller holds mu.
func (st *Stream) disconnect() {
	if st.conn != nil {
		st.conn.signal()
	}
	st.conn, st.queue, st.last, st.behind = nil, nil, [2][]byte{}, 0
	st.taken.Broadcast()
}

// release takes the stream off c, if c still carries it, and puts notifications back
// that c took and could not write.
func (st *Stream) release(c *Conn, unwritten map[wire.ID]Notifications) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.conn != c {
		return
	}
	st.disconnect()
	newer := st.pending
	st.pending = unwritten
	for id, n := range newer {
		st.addPending(id, n)
	}
}

// TakeUnwritten removes and returns the notifications that no connection has written.
func (st *Stream) TakeUnwritten() Notifications {
	st.mu.Lock()
	defer st.mu.Unlock()
	var all Notifications
	for _, n := range st.pending {
		all.Add(n)
	}
	st.pending = nil
	return all
}
