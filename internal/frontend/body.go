package frontend

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// buffer holds a body or an answer and is used again for others.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, 8<<10)} }}

func newBuffer() *buffer {
	buf := buffers.Get().(*buffer)
	buf.b = buf.b[:0]
	return buf
}

// release gives the buffer back. Nobody may hold a slice of it any longer.
func (buf *buffer) release() {
	// A rare giant must not stay in memory for the sake of many dwarfs.
	if cap(buf.b) <= 256<<10 {
		buffers.Put(buf)
	}
}

// refusal is a request that is answered by its HTTP status before any message
// of it was understood.
type refusal struct {
	status int
	reason string
}

// readBody reads the body to its end: net/http notices that a client has gone
// away, which cancels modern requests, only after that. The buffer grows with
// what arrives, not with what the client announces.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*buffer, *refusal) {
	limit := s.opt.MaxMessage
	if r.ContentLength > int64(limit) {
		return nil, &refusal{http.StatusRequestEntityTooLarge, "the body is larger than the limit"}
	}
	rc := http.NewResponseController(w)
	if rc.SetReadDeadline(time.Now().Add(readTimeout)) == nil {
		defer rc.SetReadDeadline(time.Time{})
	}
	buf := newBuffer()
	for {
		if len(buf.b) == cap(buf.b) {
			buf.b = append(buf.b, 0)[:len(buf.b)]
		}
		n, err := r.Body.Read(buf.b[len(buf.b):cap(buf.b)])
		buf.b = buf.b[:len(buf.b)+n]
		switch {
		case len(buf.b) > limit:
			buf.release()
			return nil, &refusal{http.StatusRequestEntityTooLarge, "the body is larger than the limit"}
		case err == io.EOF:
			return buf, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			buf.release()
			return nil, &refusal{http.StatusRequestTimeout, "the body did not arrive in time"}
		case err != nil:
			buf.release()
			return nil, &refusal{http.StatusBadRequest, "the body could not be read"}
		}
	}
}

// isJSON reports whether a Content-Type header announces JSON. Parameters mean
// nothing: JSON between systems is UTF-8 (RFC 8259, section 8.1).
func isJSON(contentType []string) bool {
	if len(contentType) != 1 {
		return false
	}
	if contentType[0] == "application/json" {
		return true
	}
	base, _, _ := mime.ParseMediaType(contentType[0])
	return strings.EqualFold(base, "application/json")
}

// forms says which forms of an answer a client takes.
type forms struct {
	json, events bool
	eventsFirst  bool // it takes both and named events first
}

// prefersEvents reports whether an answer of one message is to be an event. An
// HTTP status other than 200 can only be said with JSON.
func (f forms) prefersEvents(status int) bool {
	return !f.json || f.eventsFirst && status == http.StatusOK
}

// accepts reads the Accept header. All revisions demand that a client lists
// both forms; real ones send */*, or nothing, and are served. Weights are only
// read where they say "not this": what comes first is preferred.
func accepts(header []string) (f forms) {
	if len(header) == 0 {
		return forms{json: true, events: true}
	}
	for _, list := range header {
		for part := range strings.SplitSeq(list, ",") {
			kind, params, _ := strings.Cut(part, ";")
			if refusesQuality(params) {
				continue
			}
			switch kind = strings.TrimSpace(kind); {
			case strings.EqualFold(kind, "application/json"), strings.EqualFold(kind, "application/*"):
				f.json = true
			case strings.EqualFold(kind, "text/event-stream"), strings.EqualFold(kind, "text/*"):
				f.events, f.eventsFirst = true, f.eventsFirst || !f.json
			case kind == "*/*", kind == "" && len(list) == 0:
				f.json, f.events = true, true
			}
		}
	}
	return f
}

// refusesQuality reports whether the parameters of an Accept item give it the
// weight zero: "not this".
func refusesQuality(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			return strings.Trim(value, "0.") == "" && value != ""
		}
	}
	return false
}
