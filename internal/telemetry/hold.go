package telemetry

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Hold returns a logger that keeps its lines until release is called, and then writes them to
// log. So a line that says what is only known later can come first. Release is called once.
func Hold(log *zap.Logger) (held *zap.Logger, release func()) {
	h := &hold{}
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return heldCore{core, h} })), h.release
}

// hold keeps lines.
type hold struct {
	released atomic.Bool
	mu       sync.Mutex
	lines    []heldLine
}

type heldLine struct {
	core   zapcore.Core
	entry  zapcore.Entry
	fields []zapcore.Field
}

func (h *hold) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		l.write()
	}
	h.lines = nil
	h.released.Store(true)
}

func (l *heldLine) write() {
	if checked := l.core.Check(l.entry, nil); checked != nil {
		checked.Write(l.fields...)
	}
}

// heldCore is a core whose lines a hold keeps.
type heldCore struct {
	zapcore.Core
	h *hold
}

// With implements zapcore.Core.
func (c heldCore) With(fields []zapcore.Field) zapcore.Core {
	return heldCore{c.Core.With(fields), c.h}
}

// Check implements zapcore.Core.
func (c heldCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.h.released.Load() {
		return c.Core.Check(e, checked)
	}
	if !c.Enabled(e.Level) {
		return checked
	}
	return checked.AddCore(e, c)
}

// Write implements zapcore.Core.
func (c heldCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	l := heldLine{c.Core, e, append([]zapcore.Field(nil), fields...)}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.h.released.Load() {
		l.write()
		return nil
	}
	c.h.lines = append(c.h.lines, l)
	return nil
}
