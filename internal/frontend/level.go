package frontend

import (
	"sync"

	"mcpgateway/internal/wire"
)

// levelNames lists what a level may be, for errors.
const levelNames = "debug, info, notice, warning, error, critical, alert, emergency"

// levelOf returns the level that v names, LevelNone when it names none.
func levelOf(v wire.Value) wire.Level {
	l, _ := wire.ParseLevel(v.Str())
	return l
}

// levelCount knows how many sessions have set each level, and reports the most
// verbose one whenever it changes.
type levelCount struct {
	report func(wire.Level)

	mu     sync.Mutex
	counts [wire.LevelEmergency + 1]int
	least  wire.Level
}

// change moves one session from one level to another; LevelNone is that of
// sessions that have set none.
func (l *levelCount) change(from, to wire.Level) {
	if from == to {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[from]--
	l.counts[to]++
	least := wire.LevelNone
	for level := wire.LevelDebug; level <= wire.LevelEmergency; level++ {
		if l.counts[level] > 0 {
			least = level
			break
		}
	}
	if least != l.least {
		l.least = least
		l.report(least) // under the lock, so that reports arrive in order
	}
}
