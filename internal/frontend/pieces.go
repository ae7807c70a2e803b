package frontend

import (
	"net/http"
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// pieces is a message in up to three pieces, some of which may be empty.
type pieces [3][]byte

// size returns the bytes of the message.
func (p *pieces) size() int { return len(p[0]) + len(p[1]) + len(p[2]) }

// cut removes the first n bytes of the message, or all if there are fewer, and returns them.
func (p *pieces) cut(n int) (begin pieces) {
	for i, b := range p {
		take := min(n, len(b))
		begin[i], p[i] = b[:take], b[take:]
		n -= take
	}
	return begin
}

// write writes the message. A writer that takes all pieces together sends them together.
func (p pieces) write(w http.ResponseWriter) error {
	together, ok := w.(interface{ WritePieces(...[]byte) error })
	if ok && len(p[0]) < p.size() {
		return together.WritePieces(slices.Clone(p[:])...) // a copy, so that only this case allocates
	}
	for _, b := range p {
		if len(b) == 0 {
			continue
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// response is one JSON-RPC response. Its result is not copied: it stands between the
// first cut bytes of buf and the others.
type response struct {
	buf    *buffer
	cut    int
	result []byte
	page   *call.Page   // nil if the result is not a page that is kept
	memory *wire.Buffer // that the result was read into, nil if it is not released
}

// smallResult is the size up to which a result is copied, because one write costs less
// than three.
const smallResult = 8 << 10

// joined returns the response as one slice. It is valid until release.
func (r *response) joined() []byte {
	r.buf.b = slices.Insert(r.buf.b, r.cut, r.result...)
	r.result = nil
	return r.buf.b
}

// message returns the response as one text of its own, and releases it.
func (r *response) message() []byte {
	msg := slices.Concat(r.buf.b[:r.cut], r.result, r.buf.b[r.cut:])
	r.release()
	return msg
}

// pieces returns the response in pieces. They are valid until release.
func (r *response) pieces() pieces {
	if len(r.result) <= smallResult {
		return pieces{r.joined()}
	}
	return pieces{r.buf.b[:r.cut], r.result, r.buf.b[r.cut:]}
}

// release lets others reuse the memory of the response and of its result. It is called at
// most once, and not after a write that failed: HTTP/2 may still be writing from it.
func (r *response) release() {
	r.buf.release()
	r.memory.Release()
}
