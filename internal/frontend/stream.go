package frontend

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/wire"
)

// outlet takes messages for a client that come before, or beside, the answer to
// a request. send does not wait for the client; it reports false when the
// message cannot reach the client this way. The message is copied.
type outlet interface {
	send(msg []byte) bool
}

// changes is a set of lists that have changed.
type changes uint8

const (
	toolsChanged changes = 1 << iota
	promptsChanged
	resourcesChanged
)

// methods lists the notifications that stand for c.
func (c changes) methods() []string {
	var out []string
	for i, method := range [...]string{wire.NoteToolsChanged, wire.NotePromptsChanged, wire.NoteResourcesChanged} {
		if c&(1<<i) != 0 {
			out = append(out, method)
		}
	}
	return out
}

// stream is a sequence of messages to one client. Any goroutine may put messages
// in, at any time; the connection that carries the stream writes them out. A
// stream with a record outlives its connections and continues on the next one
// where the client says that the last one broke; any other ends with its
// connection.
type stream struct {
	gauge prometheus.Gauge // nil for what is no stream of events
	lines bool             // messages are lines, as on stdio, in place of server-sent events
	// drops says that a message too many is dropped, where otherwise the client
	// loses the connection.
	drops  bool
	record *record // nil when messages are lost with the connection

	mu      sync.Mutex
	conn    *conn            // what carries the stream, nil when nothing does
	queue   []byte           // frames that conn has not taken yet
	behind  int              // bytes of the messages that were put into queue; what is replayed does not count
	changed map[wire.ID]news // what conn has not taken yet, by subscription
	ended   bool             // nothing more goes in; what is there is still written
	room    sync.Cond        // the queue was taken, or will never be
}

func (s *Server) newStream(era wire.Era) *stream {
	st := &stream{gauge: s.options.Metrics.Streams.WithLabelValues(era.String())}
	st.room.L = &st.mu
	return st
}

// send puts one message in. It never blocks. A client that has fallen too far
// behind loses the connection.
func (st *stream) send(msg []byte) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.put(msg)
}

// sendPatiently is send for what may wait until a slow client has caught up, for so
// long or, when that is 0, for ever.
func (st *stream) sendPatiently(msg []byte, patience time.Duration) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	late := false
	if patience > 0 {
		timer := time.AfterFunc(patience, func() {
			st.mu.Lock()
			defer st.mu.Unlock()
			late = true
			st.room.Broadcast()
		})
		defer timer.Stop()
	}
	for !late && !st.ended && st.conn != nil && st.overflows(msg) {
		st.room.Wait()
	}
	return st.put(msg)
}

// overflows reports whether the client has fallen behind by too much for one
// more message. A large message is none too many for one that has kept up.
func (st *stream) overflows(msg []byte) bool {
	return st.behind > 0 && st.behind+len(msg) > maxQueue
}

// put puts a message in. The caller holds mu.
func (st *stream) put(msg []byte) bool {
	switch {
	case st.ended:
		return false
	case st.conn == nil || !st.overflows(msg):
	case st.drops:
		return false
	default:
		st.leave()
	}
	id := st.record.add(msg)
	if st.conn == nil {
		return st.record != nil // the client can still come for it
	}
	st.queue = st.frame(st.queue, id, msg)
	st.behind += len(msg)
	st.conn.signal()
	return true
}

// frame appends a message in the form in which it travels.
func (st *stream) frame(dst []byte, id string, msg []byte) []byte {
	if st.lines {
		return wire.AppendLine(dst, msg)
	}
	return wire.AppendEvent(dst, wire.Event{ID: id, HasID: id != "", Data: msg})
}

// finish puts the last messages in, however far the client is behind, and ends
// the stream.
func (st *stream) finish(msgs ...[]byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	for _, msg := range msgs {
		id := st.record.add(msg)
		if st.conn != nil {
			st.queue = st.frame(st.queue, id, msg)
		}
	}
	st.endLocked()
}

// end lets the connection end after what is in has been written.
func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.endLocked()
}

func (st *stream) endLocked() {
	st.ended = true
	st.room.Broadcast()
	if st.conn != nil {
		st.conn.signal()
	}
}

// tell puts news in, which carry the id of the subscription if there is one.
// News that are still waiting to be written coalesce. It reports false when
// nothing carries the stream.
func (st *stream) tell(subscription wire.ID, n news) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended || st.conn == nil {
		return false
	}
	st.keep(subscription, n)
	st.conn.signal()
	return true
}

// keep adds to what waits for a subscription. The caller holds mu.
func (st *stream) keep(subscription wire.ID, newer news) {
	if st.changed == nil {
		st.changed = make(map[wire.ID]news)
	}
	n := st.changed[subscription]
	n.add(newer)
	st.changed[subscription] = n
}

// isCarried reports whether a connection carries the stream.
func (st *stream) isCarried() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.conn != nil
}

// attach makes a connection the one that carries the stream. Whichever carried
// it before ends. It is called before anything is put in, and from then on only
// to resume.
func (st *stream) attach(to carrier) *conn {
	st.mu.Lock()
	defer st.mu.Unlock()
	c := st.attachLocked(to)
	st.prime()
	return c
}

func (st *stream) attachLocked(to carrier) *conn {
	st.leave()
	st.conn = &conn{st: st, to: to, wake: make(chan struct{}, 1)}
	return st.conn
}

// prime puts an event in that has an id and no data, if the client knows such
// events. The caller holds mu.
func (st *stream) prime() {
	if r := st.record; r != nil && r.primes && !st.ended {
		st.queue = st.frame(st.queue, r.add(nil), nil)
	}
}

// leave takes the stream off its connection, which ends. The caller holds mu.
func (st *stream) leave() {
	if st.conn != nil {
		st.conn.signal()
	}
	st.conn, st.queue, st.behind = nil, nil, 0
	st.room.Broadcast()
}

// detach is leave, if c still is what carries the stream. News that c has taken
// out and that did not reach the client go back in.
func (st *stream) detach(c *conn, unwritten map[wire.ID]news) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.conn != c {
		return
	}
	st.leave()
	newer := st.changed
	st.changed = unwritten
	for id, n := range newer {
		st.keep(id, n)
	}
}

// unwritten takes the news out that no connection has written.
func (st *stream) unwritten() news {
	st.mu.Lock()
	defer st.mu.Unlock()
	var all news
	for _, n := range st.changed {
		all.add(n)
	}
	st.changed = nil
	return all
}
