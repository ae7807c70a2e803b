package httpconn

import (
	"io"
	"sync"
	"sync/atomic"
)

// Payload is the body of one HTTP request in a pooled buffer.
//
// net/http may read the body in goroutines of its own, close it after the response has
// arrived, and open it again if an idle connection was dead. So the buffer returns to the
// pool only when the owner and all readers have released it, and a closed reader returns
// no data.
type Payload struct {
	Data []byte
	refs atomic.Int32
	// Sent says that the last byte was read: from then on the server may have begun the
	// request. Before, it certainly has not.
	Sent atomic.Bool
	// body is the method open for http.Request.GetBody, made once.
	body func() (io.ReadCloser, error)
}

// maxPooled bounds the buffers that return to the pool, in bytes.
const maxPooled = 1 << 20

var payloads = sync.Pool{New: func() any {
	p := new(Payload)
	p.body = p.open
	return p
}}

// NewPayload returns an empty payload. The caller must call Release.
func NewPayload() *Payload {
	p := payloads.Get().(*Payload)
	p.Data = p.Data[:0]
	p.Sent.Store(false)
	p.refs.Store(1)
	return p
}

// Release ends the use of the buffer by the owner or by a reader.
func (p *Payload) Release() {
	if p.refs.Add(-1) == 0 && cap(p.Data) <= maxPooled {
		payloads.Put(p)
	}
}

// open returns a new reader of the whole body. The owner must not have released p.
func (p *Payload) open() (io.ReadCloser, error) {
	r := new(payloadReader)
	r.open(p)
	return r, nil
}

// open makes r, which is new, a reader of p.
func (r *payloadReader) open(p *Payload) {
	p.refs.Add(1)
	r.p = p
}

type payloadReader struct {
	mu  sync.Mutex
	p   *Payload // nil once closed
	off int
}

// Read implements io.Reader.
func (r *payloadReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.p == nil {
		return 0, io.ErrClosedPipe
	}
	n := copy(b, r.p.Data[r.off:])
	if r.off += n; r.off == len(r.p.Data) {
		r.p.Sent.Store(true)
		return n, io.EOF
	}
	return n, nil
}

// WriteTo implements io.WriterTo. The number of written bytes shows whether the server can
// have begun the request.
func (r *payloadReader) WriteTo(w io.Writer) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.p == nil {
		return 0, io.ErrClosedPipe
	}
	n, err := w.Write(r.p.Data[r.off:])
	if r.off += n; r.off == len(r.p.Data) {
		r.p.Sent.Store(true)
	}
	return int64(n), err
}

// Close implements io.Closer. It may be called more than once.
func (r *payloadReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.p != nil {
		r.p.Release()
		r.p = nil
	}
	return nil
}
