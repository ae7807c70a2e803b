package http1server

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"mcpgateway/internal/call"
)

// Continue makes f the rest of the handler: f runs after the handler has returned, and the
// answer ends when f returns. f gets its own context and ResponseWriter. It runs on a
// goroutine with a small stack, and the connection keeps nothing of the request for it. So
// an answer that may be silent for hours needs little memory. Continue is called at most
// once for a request. If the handler panics, f does not run.
func (w *response) Continue(f func(ctx context.Context, w http.ResponseWriter)) { w.rest = f }

// Wait waits until Wake is called, and at most until a time, unless that is zero. It may
// return earlier. It reports false if the client is gone; then the context of the request
// has ended. It is called by the goroutine that uses the ResponseWriter. After the first
// Wait the context ends in no other way before the answer does.
//
// Wait needs no other goroutine that watches the client.
func (w *response) Wait(until time.Time) bool {
	at := &w.c.watch // all in one function: collections of garbage unwind the stack of each stream
	if !at.waited && !w.done {
		at.takeOver()
	}
	alive := w.err == nil && !w.done && !at.broken
	if alive {
		at.mu.Lock()
		woken := at.woken
		at.woken = false
		if at.reading = !woken && !at.got; at.reading {
			w.c.nc.SetReadDeadline(until)
		}
		at.mu.Unlock()
		switch {
		case woken:
		case at.got:
			alive = at.waitForWake(until)
		default:
			n, err := w.c.nc.Read(at.byte[:])
			at.mu.Lock()
			at.reading, at.woken = false, false
			at.mu.Unlock()
			at.got = n > 0
			at.broken = n == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
			alive = !at.broken
		}
	}
	if !alive {
		w.scope.Cancel(nil)
	}
	return alive
}

// Wake ends Wait, or the next Wait if none runs. Any goroutine may call it, also after the
// handler has returned. It does not block.
func (w *response) Wake() { w.c.watch.wake() }

// continuation is an answer that continues after its handler has returned.
type continuation struct {
	response
	ctx call.Scope
}

// newContinuation takes over the answer of a handler that has called Continue.
func newContinuation(w *response) *continuation {
	k := &continuation{response: *w}
	w.done, w.buf = true, nil // the handler has returned
	k.scope = &k.ctx
	k.ctx.Begin(&k.c.scope)
	k.silent = true
	if k.body.ended() {
		k.body = nil // and with it the request
	}
	k.c.header = nil // the continuation has it
	return k
}

// serve runs the rest of the handler. It reports whether the connection can serve another
// request.
func (k *continuation) serve() bool {
	k.rest(&k.ctx, &k.response) // if it panics, the connection and with it the context end
	k.rest = nil
	k.c.watch.endRequest()
	k.ctx.Cancel(nil)
	return k.c.finish(&k.response)
}
