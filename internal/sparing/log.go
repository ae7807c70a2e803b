package sparing

import (
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"
)

// The allowance of each message on each level.
const (
	atOnce    = 20
	perSecond = 1
)

// Log writes lines that clients can cause: of each message so many at once, and then
// one a second. The others are on debug, and the next line of the message has their
// number as left_out. All methods may be called by many goroutines at once.
type Log struct {
	to *zap.Logger

	mu    sync.Mutex
	lines map[line]*allowance // as many as there are messages in the source
}

type line struct {
	level   zapcore.Level
	message string
}

type allowance struct {
	*rate.Limiter
	leftOut int
}

// New returns a log that writes to another, nil for none.
func New(to *zap.Logger) *Log {
	if to == nil {
		to = zap.NewNop()
	}
	return &Log{to: to, lines: make(map[line]*allowance)}
}

// Info writes a line on info. The message must not have anything of a client's in
// it, here and in the other methods: what differs goes into fields.
func (l *Log) Info(message string, fields ...zap.Field) { l.Log(zapcore.InfoLevel, message, fields...) }

// Warn writes a line on warn.
func (l *Log) Warn(message string, fields ...zap.Field) { l.Log(zapcore.WarnLevel, message, fields...) }

// Error writes a line on error.
func (l *Log) Error(message string, fields ...zap.Field) {
	l.Log(zapcore.ErrorLevel, message, fields...)
}

// Log writes a line. One on debug needs no allowance.
func (l *Log) Log(level zapcore.Level, message string, fields ...zap.Field) {
	if !l.to.Core().Enabled(level) {
		return
	}
	if level > zapcore.DebugLevel {
		switch leftOut, ok := l.take(line{level, message}); {
		case !ok:
			level = zapcore.DebugLevel
		case leftOut > 0:
			fields = append(fields, zap.Int("left_out", leftOut))
		}
	}
	if entry := l.to.Check(level, message); entry != nil {
		entry.Write(fields...)
	}
}

// take reports whether a line may be written, and if so how many were left out since
// the last one that was.
func (l *Log) take(of line) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.lines[of]
	if a == nil {
		a = &allowance{Limiter: rate.NewLimiter(perSecond, atOnce)}
		l.lines[of] = a
	}
	if !a.Allow() {
		a.leftOut++
		return 0, false
	}
	leftOut, a.leftOut = a.leftOut, 0
	return leftOut, true
}
