package http1server

import (
	"context"
	"net/http"
	"time"

	"mcpgateway/internal/call"
)

// Continue makes f the rest of the handler: f runs after the handler has returned, and the
// answer ends when f returns. f gets a context and a ResponseWriter of its own. It runs on
// a goroutine with a small stack, and the connection keeps nothing of the request for it.
// So an answer that may be silent for hours needs little memory. Continue is called at most
// once for a request. If the handler panics, f does not run.
func (w *response) Continue(f func(ctx context.Context, w http.ResponseWriter)) { w.rest = f }

// Wait waits until Wake is called, and at most until a time, unless that is zero. It may
// return earlier. It reports false if the client is gone; then the context of the request
// has ended. It is called by the goroutine that uses the ResponseWriter. After the first
// Wait the context ends in no other way before the answer does.
//
// Wait needs no other goroutine that watches the client.
func (w *response) Wait(until time.Time) bool {
	if w.err == nil && !w.done && w.c.watch.wait(until) {
		return true
	}
	w.scope.Cancel(nil)
	return false
}

// Wake ends Wait, or the next Wait if none runs. Any goroutine may call it, also after the
// handler has returned. It does not block.
func (w *response) Wake() { w.c.watch.wake() }

// continuation is an answer that goes on after its handler has returned.
type continuation struct {
	response
	ctx call.Scope
}

// newContinuation takes over the answer of a handler that has called Continue.
func newContinuation(w *response) *continuation {
	k := &continuation{response: *w}
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
	func() {
		defer func() {
			k.c.watch.endRequest()
			k.ctx.Cancel(nil)
		}()
		k.rest(&k.ctx, &k.response)
	}()
	k.rest = nil
	return k.c.finish(&k.response)
}
