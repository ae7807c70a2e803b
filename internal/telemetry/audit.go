package telemetry

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// AuditStdout is the name of standard output in AuditOptions.File.
const AuditStdout = "-"

// AuditOptions configure an Audit.
type AuditOptions struct {
	File     string    // a path, whose folder exists, or AuditStdout
	Stdout   io.Writer // for AuditStdout; nil means os.Stdout
	MaxBytes int64     // the file is rotated before it gets larger; 0 means never
	MaxFiles int       // how many rotated files are kept; 0 means all
	Sync     bool      // lines are on the disk, not only in the operating system; no effect on AuditStdout
	Logger   *zap.Logger
	Metrics  *AuditMetrics
}

// AuditMetrics count failures of the audit, and say whether it fails.
type AuditMetrics struct {
	failures prometheus.Counter
	works    prometheus.Gauge // 1 or 0
}

// NewAuditMetrics makes the metrics. The caller registers them.
func NewAuditMetrics() *AuditMetrics {
	m := &AuditMetrics{
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: Namespace + "_audit_failures_total", Help: "Lines of the audit that could not be written when they were due.",
		}),
		works: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: Namespace + "_audit_last_write_successful", Help: "Whether the last write of the audit was successful: 1 or 0.",
		}),
	}
	m.works.Set(1)
	return m
}

// Collectors returns the collectors to register.
func (m *AuditMetrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.failures, m.works}
}

const (
	// maxPending bounds the lines that wait while the file cannot be written. Only
	// calls in progress have such lines, so there are no more lines than those calls.
	maxPending = 1 << 14
	// endInterval bounds how long a line about an action that has ended is gathered.
	endInterval = 100 * time.Millisecond
	// maxGathered bounds the bytes of such lines.
	maxGathered = 64 << 10
	// expectation is for how many writes other goroutines are expected to have lines, too,
	// after a write for several.
	expectation = 64
)

// Audit writes lines to a file, in the order in which its methods got them. The operating
// system has the line of Before when Before returns, and the disk has it with AuditOptions.Sync.
// The line of After is written with the next line of Before, after at most 100 ms, or by Close:
// a process that is killed loses it, but never a line of Before.
//
// Goroutines that have a line at the same time share one system call. One of them writes
// the lines of all; lines that come meanwhile are the next write. If the write fails, so do
// exactly the calls of Before whose lines are not in the file.
//
// If another program such as logrotate moves the file, the next line goes to a new file. The
// write fails while the folder is gone, or on another file system than at the start.
// Several processes may write to one file. A line that a full disk has cut is ended before
// the next one begins. Standard output gets every line immediately.
//
// The methods may be called concurrently. Call Close after Open or the first
// line. Lines after Close are written immediately.
type Audit struct {
	opt    *AuditOptions
	writer lineWriter // of the goroutine that has set writing

	mu      sync.Mutex
	writing bool        // a goroutine is the writer
	next    *batch      // the lines of the next write
	spare   *batch      // for reuse, nil for none
	flush   *time.Timer // writes the lines of After, nil before the first one
	armed   bool        // flush will run
	closed  bool        // lines of After do not wait
	failure error       // of the last write, nil if it was successful
	crowded int         // for how many writes more other goroutines are expected
}

// NewAudit returns an audit. Its file is not open yet.
func NewAudit(o AuditOptions) *Audit {
	return &Audit{opt: &o, writer: newLineWriter(&o), next: newBatch()}
}

// Open opens the file. Without it the first line does.
func (a *Audit) Open() error {
	a.beWriter()
	defer a.handOver()
	a.closed = false
	return a.writer.ready()
}

// Failure returns the error of the last write, nil if it was successful.
func (a *Audit) Failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

// Before writes a line about an action that is about to begin. If it fails, the action must
// not begin. The line ends with its only line break. Before does not keep it.
func (a *Audit) Before(line []byte) error {
	a.mu.Lock()
	return a.commit(a.next.add(line, true))
}

// After writes a line about an action that has ended. If that fails, the line is kept and
// written before any other.
func (a *Audit) After(line []byte) {
	a.mu.Lock()
	if a.failure != nil && len(a.next.lines) >= maxPending {
		a.mu.Unlock()
		a.lose(line)
		return
	}
	i := a.next.add(line, false)
	if a.closed || a.opt.File == AuditStdout || !a.writing && len(a.next.text) > maxGathered {
		_ = a.commit(i) // a failure is counted, and the line is kept
		return
	}
	a.arm()
	a.mu.Unlock()
}

// Close writes all lines, as far as it can, and closes the file.
func (a *Audit) Close() error {
	a.beWriter()
	defer a.handOver()
	a.closed = true
	if a.flush != nil {
		a.flush.Stop()
		a.armed = false
	}
	_, err := a.write()
	if lost := a.next.kept; lost > 0 {
		err = fmt.Errorf("%d lines of the audit are lost: %w", lost, err)
		rest := newBatch()
		rest.join(a.next, lost)
		a.next = rest
	}
	return errors.Join(err, a.writer.close())
}

// lose logs a line for which there is no room.
func (a *Audit) lose(line []byte) {
	a.opt.Metrics.failures.Inc()
	a.opt.Logger.Error("a line of the audit is lost", zap.ByteString("line", line))
}

// arm has the lines of After written soon. The caller holds mu.
func (a *Audit) arm() {
	switch {
	case a.armed:
		return
	case a.flush == nil:
		a.flush = time.AfterFunc(endInterval, a.flushEnds)
	default:
		a.flush.Reset(endInterval)
	}
	a.armed = true
}

// flushEnds writes the lines for which no call waits.
func (a *Audit) flushEnds() {
	a.mu.Lock()
	a.armed = false
	switch {
	case a.next.empty():
	case a.writing: // another batch, perhaps
		a.arm()
	default:
		_ = a.commit(noLine)
		return
	}
	a.mu.Unlock()
}

// commit returns when the line with this number in the next batch is written. The caller
// holds mu, commit unlocks it.
func (a *Audit) commit(line int) error {
	if a.writing {
		w := a.next.wait(line)
		a.mu.Unlock()
		v := <-w.verdict
		if line = w.line; !v.lead { // another number, if lines were kept
			waiters.Put(w)
			return v.err
		}
		waiters.Put(w)
		a.mu.Lock()
	}
	if !a.writing {
		a.writing = true
		a.gather()
	}
	committed, err := a.write()
	a.handOver()
	if line < committed {
		return nil
	}
	return err
}

// gather lets other goroutines add their lines if there are likely to be any. A single call
// is not delayed. The caller holds mu and is the writer; others may take mu meanwhile.
func (a *Audit) gather() {
	if a.crowded > 0 {
		a.mu.Unlock()
		runtime.Gosched()
		a.mu.Lock()
	}
}

// beWriter locks mu when the caller is the writer. The caller calls handOver.
func (a *Audit) beWriter() {
	a.mu.Lock()
	for a.writing {
		w := a.next.wait(noLine)
		a.mu.Unlock()
		v := <-w.verdict
		waiters.Put(w)
		a.mu.Lock()
		if v.lead {
			return
		}
	}
	a.writing = true
}

// handOver makes the first goroutine that waits the writer, and unlocks mu.
func (a *Audit) handOver() {
	if a.writing = a.next.lead(); !a.writing && a.failure != nil && !a.closed && !a.next.empty() {
		a.arm() // tries again
	}
	a.mu.Unlock()
}

// write writes the next batch, and returns how many of its lines are committed. The caller
// holds mu and is the writer; others may take mu meanwhile.
func (a *Audit) write() (committed int, err error) {
	b := a.next
	if a.crowded = max(0, a.crowded-1); b.awaited > 1 {
		a.crowded = expectation
	}
	if a.next = a.spare; a.next == nil {
		a.next = newBatch()
	}
	a.spare = nil
	a.mu.Unlock()
	committed, written, err := a.writer.write(b)
	a.mu.Lock()
	if !b.empty() {
		a.report(err)
	}
	if err != nil {
		a.keep(b, committed, written)
	}
	b.answer(committed, err)
	b.reset()
	a.spare = b
	return committed, err
}

// keep counts the lines of a batch that failed, and keeps those for which no call waits.
func (a *Audit) keep(b *batch, committed, written int) {
	next := newBatch()
	fresh := next.keep(b, written)
	next.join(a.next, 0)
	a.next = next
	for _, l := range b.lines[committed:] {
		if l.before {
			fresh++
		}
	}
	a.opt.Metrics.failures.Add(float64(fresh))
}

// report logs when the audit begins to fail and when it works again.
func (a *Audit) report(err error) {
	failed, before := err != nil, a.failure != nil
	a.failure = err
	if failed != before {
		if failed {
			a.opt.Metrics.works.Set(0)
			a.opt.Logger.Error("the audit cannot be written; calls are refused until it can", zap.String("file", a.opt.File), zap.Error(err))
		} else {
			a.opt.Metrics.works.Set(1)
			a.opt.Logger.Info("the audit is written again", zap.String("file", a.opt.File))
		}
	}
}
