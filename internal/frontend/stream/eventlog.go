package stream

import (
	"sync"

	"mcpgateway/internal/fairshare"
)

// EventLog keeps the events of one session's streams, so that a client whose
// connection broke can have the events that it missed. Its methods may be called
// concurrently for different streams, not for the same stream. They must not block
// for long.
//
// A log may forget events at any time, the oldest first: [Stream.Resume] notices the
// gap. A log that is an io.Closer is closed when its session ends. Append may still
// be called after that.
type EventLog interface {
	// Append keeps an event. The events of a stream are numbered 1, 2, 3 and so on.
	// The log may keep the data, which nobody changes any more.
	Append(stream string, number int, data []byte)
	// After returns the data of the events of a stream that have a higher number and
	// are still kept, in order. The caller must not change the data.
	After(stream string, number int) [][]byte
}

// Bounds of one log in memory. A larger event is not kept at all.
const (
	MaxLogBytes  = 4 << 20
	MaxLogEvents = 1000
)

// MemoryLog is an EventLog in memory. It allocates nothing before the first event. If
// its share of the budget is used up, it drops its own oldest events to make room, and
// if that is not enough, it does not keep the new event.
type MemoryLog struct {
	budget *fairshare.Budget // bytes of all logs
	share  fairshare.Share

	mu     sync.Mutex
	events []loggedEvent // the oldest first
	bytes  int
	closed bool
}

type loggedEvent struct {
	stream string
	number int
	data   []byte
}

// NewMemoryLog returns an empty log whose events count for a share of the budget.
func NewMemoryLog(budget *fairshare.Budget, share fairshare.Share) *MemoryLog {
	return &MemoryLog{budget: budget, share: share}
}

// Append implements EventLog.
func (l *MemoryLog) Append(stream string, number int, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(data) > MaxLogBytes || l.closed {
		return
	}
	for !l.acquire(len(data)) {
		if len(l.events) == 0 {
			return
		}
		l.release(len(l.events[0].data))
		l.events[0] = loggedEvent{} // so that its data can be collected
		l.events = l.events[1:]
	}
	l.events = append(l.events, loggedEvent{stream, number, data})
}

// acquire reserves room for one more event of n bytes. The caller holds mu.
func (l *MemoryLog) acquire(n int) bool {
	if l.bytes+n > MaxLogBytes || len(l.events) >= MaxLogEvents || l.budget.Acquire(l.share, int64(n)) != nil {
		return false
	}
	l.bytes += n
	return true
}

func (l *MemoryLog) release(n int) {
	l.bytes -= n
	l.budget.Release(l.share, int64(n))
}

// Close implements io.Closer. The log forgets everything, and keeps no further event.
func (l *MemoryLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(l.bytes)
	l.events, l.closed = nil, true
	return nil
}

// After implements EventLog.
func (l *MemoryLog) After(stream string, number int) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out [][]byte
	for _, e := range l.events {
		if e.stream == stream && e.number > number {
			out = append(out, e.data)
		}
	}
	return out
}
