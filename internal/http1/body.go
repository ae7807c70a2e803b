package http1

import (
	"bufio"
	"context"
	"io"
	"net/http/httputil"
	"strings"
	"sync/atomic"

	"mcpgateway/internal/plaintext"
)

// body is the body of a response. It holds the connection until it ends. Close may
// be called while Read blocks.
type body struct {
	c       *conn
	left    int64       // bytes to come, or lengthUntilClose, or lengthChunked
	chunked io.Reader   // the data in the chunks, nil for other bodies
	last    bool        // the connection ends with this response
	ended   atomic.Bool // the connection was given up
	stop    func() bool // ends the watch over the context; nil if it cannot end
}

// watch closes the connection when ctx ends before the body does.
func (b *body) watch(ctx context.Context) {
	if own, ok := ctx.(interface{ AfterFunc(func()) func() bool }); ok {
		b.stop = own.AfterFunc(b.c.closer) // context.AfterFunc would do so too, at a higher cost
	} else if ctx.Done() != nil {
		b.stop = context.AfterFunc(ctx, b.c.closer)
	}
}

// begin prepares the body that a head announces. An empty body ends immediately.
func (b *body) begin(h *head) {
	b.left, b.last = h.length, h.last
	switch h.length {
	case 0:
		b.end(true)
	case lengthChunked:
		b.chunked = httputil.NewChunkedReader(b.c.in)
	}
}

// Read implements io.Reader. The connection is free for the next request as soon
// as the last byte has been read.
func (b *body) Read(p []byte) (int, error) {
	if b.ended.Load() {
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

// Close implements io.Closer. It closes the connection unless the body was read to
// its end.
func (b *body) Close() error {
	b.end(false)
	return nil
}

// end gives up the connection. The connection is kept if the response is complete
// and nothing followed it.
func (b *body) end(complete bool) {
	if !b.ended.CompareAndSwap(false, true) {
		return
	}
	inTime := b.stop == nil || b.stop()
	if complete && inTime && !b.last && b.c.in.Buffered() == 0 {
		b.c.t.put(b.c)
		return
	}
	b.c.Close()
}

// skipTrailers reads the lines after the last chunk, up to the empty line (RFC
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
		if !ok || !colon || !plaintext.IsToken(name) || !plaintext.IsFieldValue(value) {
			return errMalformed
		}
		total += len(line)
	}
	return errHeadTooLarge
}
