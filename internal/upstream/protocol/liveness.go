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
	// ProbeTries is how often a silent server is probed before it counts as hung, and
	// ProbeTime how long it has for each response.
	ProbeTries = 2
	ProbeTime  = 10 * time.Second
	// probeGap is the least time between two probes in one conversation.
	probeGap = time.Minute
)

// Liveness checks whether the server of a conversation is alive. The zero value is ready
// for use. The methods may be called by many goroutines at once.
type Liveness struct {
	Received atomic.Uint64 // counts reads or messages from the server
	waiting  atomic.Int64  // requests of the server without a response
	last     atomic.Int64  // time of the last probe, in nanoseconds since 1970
	Tasks    BackgroundTasks
}

// CountReads returns a reader that counts each read of r in Received.
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

// Check probes the server in the background, unless it did so within the last minute.
// It calls hung with ErrHung if nothing comes from the server. ask sends one request; it
// returns the error of its context if there is no response. life bounds the probes.
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

// silent reports whether nothing comes from the server after a request. A server that
// waits for a response itself is not silent, and a failed connection is not silence.
func (d *Liveness) silent(life context.Context, ask func(ctx context.Context) error) bool {
	before := d.Received.Load()
	ctx, cancel := context.WithTimeout(life, ProbeTime)
	defer cancel()
	err := ask(ctx)
	return errors.Is(err, context.DeadlineExceeded) && life.Err() == nil && d.Received.Load() == before && d.waiting.Load() == 0
}
