package upstream

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// doubtTries is how often a silent server is asked whether it is there, and
	// doubtTime how long it has for each answer.
	doubtTries = 2
	doubtTime  = 10 * time.Second
	// doubtGap is the least time between two doubts about one conversation.
	doubtGap = time.Minute
)

// doubt has the conversation look whether the server still does anything, after a
// call has timed out. It does not block. Where the session is somebody's own, that
// with which the gateway gathers the catalog looks too: it is the one that says
// whether the upstream is up.
func (c *Connector) doubt() {
	if conn := c.current(); conn != nil {
		conn.Probe(CallTimedOut)
	}
	if p := c.o.persona; p != nil && p.head != nil {
		p.head.doubt()
	}
}

// doubt is what a conversation knows of whether its server is alive. The zero value
// is ready; its methods may be called by many goroutines at once.
type liveness struct {
	heard   atomic.Uint64 // counts what came from the server
	waiting atomic.Int64  // questions of the server that have no answer yet
	last    atomic.Int64  // when it was doubted last, in nanoseconds since 1970
	looking errands
}

// listen returns a reader that notes what comes.
func (d *liveness) listen(r io.Reader) io.Reader { return &noting{r, &d.heard} }

type noting struct {
	io.Reader
	count *atomic.Uint64
}

func (h *noting) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.count.Add(1)
	}
	return n, err
}

// raise asks the server whether it is there, unless that was done lately. When
// nothing at all comes from it, it calls hung. ask asks once, and returns the error
// of its context when no answer comes.
func (d *liveness) raise(life context.Context, log *zap.Logger, ask func(ctx context.Context) error, hung func(why error)) {
	now, last := time.Now().UnixNano(), d.last.Load()
	if last != 0 && now-last < int64(doubtGap) || !d.last.CompareAndSwap(last, now) {
		return
	}
	d.looking.start(func(context.Context) {
		for range doubtTries {
			if !d.silent(life, ask) {
				return
			}
		}
		log.Warn("the server has stopped answering: the conversation with it is ended", zap.Int("tries", doubtTries), zap.Duration("each", doubtTime))
		hung(ErrHung)
	})
}

// silent reports whether nothing comes from the server when it is asked, and it
// waits for no answer itself, which may be all that it does. What fails in another
// way than by silence is not for here.
func (d *liveness) silent(life context.Context, ask func(ctx context.Context) error) bool {
	before := d.heard.Load()
	ctx, cancel := context.WithTimeout(life, doubtTime)
	defer cancel()
	err := ask(ctx)
	return errors.Is(err, context.DeadlineExceeded) && life.Err() == nil && d.heard.Load() == before && d.waiting.Load() == 0
}
