package ratelog

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"
)

// The rate limit of each message on each level, see [New].
const (
	burst     = 20
	perSecond = 1
)

// Logger writes the lines that clients can cause. Each message, of each category, may be written
// in a burst, and then once a second. Further lines go to the debug level, and the next line
// of the message and category carries their number as left_out. All methods may be called
// concurrently.
type Logger struct {
	to    *zap.Logger
	burst int
	rate  rate.Limit

	mu       sync.Mutex
	limiters map[line]*limiter // the source code bounds how many messages and categories there are
}

// Profile returns the field with the profile that a line is about. The default profile, "",
// has none.
func Profile(name string) zap.Field {
	if name == "" {
		return zap.Skip()
	}
	return zap.String("profile", name)
}

type line struct {
	level             zapcore.Level
	message, category string
}

type limiter struct {
	*rate.Limiter
	leftOut int
}

// New returns a Logger that writes to another logger, or nowhere if that is nil.
func New(to *zap.Logger) *Logger { return newLogger(to, burst, perSecond) }

// NewSums is New for lines that only repeat the first one: without a burst, and once a minute.
func NewSums(to *zap.Logger) *Logger { return newLogger(to, 1, rate.Every(time.Minute)) }

func newLogger(to *zap.Logger, burst int, limit rate.Limit) *Logger {
	if to == nil {
		to = zap.NewNop()
	}
	return &Logger{to: to, burst: burst, rate: limit, limiters: make(map[line]*limiter)}
}

// Info writes a line at the info level. In all methods the message must be constant:
// text from clients goes into fields, as each message has its own rate limit.
func (l *Logger) Info(message string, fields ...zap.Field) {
	l.Log(zapcore.InfoLevel, message, fields...)
}

// Warn writes a line at the warn level.
func (l *Logger) Warn(message string, fields ...zap.Field) {
	l.Log(zapcore.WarnLevel, message, fields...)
}

// Error writes a line at the error level.
func (l *Logger) Error(message string, fields ...zap.Field) {
	l.Log(zapcore.ErrorLevel, message, fields...)
}

// Log writes a line at a level. Lines at the debug level are not limited.
func (l *Logger) Log(level zapcore.Level, message string, fields ...zap.Field) {
	l.LogCategory(level, message, "", fields...)
}

// LogCategory writes a line of one category of a message. Each category has its own rate limit, so that a
// flood of refusals for one reason does not hide those for another. Categories must come from a
// closed set, such as reason codes: the logger remembers each.
func (l *Logger) LogCategory(level zapcore.Level, message, category string, fields ...zap.Field) {
	if !l.to.Core().Enabled(level) {
		return
	}
	if level > zapcore.DebugLevel {
		switch leftOut, ok := l.allow(line{level, message, category}); {
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

// allow reports whether a line may be written, and if so how many such lines were
// left out since the last one.
func (l *Logger) allow(of line) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lim := l.limiters[of]
	if lim == nil {
		lim = &limiter{Limiter: rate.NewLimiter(l.rate, l.burst)}
		l.limiters[of] = lim
	}
	if !lim.Allow() {
		lim.leftOut++
		return 0, false
	}
	leftOut, lim.leftOut = lim.leftOut, 0
	return leftOut, true
}
