package httpconn

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"mcpgateway/internal/upstream/protocol"
)

// acceptedCodings is the Accept-Encoding of every request. A server decides whether
// compression pays; many compress nothing on the same machine.
var acceptedCodings = []string{"gzip"}

// maxRatio bounds how much larger a body becomes: by maxRatio times its compressed bytes
// beyond the size of one message. JSON is seldom compressed to less than a hundredth; a
// stream of nothing but comments would otherwise cost a server nothing, and the gateway
// one processor.
const maxRatio = 256

// decode makes the body of a response that is compressed readable. The error is that of a
// call: the server has used a content coding that the gateway did not ask for. A refusal
// keeps such a body, which nobody reads.
func (e *Endpoint) decode(resp *http.Response) error {
	codings := resp.Header["Content-Encoding"]
	if len(codings) == 0 {
		return nil
	}
	switch coding := strings.ToLower(strings.TrimSpace(strings.Join(codings, ", "))); {
	case coding == "" || coding == "identity":
		return nil
	case coding == "gzip" || coding == "x-gzip": // RFC 9110, section 8.4.1.3
		resp.Body = &gzipBody{src: resp.Body, most: int64(e.Max)}
		resp.ContentLength = -1
		return nil
	case resp.StatusCode > 299 || resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent:
		return nil
	default:
		resp.Body.Close()
		return &protocol.CallError{Reason: fmt.Sprintf("the server's answer has the content encoding %.40q, and the gateway takes gzip only", coding)}
	}
}

// decodeError says that a body cannot be decompressed, though it arrived whole.
type decodeError struct{ why string }

func (e *decodeError) Error() string { return e.why }

// callError returns the error of a call whose response has this body.
func (e *decodeError) callError() *protocol.CallError {
	return &protocol.CallError{Reason: "the server's answer cannot be decompressed: " + e.why}
}

// gzipBody decompresses a body. Data that has arrived is read immediately, so that events
// of a stream do not wait for later ones. It is closed like any other body.
type gzipBody struct {
	src     io.ReadCloser
	srcErr  error     // of src
	in, out int64     // bytes that were read and returned
	most    int64     // bytes of one message
	z       *inflater // nil before the first Read, and after the last one
	err     error     // of the last Read
}

// inflater is the memory that decompression needs.
type inflater struct{ gzip.Reader }

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

// Close implements io.Closer. It may be called while Read blocks.
func (b *gzipBody) Close() error { return b.src.Close() }

// Read implements io.Reader. The error is io.EOF, that of the compressed body,
// io.ErrUnexpectedEOF if that is cut off, or a *decodeError.
func (b *gzipBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.read(p)
	b.out += int64(n)
	switch {
	case b.srcErr != nil && b.srcErr != io.EOF:
		err = b.srcErr
	case b.out > b.most+maxRatio*b.in:
		err = &decodeError{fmt.Sprintf("it becomes more than %d times larger", maxRatio)}
	case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
		err = &decodeError{err.Error()}
	}
	if b.err = err; err != nil && b.z != nil {
		b.z.Reset(http.NoBody) // so that the pool does not keep the response
		inflaters.Put(b.z)
		b.z = nil
	}
	return n, err
}

func (b *gzipBody) read(p []byte) (int, error) {
	if b.z == nil {
		b.z = inflaters.Get().(*inflater)
		if err := b.z.Reset(compressed{b}); err != nil { // io.EOF if the body is empty
			return 0, err
		}
	}
	return b.z.Read(p)
}

// compressed reads the compressed bytes of a body and counts them.
type compressed struct{ b *gzipBody }

// Read implements io.Reader.
func (c compressed) Read(p []byte) (int, error) {
	n, err := c.b.src.Read(p)
	c.b.in += int64(n)
	if err != nil {
		c.b.srcErr = err
	}
	return n, err
}
