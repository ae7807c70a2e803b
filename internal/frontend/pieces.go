package frontend

import "slices"

// pieces is a message in up to three pieces, some of which may be empty.
type pieces [3][]byte

// size returns the bytes of the message.
func (p *pieces) size() int { return len(p[0]) + len(p[1]) + len(p[2]) }

// response is one JSON-RPC response. Its result is not copied: it stands between the
// first cut bytes of buf and the others.
type response struct {
	buf    *buffer
	cut    int
	result []byte
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

// pieces returns the response in pieces. They are valid until release.
func (r *response) pieces() pieces {
	if len(r.result) <= smallResult {
		return pieces{r.joined()}
	}
	return pieces{r.buf.b[:r.cut], r.result, r.buf.b[r.cut:]}
}

// release lets other responses reuse the memory.
func (r *response) release() { r.buf.release() }
