package frontend

import (
	"bytes"
	"sync"

	"mcpgateway/internal/fairshare"
)

// EventLog keeps the events of one session, so that a client whose connection
// broke can have again what it has missed. Its methods may be called by many
// goroutines at once, but not for the same stream; they must not block for long.
//
// A log may forget events at any time, the oldest first; the front end notices
// the gap. One that is an io.Closer is closed when its session ends; events may
// still come after that.
type EventLog interface {
	// Append keeps an event. The events of a stream are numbered 1, 2, 3 …
	// The data must not be kept: the log copies it.
	Append(stream string, number int, data []byte)
	// After returns the data of the events of a stream that come after a number
	// and are still there, in order. They must not be changed.
	After(stream string, number int) [][]byte
}

// What a log in memory holds at most. An event that is larger by itself is not
// kept at all.
const (
	maxLogBytes  = 4 << 20
	maxLogEvents = 1000
)

// memoryLog is an EventLog that lives as long as its session. It takes no memory
// before the first event. When its owner's share of the space that all logs have is
// used up it makes room by what it holds itself, and keeps nothing when that is not
// enough.
type memoryLog struct {
	budget *fairshare.Budget // bytes
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

func (l *memoryLog) Append(stream string, number int, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(data) > maxLogBytes || l.closed {
		return
	}
	for !l.take(len(data)) {
		if len(l.events) == 0 {
			return
		}
		l.give(len(l.events[0].data))
		l.events[0] = loggedEvent{} // its data is garbage from now on
		l.events = l.events[1:]
	}
	l.events = append(l.events, loggedEvent{stream, number, bytes.Clone(data)})
}

// take makes room for one more event of n bytes, if there is any. The caller holds mu.
func (l *memoryLog) take(n int) bool {
	if l.bytes+n > maxLogBytes || len(l.events) >= maxLogEvents || l.budget.Acquire(l.share, int64(n)) != nil {
		return false
	}
	l.bytes += n
	return true
}

func (l *memoryLog) give(n int) {
	l.bytes -= n
	l.budget.Release(l.share, int64(n))
}

// Close implements io.Closer: the log forgets everything, and keeps nothing more.
func (l *memoryLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.give(l.bytes)
	l.events, l.closed = nil, true
	return nil
}

func (l *memoryLog) After(stream string, number int) [][]byte {
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
