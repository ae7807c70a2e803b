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
// for use. The methods may be called concurrently.
type Liveness struct {
	Received atomic.Uint64 // counts reads or messages from the server
	waiting  atomic.Int64  // requests of the server without a response
	last     atomic.Int64  // time of the last probe after a timeout, in nanoseconds since 1970
	seen     atomic.Uint64 // Received at the last Check of an idle server
	probing  atomic.Bool   // an idle server is being probed
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

// Probe is how a Liveness probes one server.
type Probe struct {
	Why     Suspicion
	Pending *PendingCalls
	Log     *zap.Logger
	// Ask sends one request; it returns the error of its context if there is no response.
	Ask func(ctx context.Context) error
	// Hung is told that nothing comes from the server: ErrHung or ErrIdleHung.
	Hung func(why error)
}

// Check probes the server in the background if it is due: after CallTimedOut at most once a
// minute, for Idle if nothing came from the server since the last Check. A server with a call
// to answer is not idle: many answer one request at a time. life bounds the probes.
func (d *Liveness) Check(life context.Context, p Probe) {
	idle, reason := p.Why == Idle, ErrHung
	switch {
	case idle && (!d.isIdle(p.Pending) || !d.probing.CompareAndSwap(false, true)):
		return
	case idle:
		reason = ErrIdleHung
	case !d.dueAfterTimeout():
		return
	}
	d.Tasks.Start(func(context.Context) {
		if idle {
			defer d.probing.Store(false)
		}
		for range ProbeTries {
			if !d.silent(life, p.Ask) || idle && p.Pending.AwaitsAnswer() {
				d.seen.Store(d.Received.Load()) // the response does not delay the next Check
				return
			}
		}
		p.Log.Warn("the server has stopped answering: the conversation with it is ended", zap.Int("tries", ProbeTries), zap.Duration("each", ProbeTime))
		p.Hung(reason)
	})
}

func (d *Liveness) dueAfterTimeout() bool {
	now, last := time.Now().UnixNano(), d.last.Load()
	return (last == 0 || now-last >= int64(probeGap)) && d.last.CompareAndSwap(last, now)
}

// isIdle reports whether nothing has come from the server since the last time, and it has
// nothing to answer.
func (d *Liveness) isIdle(pending *PendingCalls) bool {
	received := d.Received.Load()
	return d.seen.Swap(received) == received && !pending.AwaitsAnswer()
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
