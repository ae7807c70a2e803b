package frontend

import (
	"context"
	"io"
	"net/http"
	"time"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

// carrier is how bytes get to one client. Only one goroutine calls it.
type carrier interface {
	// open is called before the first write.
	open()
	// write sends bytes at once. It reports false when the client is gone or
	// does not read.
	write(b []byte) bool
}

// conn is one connection that carries a stream. The stream may leave it for
// another; then it ends.
type conn struct {
	st   *stream
	to   carrier
	wake chan struct{} // holds one token when there is something to look at
}

// signal wakes the writer; the token that is already there does as well.
func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// taken is what a connection has to write next.
type taken struct {
	frames  []byte
	changed map[wire.ID]news // those that are among the frames
	gone    bool             // the stream has left the connection
	ended   bool             // nothing comes after the frames
}

// take takes out what is to be written. spare is a buffer to use again.
func (st *stream) take(c *conn, spare []byte) taken {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.conn != c {
		return taken{gone: true}
	}
	t := taken{frames: st.queue, changed: st.changed, ended: st.ended}
	for subscription, n := range st.changed {
		for _, msg := range n.messages(subscription) {
			t.frames = st.frame(t.frames, st.record.add(msg), msg)
		}
	}
	st.queue, st.behind, st.changed = spare[:0], 0, nil
	st.room.Broadcast()
	return t
}

// run writes what is put into the stream until it ends, and comments while there
// is nothing to write. It reports whether the stream ended in good order: not
// when ctx ended, the client has gone or was too slow, or another connection
// took over. When expire says so the connection ends with the advice to come
// again, and the stream stays; a nil channel never does.
func (c *conn) run(ctx context.Context, expire <-chan time.Time) bool {
	if c.st.gauge != nil {
		c.st.gauge.Inc()
		defer c.st.gauge.Dec()
	}
	c.to.open()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	var spare []byte
	for {
		t := c.st.take(c, spare)
		switch {
		case t.gone:
			return false
		case len(t.frames) > 0:
			if !c.to.write(t.frames) {
				c.st.detach(c, t.changed)
				return false
			}
			tick.Reset(keepAlive)
			spare = t.frames
			continue
		case t.ended:
			c.st.detach(c, nil)
			return true
		}
		spare = t.frames
		alive := true
		select {
		case <-c.wake:
		case <-tick.C:
			alive = c.st.lines || c.to.write(wire.AppendComment(nil, "keep-alive"))
		case <-ctx.Done():
			alive = false
		case <-expire:
			c.to.write(wire.AppendRetry(nil, pollAgain))
			alive = false
		}
		if !alive {
			c.st.detach(c, nil)
			return false
		}
	}
}

var (
	jsonType    = []string{"application/json"}
	eventsType  = []string{"text/event-stream"}
	noCache     = []string{"no-cache, no-transform"}
	noBuffering = []string{"no"}
	noSniffing  = []string{"nosniff"}
	identity    = []string{"identity"}
)

// httpCarrier carries a stream of events in one HTTP response.
type httpCarrier struct {
	s     *Server
	share fairshare.Share // whose response it is
	w     http.ResponseWriter
	rc    *http.ResponseController
}

func (s *Server) newHTTPCarrier(w http.ResponseWriter, o fairshare.Share) *httpCarrier {
	return &httpCarrier{s: s, share: o, w: w, rc: http.NewResponseController(w)}
}

// open begins the response, which tells proxies to pass events on as they come.
func (c *httpCarrier) open() {
	h := c.w.Header()
	h["Content-Type"] = eventsType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	c.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	c.w.WriteHeader(http.StatusOK)
	c.rc.Flush()
}

func (c *httpCarrier) write(b []byte) bool {
	return c.s.writeAll(c.w, c.rc, c.share, b, true) == nil
}

// pipeCarrier carries a stream of lines in a pipe or a file.
type pipeCarrier struct{ w io.Writer }

func (c pipeCarrier) open() {}

func (c pipeCarrier) write(b []byte) bool {
	_, err := c.w.Write(b)
	return err == nil
}
