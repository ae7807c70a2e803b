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

// doubter is a conn that can find out whether its server still does anything, which
// every conn is.
type doubter interface {
	// suspectHung looks whether the server still does anything, unless that was done
	// lately, and ends the conversation with errHung if not. It does not block.
	suspectHung()
}

// doubt has the conversation look whether the server still does anything, after a
// call has timed out. It does not block. Where the session is somebody's own, that
// with which the gateway gathers the catalog looks too: it is the one that says
// whether the upstream is up.
func (c *Connector) doubt() {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if d, ok := conn.(doubter); ok {
		d.suspectHung()
	}
	if p := c.o.persona; p != nil && p.head != nil {
		p.head.doubt()
	}
}

// doubt is what a conversation knows of whether its server is alive. The zero value
// is ready; its methods may be called by many goroutines at once.
type doubt struct {
	heard   atomic.Uint64 // counts what came from the server
	waiting atomic.Int64  // questions of the server that have no answer yet
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

// raise asks the server whether it is there, unless that was done lately. When
// nothing at all comes from it, it calls hung. ask asks once, and returns the error
// of its context when no answer comes.
func (d *doubt) raise(life context.Context, log *zap.Logger, ask func(ctx context.Context) error, hung func(why error)) {
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
		hung(errHung)
	})
}

// silent reports whether nothing comes from the server when it is asked, and it
// waits for no answer itself, which may be all that it does. What fails in another
// way than by silence is not for here.
func (d *doubt) silent(life context.Context, ask func(ctx context.Context) error) bool {
	before := d.heard.Load()
	ctx, cancel := context.WithTimeout(life, doubtTime)
	defer cancel()
	err := ask(ctx)
	return errors.Is(err, context.DeadlineExceeded) && life.Err() == nil && d.heard.Load() == before && d.waiting.Load() == 0
}

// suspectHung implements [doubter]. The process of the server ends with the
// conversation.
func (l *lineConn) suspectHung() {
	l.doubt.raise(l.life, l.o.Logger, func(ctx context.Context) error {
		method := wire.MethodPing
		if l.modern.Load() {
			method = wire.MethodDiscover
		}
		_, err := l.request(ctx, &call.Call{Method: method, Back: nobody{}}, l.rev)
		return err
	}, l.stopped)
}

// suspectHung implements [doubter].
func (l *legacyHTTP) suspectHung() { l.raise(l.look) }

// suspectHung implements [doubter].
func (m *modernHTTP) suspectHung() { m.raise(m.look) }

// suspectHung implements [doubter].
func (d *dualHTTP) suspectHung() {
	d.modern.suspectHung()
	if l, _ := d.settled(); l != nil {
		l.suspectHung()
	}
}

// suspectHung implements [doubter].
func (s *sseConn) suspectHung() {
	s.raise(func(ctx context.Context) error {
		_, err := s.call(ctx, &call.Call{Method: wire.MethodPing, Back: nobody{}})
		return err
	})
}

// raise is [doubt.raise] for conversations over HTTP. The server says something when
// a message of its comes: a connection that it takes, a status before the answer, and
// the comments with which streams are kept open can be the work of a proxy, or of a
// library under a server that has got stuck.
func (t *talk) raise(look func(ctx context.Context) error) {
	t.doubt.raise(context.Background(), t.log, func(ctx context.Context) error {
		if t.e.credentials != nil {
			// They may come from elsewhere, and a server must not pay for that.
			if _, err := t.e.credentials.Headers(ctx, t.e.persona.principal()); err != nil {
				return nil
			}
		}
		return look(ctx)
	}, func(why error) {
		select {
		case t.hung <- why:
		default:
		}
	})
}
