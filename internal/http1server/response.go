package http1server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
)

// bufferedBody is how much of an answer without a declared length is collected before its
// head is sent. It is that of net/http.
const bufferedBody = 2 << 10

// answerBuffer collects an answer.
type answerBuffer struct {
	out  []byte // what is sent next
	body []byte // the begin of a body whose length is not known yet
}

const answerSize = 8 << 10

var answerBuffers = sync.Pool{New: func() any { return &answerBuffer{out: make([]byte, 0, answerSize)} }}

// response is the answer to a request. It implements http.ResponseWriter, http.Flusher and
// what http.ResponseController needs for deadlines.
type response struct {
	c      *conn
	scope  *call.Scope // context of the request, or of what continues it
	body   *body       // of the request; nil if a continuation needs it no longer
	header http.Header
	buf    *answerBuffer // nil before WriteHeader, and while a stream is silent

	status   int   // 0 before WriteHeader
	declared int64 // Content-Length of the handler, or -1
	written  int64
	headDone bool // the head is complete
	chunked  bool
	done     bool                                             // the handler has returned, and what continues it
	silent   bool                                             // the header is not kept after Flush
	last     bool                                             // the connection ends with the answer
	err      error                                            // of a write to the connection
	rest     func(ctx context.Context, w http.ResponseWriter) // see Continue

	readUntil, writeUntil time.Time // deadlines of the handler
	date                  bool      // the handler has set the header Date
	contentType           bool      // the handler has set the header Content-Type or Content-Encoding
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

// SetReadDeadline sets the deadline for reading the body.
func (w *response) SetReadDeadline(at time.Time) error {
	w.readUntil = at
	return nil
}

// SetWriteDeadline sets the deadline for writing.
func (w *response) SetWriteDeadline(at time.Time) error {
	w.writeUntil = at
	return nil
}

// WriteHeader implements http.ResponseWriter. Informational statuses are not sent.
func (w *response) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if status < 200 {
		return
	}
	if w.status != 0 {
		w.c.s.logf("http: superfluous response.WriteHeader call")
		return
	}
	w.status = status
	w.acquire()
	out := append(w.buf.out[:0], "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(status), 10)
	out = append(out, ' ')
	if text := http.StatusText(status); text != "" {
		out = append(out, text...)
	} else {
		out = append(out, "status code "...)
		out = strconv.AppendInt(out, int64(status), 10)
	}
	out = append(out, "\r\n"...)
	for name, values := range w.header {
		if w.keepsHeader(name, values) {
			for _, v := range values {
				out = appendField(out, name, v)
			}
		}
	}
	w.buf.out = out
}

// keepsHeader reports whether a header of the handler is sent as it is. It reads the
// headers that this package needs to know.
func (w *response) keepsHeader(name string, values []string) bool {
	switch name {
	case "Content-Length":
		if n, ok := contentLength(strings.Join(values, ",")); ok && w.allowsBody() {
			w.declared = n
		}
		return false // end writes it
	case "Connection":
		for _, v := range values {
			if strings.EqualFold(v, "close") {
				w.last = true
			}
		}
		return false // so does it
	case "Transfer-Encoding", "Trailer":
		return false
	case "Date":
		w.date = true
	case "Content-Type":
		w.contentType = true
		return w.status != http.StatusNotModified
	case "Content-Encoding":
		w.contentType = len(values) > 0 && values[0] != ""
	}
	return plaintext.IsToken(name)
}

func (w *response) allowsBody() bool {
	return w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// appendField appends a header. A value cannot begin another header.
func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	from := len(dst)
	dst = append(dst, value...)
	for i, b := range dst[from:] {
		if b == '\r' || b == '\n' {
			dst[from+i] = ' '
		}
	}
	return append(dst, "\r\n"...)
}

// endHead completes the head. body is the beginning of the body.
func (w *response) endHead(body []byte) {
	w.headDone = true
	if w.body != nil {
		w.body.settle()
	}
	out := w.buf.out
	if w.allowsBody() {
		if !w.contentType && len(body) > 0 {
			out = appendField(out, "Content-Type", http.DetectContentType(body))
		}
		switch {
		case w.declared >= 0:
		case w.done:
			w.declared = int64(len(body))
		default:
			w.chunked = true
			out = append(out, "Transfer-Encoding: chunked\r\n"...)
		}
		if w.declared >= 0 {
			out = append(out, "Content-Length: "...)
			out = strconv.AppendInt(out, w.declared, 10)
			out = append(out, "\r\n"...)
		}
	}
	if !w.date {
		out = append(out, "Date: "...)
		out = append(out, dateAt(time.Now())...)
		out = append(out, "\r\n"...)
	}
	if w.c.s.lastOnly.Load() || w.c.s.closing.Load() {
		w.last = true
	}
	if w.last {
		out = append(out, "Connection: close\r\n"...)
	}
	w.buf.out = append(out, "\r\n"...)
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	if err := w.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WritePieces writes the pieces of a body as Write does, with one system call for all.
func (w *response) WritePieces(pieces ...[]byte) error { return w.write(pieces...) }

// write writes pieces of the body.
func (w *response) write(pieces ...[]byte) error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	switch {
	case size == 0:
		return nil
	case !w.allowsBody():
		return http.ErrBodyNotAllowed
	case w.err != nil:
		return w.err
	case w.done:
		return errHandlerReturned
	}
	w.acquire()
	w.written += int64(size)
	if w.declared >= 0 && w.written > w.declared {
		return http.ErrContentLength
	}
	if !w.headDone && w.declared < 0 {
		if w.written <= bufferedBody {
			for _, p := range pieces {
				w.buf.body = append(w.buf.body, p...)
			}
			return nil
		}
		w.sendBuffered(pieces)
	}
	if !w.headDone {
		w.endHead(firstOf(pieces))
	}
	w.send(size, pieces...)
	return w.err
}

// firstOf returns the first piece that is not empty, nil if there is none.
func firstOf(pieces [][]byte) []byte {
	for _, p := range pieces {
		if len(p) > 0 {
			return p
		}
	}
	return nil
}

// sendBuffered ends the head of an answer whose length is not known, and sends the body
// that was collected. more is the rest of the body that is known.
func (w *response) sendBuffered(more [][]byte) {
	body := w.buf.body
	if len(body) == 0 {
		w.endHead(firstOf(more))
		return
	}
	w.endHead(body)
	w.send(len(body), body)
	w.buf.body = body[:0]
}

// send sends a part of the body, which has size bytes, after what was collected. A small part
// is collected too.
func (w *response) send(size int, pieces ...[]byte) {
	b := w.buf
	if w.chunked {
		b.out = strconv.AppendInt(b.out, int64(size), 16)
		b.out = append(b.out, "\r\n"...)
	}
	if len(b.out)+size+len("\r\n") <= answerSize {
		for _, p := range pieces {
			b.out = append(b.out, p...)
		}
		if w.chunked {
			b.out = append(b.out, "\r\n"...)
		}
		return
	}
	parts := append(make(net.Buffers, 0, len(pieces)+2), b.out)
	parts = append(parts, pieces...)
	if w.chunked {
		parts = append(parts, crlf)
	}
	w.writeAll(&parts)
}

var crlf = []byte("\r\n")

// writeAll writes parts to the connection, which include what was collected.
func (w *response) writeAll(parts *net.Buffers) {
	if w.err != nil {
		return
	}
	w.c.setWriteDeadline(w.writeUntil)
	_, err := parts.WriteTo(w.c.nc)
	w.wrote(err)
}

// wrote notes that what was collected was written.
func (w *response) wrote(err error) {
	w.buf.out = w.buf.out[:0]
	if err != nil {
		w.err, w.last = err, true
		w.scope.Cancel(nil)
	}
}

// flush writes what was collected.
func (w *response) flush() {
	if len(w.buf.out) == 0 || w.err != nil {
		return
	}
	w.c.setWriteDeadline(w.writeUntil)
	_, err := w.c.pieces.Write(w.buf.out)
	w.wrote(err)
}

// Flush implements http.Flusher.
func (w *response) Flush() { w.FlushError() }

// FlushError is used by http.ResponseController.
func (w *response) FlushError() error {
	if w.done {
		return errHandlerReturned
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.acquire()
	if !w.headDone {
		w.sendBuffered(nil)
	}
	w.flush()
	w.release() // a stream may be silent for long
	if w.silent {
		w.header = nil
	}
	w.c.releaseInput()
	return w.err
}

var errHandlerReturned = errors.New("the handler of this request has returned")

// acquire makes sure that there is a buffer.
func (w *response) acquire() {
	if w.buf == nil {
		w.buf = answerBuffers.Get().(*answerBuffer)
		w.buf.out, w.buf.body = w.buf.out[:0], w.buf.body[:0]
	}
}

// release gives the buffer back. Everything in it was written.
func (w *response) release() {
	if cap(w.buf.out) <= 2*answerSize {
		answerBuffers.Put(w.buf)
	}
	w.buf = nil
}

// finish completes the answer after the handler has returned.
func (w *response) finish() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.done = true
	w.acquire()
	if !w.headDone {
		w.endHead(w.buf.body)
		w.buf.out = append(w.buf.out, w.buf.body...)
	}
	if w.chunked {
		w.buf.out = append(w.buf.out, "0\r\n\r\n"...)
	}
	w.flush()
	if w.declared >= 0 && w.declared != w.written {
		w.last = true // the client may wait for the rest
	}
	w.release()
}
