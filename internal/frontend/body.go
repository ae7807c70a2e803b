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

	"mcpgateway/internal/wire"
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

// grow makes room for more of a body. Once it is known to be a large one, all of
// what is announced is believed: to grow again and again would leave more behind
// than there is of the body.
func (buf *buffer) grow(to int) {
	next := make([]byte, len(buf.b), to)
	copy(next, buf.b)
	buf.b = next
}

// nextSize returns the size that a full buffer grows to.
func nextSize(full int, announced int64, limit int) int {
	size := 2 * full
	if announced > int64(full) && (full >= trustedBody || announced < int64(size)) {
		size = int(min(announced, int64(limit)))
	}
	return min(size, limit) + 1 // the end is seen by reading beyond it
}

// refusal is a request that is answered by its HTTP status before any message
// of it was understood.
type refusal struct {
	status int
	reason string
	id     wire.ID // of the request that it was, if that is known
}

// expectBody gives a client some time to send the body. It holds for a request
// that is refused, too: net/http reads on before it answers. It reports whether
// there is a deadline now; where a writer can have none the bounds of the server
// hold alone.
func setBodyDeadline(w http.ResponseWriter, r *http.Request) (timed bool) {
	if r.ContentLength == 0 {
		return false
	}
	rc := http.NewResponseController(w)
	if len(r.Header["Expect"]) > 0 { // then the first read is answered
		rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	return rc.SetReadDeadline(time.Now().Add(bodyGrace)) == nil
}

// readBody reads the body to its end: net/http notices that a client has gone
// away, which cancels modern requests, only after that. The buffer grows with
// what arrives, not with what the client announces, and so does what h holds. A
// client must send at some rate, after a while of grace, when the body is timed.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, h *reservation, timed bool) (*buffer, *refusal) {
	limit := s.options.Limits.MaxMessage
	if r.ContentLength > int64(limit) {
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, reason: bodyTooLarge}
	}
	buf := newBuffer()
	refuse := func(f *refusal) (*buffer, *refusal) {
		buf.release()
		return nil, f
	}
	rc := http.NewResponseController(w)
	began, due := time.Now(), bodyRate
	for {
		if full := len(buf.b); full == cap(buf.b) {
			size := nextSize(full, r.ContentLength, limit)
			if refused := h.acquireBody(size); refused != nil {
				return refuse(refused)
			}
			buf.grow(size)
		}
		n, err := r.Body.Read(buf.b[len(buf.b):cap(buf.b)])
		buf.b = buf.b[:len(buf.b)+n]
		switch size := len(buf.b); {
		case size > limit:
			return refuse(&refusal{http.StatusRequestEntityTooLarge, bodyTooLarge, requestIn(buf.b)})
		case err == io.EOF:
			if refused := h.acquireBody(size); refused != nil { // the buffer was large before
				return refuse(refused)
			}
			if timed {
				rc.SetReadDeadline(time.Time{})
			}
			return buf, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return refuse(&refusal{status: http.StatusRequestTimeout, reason: "the body did not arrive in time"})
		case err != nil:
			return refuse(&refusal{status: http.StatusBadRequest, reason: "the body could not be read"})
		case timed && size >= due:
			due = size + bodyRate
			rc.SetReadDeadline(began.Add(bodyGrace + time.Duration(size/bodyRate)*time.Second))
		}
	}
}

const bodyTooLarge = "the body is larger than the limit"

// requestIn returns the id of the request that a message which cannot be read, or
// the beginning of one, is; the zero ID when that cannot be told.
func requestIn(data []byte) wire.ID { return wire.GlimpseOf(data).Request() }

// responseIn returns the id of the response, likewise.
func responseIn(data []byte) wire.ID { return wire.GlimpseOf(data).Response() }

// skipBody reads the body of a request that should have none, for the reason
// that bodies are read to their end.
func (s *Server) skipBody(w http.ResponseWriter, r *http.Request) *refusal {
	switch n, err := io.CopyN(io.Discard, r.Body, freeBody+1); {
	case n > freeBody:
		return &refusal{status: http.StatusRequestEntityTooLarge, reason: bodyTooLarge}
	case err != io.EOF:
		return &refusal{status: http.StatusBadRequest, reason: "the body could not be read"}
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

// checkContent refuses a body that is not JSON as it is.
func checkContentType(r *http.Request) *refusal {
	if !isJSON(r.Header["Content-Type"]) {
		return &refusal{status: http.StatusUnsupportedMediaType, reason: "the Content-Type must be application/json, in UTF-8"}
	}
	for _, coding := range r.Header["Content-Encoding"] {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
			return errEncoded
		}
	}
	return nil
}

var errEncoded = &refusal{status: http.StatusUnsupportedMediaType, reason: "bodies must be sent unencoded, without Content-Encoding"}

// isJSON reports whether a Content-Type header announces JSON. Parameters mean
// nothing, but for a charset that is not UTF-8, which JSON between systems is in
// (RFC 8259, section 8.1).
func isJSON(contentType []string) bool {
	if len(contentType) != 1 {
		return false
	}
	if contentType[0] == "application/json" {
		return true
	}
	base, params, _ := mime.ParseMediaType(contentType[0])
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii":
		return strings.EqualFold(base, "application/json")
	}
	return false
}

// forms says which forms of an answer a client takes.
type responseTypes struct {
	json, events bool
	eventsFirst  bool // it takes both and named events first
}

// prefersEvents reports whether an answer of one message is to be an event. An
// HTTP status other than 200 can only be said with JSON.
func (f responseTypes) prefersEvents(status int) bool {
	return !f.json || f.eventsFirst && status == http.StatusOK
}

// accepts reads the Accept header. All revisions demand that a client lists
// both forms; real ones send */*, or nothing, and are served. Weights are only
// read where they say "not this", which stands against a range that the form is
// in: what comes first is preferred.
func parseAccept(header []string) (f responseTypes) {
	if len(header) == 0 {
		return responseTypes{json: true, events: true}
	}
	var not responseTypes
	for _, list := range header {
		for part := range strings.SplitSeq(list, ",") {
			kind, params, _ := strings.Cut(part, ";")
			to := &f
			if refusesQuality(params) {
				to = &not
			}
			switch kind = strings.TrimSpace(kind); {
			case strings.EqualFold(kind, "application/json"), strings.EqualFold(kind, "application/*"):
				to.json = true
			case strings.EqualFold(kind, "text/event-stream"), strings.EqualFold(kind, "text/*"):
				to.events, to.eventsFirst = true, to.eventsFirst || !to.json
			case (kind == "*/*" || kind == "" && len(list) == 0) && to == &f:
				f.json, f.events = true, true
			}
		}
	}
	f.json, f.events = f.json && !not.json, f.events && !not.events
	f.eventsFirst = f.eventsFirst && f.events
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
