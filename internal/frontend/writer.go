package frontend

import (
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

// httpCarrier carries a stream of events in one HTTP response.
type eventWriter struct {
	s     *Server
	share fairshare.Share // whose response it is
	w     http.ResponseWriter
	rc    *http.ResponseController
}

func (s *Server) newEventWriter(w http.ResponseWriter, o fairshare.Share) *eventWriter {
	return &eventWriter{s: s, share: o, w: w, rc: http.NewResponseController(w)}
}

// open begins the response, which tells proxies to pass events on as they come.
func (c *eventWriter) Open() {
	h := c.w.Header()
	h["Content-Type"] = eventsType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	c.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	c.w.WriteHeader(http.StatusOK)
	c.rc.Flush()
}

func (c *eventWriter) Write(b []byte) bool {
	return c.s.writeResponse(c.w, c.rc, c.share, b, true) == nil
}

// pipeCarrier carries a stream of lines in a pipe or a file.
type lineWriter struct{ w io.Writer }

func (c lineWriter) Open() {}

func (c lineWriter) Write(b []byte) bool {
	_, err := c.w.Write(b)
	return err == nil
}

// newEventStream returns a stream of server-sent events for clients of an era.
func (s *Server) newEventStream(era wire.Era) *stream.Stream {
	return stream.New(stream.Options{Gauge: s.options.Metrics.Streams.WithLabelValues(era.String())})
}
