package upstream

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

const (
	// doubtTries is how often a silent server is asked whether it is there, and
	// doubtTime how long it has for each answer.
	doubtTries = 2
	doubtTime  = 10 * time.Second
	// doubtGap is the least time between two doubts about one conversation.
	doubtGap = time.Minute
)

// errHung is why the conversation with a server ends that does nothing any more.
var errHung = errors.New("the server has stopped answering: a call timed out, and then it did not answer when asked whether it is there")

// doubt has the conversation look whether the server still does anything, after a
// call has timed out. It does not block. Over HTTP a connection that fails says so.
func (c *Connector) doubt() {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if l, ok := conn.(*lineConn); ok {
		l.doubt.raise(l)
	}
}

// doubt is what a conversation on a pipe knows of whether its server is alive. The
// zero value is ready; its methods may be called by many goroutines at once.
type doubt struct {
	heard   atomic.Uint64 // counts what came from the server
	last    atomic.Int64  // when it was doubted last, in nanoseconds since 1970
	looking errands
}

// listen returns a reader that notes what comes.
func (d *doubt) listen(r io.Reader) io.Reader { return &noting{r, &d.heard} }

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

// raise asks the server of l whether it is there, unless that was done lately. The
// conversation ends when nothing at all comes from it.
func (d *doubt) raise(l *lineConn) {
	now, last := time.Now().UnixNano(), d.last.Load()
	if last != 0 && now-last < int64(doubtGap) || !d.last.CompareAndSwap(last, now) {
		return
	}
	d.looking.start(func(context.Context) {
		for range doubtTries {
			if d.answers(l) {
				return
			}
		}
		l.o.Logger.Warn("the server has stopped answering, and is ended", zap.Int("tries", doubtTries), zap.Duration("each", doubtTime))
		l.stopped(errHung)
	})
}

// answers reports whether anything comes from the server when it is asked, or it
// waits for an answer itself, which may be all that it does.
func (d *doubt) answers(l *lineConn) bool {
	before := d.heard.Load()
	ctx, cancel := context.WithTimeout(l.life, doubtTime)
	defer cancel()
	method := wire.MethodPing
	if l.modern.Load() {
		method = wire.MethodDiscover
	}
	_, err := l.request(ctx, &call.Call{Method: method, Back: nobody{}}, l.rev)
	return err == nil || l.life.Err() != nil || d.heard.Load() != before || l.asks.waits()
}

// waits reports whether the server waits for an answer.
func (a *asks) waits() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open) > 0
}
