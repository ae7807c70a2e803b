package frontend

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// buffer holds a body or an answer, and is reused for others.
type buffer struct {
	b    []byte
	own  []byte       // the memory that it keeps while b is in larger memory, else nil
	step *wire.Buffer // that b is in, nil for memory of its own
}

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 8<<10)} }}

func newBuffer() *buffer {
	buf := buffers.Get().(*buffer)
	buf.b = buf.b[:0]
	return buf
}

// release lets other requests reuse the buffer. No slice of it may be used afterwards,
// unless it is longer than call.MaxReused.
func (buf *buffer) release() {
	buf.step.Release()
	if buf.own != nil {
		buf.b = buf.own
	}
	buf.own, buf.step = nil, nil
	// Large buffers are rare, and would stay in memory for small bodies.
	if cap(buf.b) <= call.MaxReused {
		buffers.Put(buf)
	}
}

// maxStep is the size up to which buffers grow into memory of the pool of package wire, which
// may have a quarter more than that. It leaves no room for more than call.MaxReused.
const maxStep = call.MaxReused * 3 / 4

// grow increases the capacity.
func (buf *buffer) grow(to int) {
	if buf.own == nil {
		buf.own = buf.b
	}
	var next []byte
	var step *wire.Buffer
	if to <= maxStep {
		step = wire.NewBuffer(to)
		next = step.B
	} else {
		next = make([]byte, 0, to)
	}
	next = append(next, buf.b...)
	buf.step.Release()
	buf.b, buf.step = next, step
}

// isBusy reports whether a budget is used up, by one client or by all.
func (f *refusal) isBusy() bool {
	return f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable && f.reason != errStopped.Error()
}

// refusal is the answer to a request that is refused with an HTTP status.
type refusal struct {
	status int
	reason string
	id     wire.ID // of the request, if it is known
}

// setBodyDeadline sets the deadline for the body. The deadline is set before a request
// can be refused, because net/http reads the body before it answers. It reports false
// if there is no body, or if w has no deadlines; then only the limits of the HTTP
// server apply.
func setBodyDeadline(w http.ResponseWriter, r *http.Request) (timed bool) {
	if r.ContentLength == 0 {
		return false
	}
	rc := http.NewResponseController(w)
	if len(r.Header["Expect"]) > 0 { // the first read sends "100 Continue"
		rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	return rc.SetReadDeadline(time.Now().Add(bodyGrace)) == nil
}

// readBody reads the body to its end: only after that does net/http notice that a client
// has gone, which cancels modern requests. The buffer and the reservation h grow with
// the bytes that arrive, not with the announced length. If timed, the client must send
// at bodyRate after bodyGrace.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, h *reservation, timed bool) (*buffer, *refusal) {
	limit := s.options.Limits.MaxMessage
	if r.ContentLength > int64(limit) {
		return nil, bodyOver(limit, wire.ID{})
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
			size := wire.NextStep(full, r.ContentLength, limit)
			if refused := h.acquireBody(size); refused != nil {
				return refuse(refused)
			}
			buf.grow(size)
		}
		n, err := r.Body.Read(buf.b[len(buf.b):cap(buf.b)])
		buf.b = buf.b[:len(buf.b)+n]
		switch size := len(buf.b); {
		case size > limit:
			return refuse(bodyOver(limit, requestIn(buf.b)))
		case err == io.EOF:
			if refused := h.acquireBody(size); refused != nil { // a reused buffer may have been large enough
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

// bodyOver refuses a body of more than limit bytes.
func bodyOver(limit int, id wire.ID) *refusal {
	return &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than the limit of %d bytes", limit), id}
}

// requestIn returns the id of the request in an invalid message, or in the beginning of a
// message, and the zero ID if there is none.
func requestIn(data []byte) wire.ID { return wire.ScanEnvelope(data).RequestID() }

// responseIn returns the id of the response in such a message.
func responseIn(data []byte) wire.ID { return wire.ScanEnvelope(data).ResponseID() }

// skipBody reads the body of a request that should have none, for the same reason as
// readBody.
func (s *Server) skipBody(w http.ResponseWriter, r *http.Request) *refusal {
	switch n, err := io.CopyN(io.Discard, r.Body, freeBody+1); {
	case n > freeBody:
		return bodyOver(freeBody, wire.ID{})
	case err != io.EOF:
		return &refusal{status: http.StatusBadRequest, reason: "the body could not be read"}
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

// checkContentType refuses a body that is not plain JSON.
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

// isJSON reports whether a Content-Type header announces JSON. The only parameter that
// matters is charset, which must be UTF-8 (RFC 8259, section 8.1).
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

// responseTypes says which content types a client accepts.
type responseTypes struct {
	json, events bool
	eventsFirst  bool // the client accepts both, and names events first
}

// prefersEvents reports whether a response of one message should be an event. A status
// other than 200 needs JSON.
func (f responseTypes) prefersEvents(status int) bool {
	return !f.json || f.eventsFirst && status == http.StatusOK
}

// parseAccept reads the Accept header. All revisions demand that a client names both
// types; some clients send */* or nothing, and are served too. Of the weights only zero
// matters, which excludes a type from a range; a malformed weight counts as none. The type that is named first is
// preferred.
func parseAccept(header []string) (f responseTypes) {
	if len(header) == 0 {
		return responseTypes{json: true, events: true}
	}
	var not responseTypes
	for _, list := range header {
		for part := range strings.SplitSeq(list, ",") {
			kind, params, _ := strings.Cut(part, ";")
			to := &f
			if weight, _, valid := weightOf(params); valid && weight == 0 {
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
