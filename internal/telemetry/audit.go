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

// AuditOptions configure an Audit.
type AuditOptions struct {
	File     string    // a path, whose folder is created if it does not exist, or AuditStdout
	Stdout   io.Writer // for AuditStdout; nil means os.Stdout
	MaxBytes int64     // the file is rotated before it gets larger; 0 means never
	MaxFiles int       // how many rotated files are kept; 0 means all
	Logger   *zap.Logger
	Metrics  *AuditMetrics
}

// AuditMetrics count failures of the audit.
type AuditMetrics struct{ failures prometheus.Counter }

// NewAuditMetrics makes the metrics. The caller registers them.
func NewAuditMetrics() *AuditMetrics {
	return &AuditMetrics{prometheus.NewCounter(prometheus.CounterOpts{
		Name: Namespace + "_audit_failures_total", Help: "Lines of the audit that could not be written when they were due.",
	})}
}

// Collectors returns the collectors to register.
func (m *AuditMetrics) Collectors() []prometheus.Collector { return []prometheus.Collector{m.failures} }

// maxPending bounds the lines that wait while the file cannot be written. Only
// calls in progress have such lines, so there are no more lines than those calls.
const maxPending = 1 << 14

// Audit writes lines to a file, each with one system call. The operating system has the
// line when the method returns: the end of the process loses no line, a power failure may.
//
// If another program such as logrotate moves the file, the next line goes to a new file.
// Several processes may write to one file. A line that a full disk has cut is ended before
// the next one begins.
//
// The methods may be called by many goroutines at once. Call Close after Open or the first
// line.
type Audit struct {
	opt AuditOptions

	mu           sync.Mutex
	out          io.Writer   // nil while no file is open
	file         *os.File    // out, unless that is standard output
	info         os.FileInfo // of file, to notice that another file has its name
	size         int64       // of file
	torn         bool        // the last line is incomplete
	pending      [][]byte    // lines to write before others
	failed       bool        // the last line could not be written
	renameFailed bool        // the full file could not be renamed, and that was logged
}

// NewAudit returns an audit. Its file is not open yet.
func NewAudit(o AuditOptions) *Audit {
	a := &Audit{opt: o}
	if o.File == AuditStdout {
		if a.out = o.Stdout; a.out == nil {
			a.out = os.Stdout
		}
	}
	return a
}

// Open opens the file. Without it the first line does.
func (a *Audit) Open() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.opt.File == AuditStdout {
		return nil
	}
	return a.ensureRoom(0)
}

// Before writes a line about an action that is about to begin. If it fails, the action must
// not begin. The line ends with its only line break. Before does not keep it.
func (a *Audit) Before(line []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.countFailure(a.write(line))
}

// After writes a line about an action that has ended. If that fails, the line is kept and
// written before any other.
func (a *Audit) After(line []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.countFailure(a.write(line)) == nil {
		return
	}
	if len(a.pending) < maxPending {
		a.pending = append(a.pending, append([]byte(nil), line...))
	} else {
		a.opt.Logger.Error("a line of the audit is lost", zap.ByteString("line", line))
	}
}

// Close writes the kept lines, as far as it can, and closes the file.
func (a *Audit) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.writePending()
	if err != nil {
		err = fmt.Errorf("%d lines of the audit are lost: %w", len(a.pending), err)
	}
	a.pending = nil
	return errors.Join(err, a.closeFile())
}

// countFailure counts a line that could not be written, and logs when the audit begins to
// fail and when it works again. The caller holds mu.
func (a *Audit) countFailure(err error) error {
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

// write writes a line after the pending ones. The caller holds mu.
func (a *Audit) write(line []byte) error {
	if err := a.writePending(); err != nil {
		return err
	}
	return a.writeLine(line)
}

func (a *Audit) writePending() error {
	for len(a.pending) > 0 {
		if err := a.writeLine(a.pending[0]); err != nil {
			return err
		}
		a.pending = a.pending[1:]
	}
	return nil
}

func (a *Audit) writeLine(line []byte) error {
	if a.opt.File != AuditStdout {
		if err := a.ensureRoom(int64(len(line))); err != nil {
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

// ensureRoom makes sure that the file with the configured name is open and has room for n
// bytes. The caller holds mu.
func (a *Audit) ensureRoom(n int64) error {
	if a.file != nil {
		now, err := os.Stat(a.opt.File)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case err != nil || !os.SameFile(now, a.info): // another program has moved it
			_ = a.closeFile()
		default:
			a.size = now.Size() // other processes may write to it
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

// open opens or creates the file. The caller holds mu.
func (a *Audit) open() error {
	if info, err := os.Stat(a.opt.File); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file; for standard output, use the name %q", a.opt.File, AuditStdout)
	}
	if err := os.MkdirAll(filepath.Dir(a.opt.File), 0o700); err != nil {
		return err
	}
	// The file is read only to see whether its last line is complete.
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
