package frontend

import (
	"context"
	"io"
	"net/http"
	"time"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

var (
	jsonType    = []string{"application/json"}
	eventsType  = []string{"text/event-stream"}
	noCache     = []string{"no-cache, no-transform"}
	noBuffering = []string{"no"}
	noSniffing  = []string{"nosniff"}
	identity    = []string{"identity"}
)

// eventWriter writes a stream of server-sent events as one HTTP response. It implements
// stream.Writer.
type eventWriter struct {
	s     *Server
	share fairshare.Share // that of the client
	w     http.ResponseWriter
	rc    http.ResponseController
}

func (s *Server) newEventWriter(w http.ResponseWriter, share fairshare.Share) *eventWriter {
	return &eventWriter{s: s, share: share, w: w, rc: *http.NewResponseController(w)}
}

// Open writes the header, which tells proxies not to buffer events.
func (c *eventWriter) Open() {
	h := c.w.Header()
	h["Content-Type"] = eventsType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	c.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	c.w.WriteHeader(http.StatusOK)
	c.rc.Flush()
}

// Write implements stream.Writer.
func (c *eventWriter) Write(text stream.Pieces) bool {
	return c.s.writeResponse(c.w, &c.rc, c.share, pieces(text), true) == nil
}

// waiter has methods of a ResponseWriter of http1server, see there.
type waiter interface {
	Wait(until time.Time) bool
	Wake()
	Continue(rest func(context.Context, http.ResponseWriter))
}

// waitingWriter is an eventWriter whose ResponseWriter waits for its client. It implements
// stream.Waiter.
type waitingWriter struct {
	eventWriter
	waiter
}

// newStreamWriter returns the writer of a stream that may be silent for hours. From the
// first Wait on, only Wait notices that the client is gone, so no call may run beside.
func (s *Server) newStreamWriter(w http.ResponseWriter, share fairshare.Share) stream.Writer {
	if waits, ok := w.(waiter); ok {
		return &waitingWriter{*s.newEventWriter(w, share), waits}
	}
	return s.newEventWriter(w, share)
}

// runStream runs a connection whose stream may be silent for hours, and then calls end. If
// the response can be continued, both happen after the handler has returned, which must use
// nothing that end needs after runStream.
func (s *Server) runStream(w http.ResponseWriter, r *http.Request, share fairshare.Share, c *stream.Conn, ends stream.Ends, end func()) {
	waits, ok := w.(waiter)
	if !ok {
		defer end()
		c.Run(r.Context(), s.newEventWriter(w, share), ends)
		return
	}
	waits.Continue(func(ctx context.Context, w http.ResponseWriter) { // keeps nothing of r
		defer end()
		c.Run(ctx, s.newStreamWriter(w, share), ends)
	})
}

// lineWriter writes a stream of lines to a pipe. It implements stream.Writer.
type lineWriter struct{ w io.Writer }

// Open implements stream.Writer.
func (c lineWriter) Open() {}

// Write implements stream.Writer.
func (c lineWriter) Write(text stream.Pieces) bool {
	for _, b := range text {
		if len(b) == 0 {
			continue
		}
		if _, err := c.w.Write(b); err != nil {
			return false
		}
	}
	return true
}

// newEventStream returns a stream of server-sent events for clients of an era.
func (s *Server) newEventStream(era wire.Era) *stream.Stream {
	return stream.New(stream.Options{Gauge: s.options.Metrics.Streams.WithLabelValues(era.String())})
}
