package protocol

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// probeTries is how often a silent server is probed, and probeTime how long it has
	// for each answer.
	ProbeTries = 2
	ProbeTime  = 10 * time.Second
	// probeGap is the least time between two probes in one conversation.
	probeGap = time.Minute
)

// Liveness tells whether the server of a conversation is alive. The zero value is ready
// for use; the methods may be called by many goroutines at once.
type Liveness struct {
	Received atomic.Uint64 // counts what came from the server
	waiting  atomic.Int64  // requests of the server without a response
	last     atomic.Int64  // time of the last probe, in nanoseconds since 1970
	Tasks    BackgroundTasks
}

// listen returns a reader that counts what it reads.
func (d *Liveness) CountReads(r io.Reader) io.Reader { return &countingReader{r, &d.Received} }

type countingReader struct {
	io.Reader
	count *atomic.Uint64
}

func (h *countingReader) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.count.Add(1)
	}
	return n, err
}

// raise asks the server whether it is there, unless that was done lately. When
// nothing at all comes from it, it calls hung. ask asks once, and returns the error
// of its context when no answer comes.
func (d *Liveness) Check(life context.Context, log *zap.Logger, ask func(ctx context.Context) error, hung func(why error)) {
	now, last := time.Now().UnixNano(), d.last.Load()
	if last != 0 && now-last < int64(probeGap) || !d.last.CompareAndSwap(last, now) {
		return
	}
	d.Tasks.Start(func(context.Context) {
		for range ProbeTries {
			if !d.silent(life, ask) {
				return
			}
		}
		log.Warn("the server has stopped answering: the conversation with it is ended", zap.Int("tries", ProbeTries), zap.Duration("each", ProbeTime))
		hung(ErrHung)
	})
}

// silent reports whether nothing comes from the server when it is asked, and it
// waits for no answer itself, which may be all that it does. What fails in another
// way than by silence is not for here.
func (d *Liveness) silent(life context.Context, ask func(ctx context.Context) error) bool {
	before := d.Received.Load()
	ctx, cancel := context.WithTimeout(life, ProbeTime)
	defer cancel()
	err := ask(ctx)
	return errors.Is(err, context.DeadlineExceeded) && life.Err() == nil && d.Received.Load() == before && d.waiting.Load() == 0
}
