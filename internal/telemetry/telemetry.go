package telemetry

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/plaintext"
)

// Namespace is the prefix of the gateway's own metrics.
const Namespace = "mcp_gateway"

// NewRegistry returns a registry with the collectors of the Go runtime and of the process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// LogOptions configure the logger.
type LogOptions struct {
	Level string // debug, info, warn, error
	// Current, if set, becomes the level of the logger, which may be changed later.
	Current *zap.AtomicLevel
	Format  string // console, json, or auto: console when Out is a terminal
	Out     *os.File
	// Colour colors the level in the console format.
	Colour bool
	// Through, if set, receives the lines instead of Out. Use it if something else writes
	// to the same terminal.
	Through io.Writer
}

// JSON reports whether lines are JSON objects.
func (o *LogOptions) JSON() bool {
	return o.Format != "console" && (o.Format != "auto" || !isTerminal(o.Out))
}

// encodeTime encodes a time in UTC, as the audit does, so that the times of several machines can
// be compared.
func encodeTime(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	room := timeRoom.Get().(*[32]byte)
	enc.AppendByteString(plaintext.AppendTime(room[:0], t))
	timeRoom.Put(room)
}

var timeRoom = sync.Pool{New: func() any { return new([32]byte) }}

// flushInterval bounds how long a log line is buffered. Lines are buffered because one
// system call for each line would cost more than the rest of a call through the gateway.
const flushInterval = 200 * time.Millisecond

// NewLogger returns a logger and a function that writes the buffered lines and ends the
// logger's goroutine. Lines of level warn and above are written immediately.
func NewLogger(o LogOptions) (*zap.Logger, func(), error) {
	level, err := zap.ParseAtomicLevel(o.Level)
	if err != nil {
		return nil, nil, fmt.Errorf("log level %q: want debug, info, warn or error", o.Level)
	}
	if o.Current != nil {
		*o.Current = level
	}
	var enc zapcore.Encoder
	if !o.JSON() {
		cfg := zap.NewDevelopmentEncoderConfig()
		cfg.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		if o.Colour {
			cfg.EncodeLevel = zapcore.CapitalColorLevelEncoder
		}
		cfg.EncodeDuration = zapcore.StringDurationEncoder
		enc = newConsoleEncoder(cfg)
	} else {
		cfg := zap.NewProductionEncoderConfig()
		cfg.TimeKey, cfg.EncodeTime = "time", encodeTime
		cfg.EncodeDuration = zapcore.StringDurationEncoder // a bare number has no unit
		enc = zapcore.NewJSONEncoder(cfg)
	}
	buffered := &zapcore.BufferedWriteSyncer{WS: zapcore.Lock(zapcore.AddSync(o.writer())), FlushInterval: flushInterval}
	_, _ = buffered.Write(nil) // it starts the goroutine now, so that a process has the same ones before and after its first line
	core := zapcore.NewCore(enc, buffered, level)
	log := zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if e.Level >= zapcore.WarnLevel {
			return buffered.Sync()
		}
		return nil
	}))
	return log, func() { buffered.Stop() }, nil
}

// writer returns the output without its Sync method: it fails for pipes and terminals, and
// a log need not survive a power failure.
func (o *LogOptions) writer() io.Writer {
	switch {
	case o.Through != nil:
		return struct{ io.Writer }{o.Through}
	case o.Out == nil:
		return io.Discard
	}
	return struct{ io.Writer }{o.Out}
}

func isTerminal(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
