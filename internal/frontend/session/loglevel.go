package session

import (
	"sync"

	"mcpgateway/internal/wire"
)

// LogLevel returns the level that the client has set, or LevelNone. A nil session has
// set none.
func (s *Session) LogLevel() wire.Level {
	if s == nil {
		return wire.LevelNone
	}
	return wire.Level(s.level.Load())
}

// SetLogLevel sets the level of log messages that the client wants.
func (s *Session) SetLogLevel(to wire.Level) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.levels.change(wire.Level(s.level.Swap(uint32(to))), to)
}

// WantsLog reports whether the client wants a log message that belongs to no call,
// with these params. A client that has set no level gets no debug messages.
func (s *Session) WantsLog(params wire.Raw) bool {
	least := s.LogLevel()
	if least == wire.LevelNone {
		least = wire.LevelInfo
	}
	level, known := wire.ParseLevel(wire.ValueOf(params).Get("level").Str())
	return !known || level >= least
}

// levelTracker counts the sessions that have set each level, and reports the most
// verbose level whenever it changes.
type levelTracker struct {
	report func(wire.Level)

	mu     sync.Mutex
	counts [wire.LevelEmergency + 1]int
	least  wire.Level
}

// change moves one session from one level to another. Sessions that have set no level
// count for LevelNone.
func (l *levelTracker) change(from, to wire.Level) {
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
