package upstream

import (
	"bufio"
	"context"
	"io"
	"net/http/httputil"
	"strings"
	"sync/atomic"

	"mcpgateway/internal/call"
)

// plainBody is the body of an answer, and with it the hold on the connection.
// Close may be called while Read waits.
type plainBody struct {
	c       *plainConn
	left    int64       // bytes to come, lengthOpen, or lengthChunked
	chunked io.Reader   // the data in the chunks, nil for other bodies
	last    bool        // the connection ends with this answer
	over    atomic.Bool // the connection is not ours any more

	// What closes the connection when the context of the request ends: scope and
	// hook, or stop, or nothing.
	scope *call.Scope
	hook  call.Hook
	stop  func() bool
}

// watch has the connection closed when ctx ends before the body does.
func (b *plainBody) watch(ctx context.Context) {
	if scope, ok := ctx.(*call.Scope); ok {
		b.scope = scope
		scope.Add(&b.hook, b.c.shut)
	} else if ctx.Done() != nil {
		b.stop = context.AfterFunc(ctx, b.c.shut)
	}
}

// unwatch ends that. It reports false when the connection was closed, or is
// about to be.
func (b *plainBody) unwatch() bool {
	switch {
	case b.scope != nil:
		return b.scope.Remove(&b.hook)
	case b.stop != nil:
		return b.stop()
	default:
		return true
	}
}

// begin prepares the body that a head announces. One without a byte ends at
// once.
func (b *plainBody) begin(h *plainHead) {
	b.left, b.last = h.length, h.last
	switch h.length {
	case 0:
		b.end(true)
	case lengthChunked:
		b.chunked = httputil.NewChunkedReader(b.c.in)
	}
}

// Read implements io.Reader. The connection is free for the next request as
// soon as the last byte has been read.
func (b *plainBody) Read(p []byte) (int, error) {
	if b.over.Load() {
		return 0, io.EOF
	}
	var n int
	var err error
	switch {
	case b.chunked != nil:
		if n, err = b.chunked.Read(p); err == io.EOF {
			if terr := skipTrailers(b.c.in); terr != nil {
				err = terr
			}
		}
	case b.left >= 0:
		n, err = b.c.in.Read(p[:min(int64(len(p)), b.left)])
		switch b.left -= int64(n); {
		case b.left == 0:
			err = io.EOF
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
	default:
		n, err = b.c.in.Read(p)
	}
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer. Unless the body was read to its end, the
// connection is closed.
func (b *plainBody) Close() error {
	b.end(false)
	return nil
}

// end gives up the connection. It can serve again when the answer came whole
// and nothing came after it.
func (b *plainBody) end(whole bool) {
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	if inTime := b.unwatch(); whole && inTime && !b.last && b.c.in.Buffered() == 0 {
		b.c.p.put(b.c)
		return
	}
	b.c.Close()
}

// skipTrailers reads what may come after the last chunk, to the empty line (RFC
// 9112, section 7.1.2).
func skipTrailers(r *bufio.Reader) error {
	for total := 0; total < maxTrailers; {
		line, err := r.ReadSlice('\n')
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		field, ok := strings.CutSuffix(string(line), "\r\n")
		if ok && field == "" {
			return nil
		}
		name, value, colon := strings.Cut(field, ":")
		if !ok || !colon || !isToken(name) || !isFieldValue(value) {
			return errMalformedHead
		}
		total += len(line)
	}
	return errHeadTooLarge
}
