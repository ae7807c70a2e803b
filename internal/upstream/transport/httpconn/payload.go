package httpconn

import (
	"io"
	"sync"
	"sync/atomic"
)

// payload is the body of one HTTP request in a pooled buffer.
//
// net/http may read a request's body in goroutines of its own, and close it
// after the answer has arrived, or open it anew when an idle connection turned
// out dead. So the buffer goes back to the pool only when the owner and every
// reader have let go of it, and a reader that is closed hands out nothing more.
type Payload struct {
	Data []byte
	refs atomic.Int32
	// gone says that a reader has handed out the last byte: from then on the
	// server may have begun the request. Before that it has certainly not.
	Sent atomic.Bool
	// body is open, as http.Request.GetBody takes it, made once.
	body func() (io.ReadCloser, error)
}

// A buffer that one large request has blown up is not kept.
const maxPooled = 1 << 20

var payloads = sync.Pool{New: func() any {
	p := new(Payload)
	p.body = p.open
	return p
}}

// NewPayload returns an empty payload that belongs to the caller until release.
func NewPayload() *Payload {
	p := payloads.Get().(*Payload)
	p.Data = p.Data[:0]
	p.Sent.Store(false)
	p.refs.Store(1)
	return p
}

// Release gives up the owner's or a reader's hold on the buffer.
func (p *Payload) Release() {
	if p.refs.Add(-1) == 0 && cap(p.Data) <= maxPooled {
		payloads.Put(p)
	}
}

// open returns a new reader of the whole body. The owner must still hold p.
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

// WriteTo implements io.WriterTo: only the number of bytes that were written tells
// whether the server can have begun the request.
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
