package frontend

import (
	"net/http"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

// Refusals for a budget that is used up, by all clients or by the client itself.
var (
	errExhausted     = &refusal{status: http.StatusServiceUnavailable, reason: "the gateway is at its limit: try again later"}
	errShareExceeded = &refusal{status: http.StatusTooManyRequests, reason: "this client uses as much of the gateway as one client may: try again later"}
)

// refusalOf returns the refusal for an error of [fairshare.Budget.Acquire].
func refusalOf(err error) *refusal {
	if err == fairshare.ErrShareExceeded {
		return errShareExceeded
	}
	return errExhausted
}

// reservation is the part of the server's budgets that one request uses. Only one
// goroutine may use it at a time. A nil reservation holds nothing.
type reservation struct {
	s            *Server
	share        fairshare.Share
	calls, bytes int64
}

// acquireCalls reserves n more running requests.
func (h *reservation) acquireCalls(n int) *refusal {
	if err := h.s.calls.Acquire(h.share, int64(n)); err != nil {
		return refusalOf(err)
	}
	h.calls += int64(n)
	return nil
}

// acquirePeerCalls is acquireCalls for a peer. The error is errBusy, or errCrowded
// if other clients use up the budget.
func (h *reservation) acquirePeerCalls(n int) *wire.Error {
	switch h.acquireCalls(n) {
	case nil:
		return nil
	case errExhausted:
		return errGatewayBusy
	default:
		return errPeerBusy
	}
}

// acquireBody makes the reservation cover a body of size bytes. Small bodies are not
// counted.
func (h *reservation) acquireBody(size int) *refusal {
	more := int64(size) - h.bytes
	if size <= freeBody || more <= 0 {
		return nil
	}
	if err := h.s.bodies.Acquire(h.share, more); err != nil {
		return refusalOf(err)
	}
	h.bytes += more
	return nil
}

// takeBody moves the bytes of the body to a new reservation, which the caller
// releases.
func (h *reservation) takeBody() reservation {
	if h == nil {
		return reservation{}
	}
	body := reservation{s: h.s, share: h.share, bytes: h.bytes}
	h.bytes = 0
	return body
}

// release releases everything. It may be called more than once.
func (h *reservation) release() {
	if h.calls > 0 {
		h.s.calls.Release(h.share, h.calls)
	}
	if h.bytes > 0 {
		h.s.bodies.Release(h.share, h.bytes)
	}
	h.calls, h.bytes = 0, 0
}
