package httpconn

import (
	"io"
	"sync"
	"sync/atomic"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Payload is the body of one HTTP request: a message in a pooled buffer, except for large
// params, which stay where they are.
//
// net/http may read the body in goroutines of its own, close it after the response has
// arrived, and open it again if an idle connection was dead. So the buffer returns to the
// pool only when the owner and all readers have released it, and a closed reader returns
// no data.
type Payload struct {
	data   []byte
	params wire.Raw // stand before data[cut:], nil if they are in data
	cut    int
	refs   atomic.Int32
	// Sent says that the last byte was read: from then on the server may have begun the
	// request. Before, it certainly has not.
	Sent atomic.Bool
	// body is the method open for http.Request.GetBody, made once.
	body func() (io.ReadCloser, error)
}

// maxPooled bounds the buffers that return to the pool, in bytes. It has room for all params
// that are copied.
const maxPooled = 2 * call.MaxReused

var payloads = sync.Pool{New: func() any {
	p := new(Payload)
	p.body = p.open
	return p
}}

// NewPayload returns a payload with a message. The caller must call Release. The params of
// the message may be used until the last reader is closed if they are longer than
// call.MaxReused.
func NewPayload(m *wire.Message) *Payload {
	p := payloads.Get().(*Payload)
	if len(m.Params) > call.MaxReused {
		p.params = m.Params
		p.data, p.cut = m.AppendAround(p.data[:0])
	} else {
		p.data = m.Append(p.data[:0])
		p.cut = len(p.data)
	}
	p.Sent.Store(false)
	p.refs.Store(1)
	return p
}

// size returns the bytes of the body.
func (p *Payload) size() int { return len(p.data) + len(p.params) }

// from returns the rest of the body from off on, up to where the next piece begins. It is
// empty at the end only.
func (p *Payload) from(off int) []byte {
	switch after := off - p.cut; {
	case after < 0:
		return p.data[off:p.cut]
	case after < len(p.params):
		return p.params[after:]
	default:
		return p.data[off-len(p.params):]
	}
}

// Release ends the use of the buffer by the owner or by a reader.
func (p *Payload) Release() {
	if p.refs.Add(-1) > 0 {
		return
	}
	p.params = nil
	if cap(p.data) <= maxPooled {
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
	n := 0
	for n < len(b) {
		piece := r.p.from(r.off)
		if len(piece) == 0 {
			break
		}
		copied := copy(b[n:], piece)
		r.off += copied
		n += copied
	}
	if r.off == r.p.size() {
		r.p.Sent.Store(true)
		return n, io.EOF
	}
	return n, nil
}

// WriteTo implements io.WriterTo. The number of written bytes shows whether the server can
// have begun the request.
func (r *payloadReader) WriteTo(w io.Writer) (written int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.p == nil {
		return 0, io.ErrClosedPipe
	}
	for r.off < r.p.size() && err == nil {
		n := 0
		n, err = w.Write(r.p.from(r.off))
		r.off += n
		written += int64(n)
	}
	if r.off == r.p.size() {
		r.p.Sent.Store(true)
	}
	return written, err
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
