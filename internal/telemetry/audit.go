package telemetry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// AuditStdout is the name of standard output in AuditOptions.File.
const AuditStdout = "-"

// AuditOptions say where the lines of an audit go.
type AuditOptions struct {
	File     string    // a path, whose folder is made if need be, or AuditStdout
	Stdout   io.Writer // for AuditStdout; nil: os.Stdout
	MaxBytes int64     // a file is closed before it gets larger; 0: never
	MaxFiles int       // closed files that are kept; 0: all
	Logger   *zap.Logger
	Metrics  *AuditMetrics
}

// AuditMetrics count what went wrong with the audit.
type AuditMetrics struct{ failures prometheus.Counter }

// NewAuditMetrics makes the metrics, registered nowhere yet.
func NewAuditMetrics() *AuditMetrics {
	return &AuditMetrics{prometheus.NewCounter(prometheus.CounterOpts{
		Name: Namespace + "_audit_failures_total", Help: "Lines of the audit that could not be written when they were due.",
	})}
}

// Collectors returns what is to be registered.
func (m *AuditMetrics) Collectors() []prometheus.Collector { return []prometheus.Collector{m.failures} }

// maxHeld bounds the lines that wait for a file that cannot be written. They tell
// of calls that were running then, so there are no more than may run.
const maxHeld = 1 << 14

// Audit writes lines to a file, each with one call of the operating system, which
// has it when the method returns: the end of the process loses nothing, the loss
// of power may.
//
// Whoever moves the file away, such as logrotate, need not tell: the next line
// goes to a new one. Several processes may write to one file. A line that was cut
// by a full disk is ended before the next begins.
//
// Its methods may be called by any number of goroutines. Whoever has
// opened it, or written a line, closes it.
type Audit struct {
	opt AuditOptions

	mu     sync.Mutex
	out    io.Writer   // nil while no file is open
	file   *os.File    // out, unless that is standard output
	info   os.FileInfo // of file, for whether it is still the one with that name
	size   int64       // of file
	torn   bool        // the last line has no end
	held   [][]byte    // lines that have to be written before others
	failed bool        // the last line could not be written
	stuck  bool        // the file could not be changed for a new one, which was told
}

// NewAudit returns an audit whose file is not open yet.
func NewAudit(o AuditOptions) *Audit {
	a := &Audit{opt: o}
	if o.File == AuditStdout {
		if a.out = o.Stdout; a.out == nil {
			a.out = os.Stdout
		}
	}
	return a
}

// Open opens the file, which otherwise the first line does.
func (a *Audit) Open() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.opt.File == AuditStdout {
		return nil
	}
	return a.place(0)
}

// Before writes a line of what is about to be done. After an error it must not be
// done. The line ends with its only line break, and stays the caller's.
func (a *Audit) Before(line []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.told(a.write(line))
}

// After writes a line of what was done. Where that fails the line is kept, and
// written before any other.
func (a *Audit) After(line []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told(a.write(line)) == nil {
		return
	}
	if len(a.held) < maxHeld {
		a.held = append(a.held, append([]byte(nil), line...))
	} else {
		a.opt.Logger.Error("a line of the audit is lost", zap.ByteString("line", line))
	}
}

// Close writes what it can of the lines that were kept, and closes the file.
func (a *Audit) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.writeHeld()
	if err != nil {
		err = fmt.Errorf("%d lines of the audit are lost: %w", len(a.held), err)
	}
	a.held = nil
	return errors.Join(err, a.closeFile())
}

// told counts and logs whether a line could be written. The caller holds mu.
func (a *Audit) told(err error) error {
	if err != nil {
		a.opt.Metrics.failures.Inc()
	}
	if failed := err != nil; failed != a.failed {
		a.failed = failed
		if failed {
			a.opt.Logger.Error("the audit cannot be written; calls are refused until it can", zap.String("file", a.opt.File), zap.Error(err))
		} else {
			a.opt.Logger.Info("the audit is written again", zap.String("file", a.opt.File))
		}
	}
	return err
}

// write writes a line after those that wait. The caller holds mu.
func (a *Audit) write(line []byte) error {
	if err := a.writeHeld(); err != nil {
		return err
	}
	return a.writeLine(line)
}

func (a *Audit) writeHeld() error {
	for len(a.held) > 0 {
		if err := a.writeLine(a.held[0]); err != nil {
			return err
		}
		a.held = a.held[1:]
	}
	return nil
}

func (a *Audit) writeLine(line []byte) error {
	if a.opt.File != AuditStdout {
		if err := a.place(int64(len(line))); err != nil {
			return err
		}
	}
	if a.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := a.out.Write(line)
	a.size += int64(n)
	if n > 0 {
		a.torn = line[n-1] != '\n'
	}
	return err
}

// place sees to it that the file is open, the one with that name, and has room
// for n bytes. The caller holds mu.
func (a *Audit) place(n int64) error {
	if a.file != nil {
		now, err := os.Stat(a.opt.File)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case err != nil || !os.SameFile(now, a.info): // moved away; what it has, it has
			_ = a.closeFile()
		default:
			a.size = now.Size() // others may write to it
		}
	}
	if a.file == nil {
		if err := a.open(); err != nil {
			return err
		}
	}
	if a.opt.MaxBytes > 0 && a.size > 0 && a.size+n > a.opt.MaxBytes {
		return a.rotate()
	}
	return nil
}

// open opens the file, or makes it. The caller holds mu, or is the only one.
func (a *Audit) open() error {
	if info, err := os.Stat(a.opt.File); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no plain file; for standard output, the name is %q", a.opt.File, AuditStdout)
	}
	if err := os.MkdirAll(filepath.Dir(a.opt.File), 0o700); err != nil {
		return err
	}
	// It is read only to see how it ends.
	f, err := os.OpenFile(a.opt.File, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	a.torn = false
	if size := info.Size(); size > 0 {
		var last [1]byte
		_, err := f.ReadAt(last[:], size-1)
		a.torn = err != nil || last[0] != '\n'
	}
	a.out, a.file, a.info, a.size = f, f, info, info.Size()
	return nil
}

func (a *Audit) closeFile() error {
	if a.file == nil {
		return nil
	}
	err := a.file.Close()
	a.out, a.file = nil, nil
	return err
}
