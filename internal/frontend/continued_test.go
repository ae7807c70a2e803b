package frontend

import (
	"context"
	"net/http"
	"time"
)

// continuedRecorder is a recorder that a handler can leave open, as a ResponseWriter of
// http1server.
type continuedRecorder struct {
	*recorder
	ctx  context.Context
	wake chan struct{}
	rest func(context.Context, http.ResponseWriter)
}

// serveContinued serves a request, and then the rest of its response.
func serveContinued(serve http.HandlerFunc, w *recorder, r *http.Request) {
	ctx, end := context.WithCancel(r.Context())
	c := &continuedRecorder{recorder: w, ctx: r.Context(), wake: make(chan struct{}, 1)}
	serve(c, r.WithContext(ctx))
	end() // as http1server does
	if c.rest != nil {
		c.rest(c.ctx, c)
	}
}

func (c *continuedRecorder) Continue(rest func(context.Context, http.ResponseWriter)) { c.rest = rest }

func (c *continuedRecorder) Wait(until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-c.wake:
		return true
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

func (c *continuedRecorder) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
