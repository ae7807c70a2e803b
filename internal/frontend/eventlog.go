package frontend

import (
	"bytes"
	"sync"
)

// EventLog keeps the events of one session, so that a client whose connection
// broke can have again what it has missed. Its methods may be called by many
// goroutines at once, but not for the same stream; they must not block for long.
//
// A log may forget events at any time, the oldest first; the front end notices
// the gap.
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

// memoryLog is an EventLog that lives as long as its session. The zero log is
// ready for use and takes no memory before the first event.
type memoryLog struct {
	mu     sync.Mutex
	events []loggedEvent // the oldest first
	bytes  int
}

type loggedEvent struct {
	stream string
	number int
	data   []byte
}

func (l *memoryLog) Append(stream string, number int, data []byte) {
	if len(data) > maxLogBytes {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, loggedEvent{stream, number, bytes.Clone(data)})
	l.bytes += len(data)
	old := 0
	for l.bytes > maxLogBytes || len(l.events)-old > maxLogEvents {
		l.bytes -= len(l.events[old].data)
		l.events[old] = loggedEvent{} // its data is garbage from now on
		old++
	}
	l.events = l.events[old:]
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
