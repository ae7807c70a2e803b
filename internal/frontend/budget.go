package frontend

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"sync/atomic"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// owner is whose a request is when it comes to shares: the principal, or where
// nobody proves who they are, the address that it came from. Some owners share a
// number, and then their share too.
type owner uint16

const owners = 1 << 10

// ownerOf returns whose a request is.
func (s *Server) ownerOf(r *http.Request, who *call.Principal) owner {
	var hash uint64
	if key := keyOf(who); key != anonymousKey {
		hash = maphash.String(s.seed, key)
	} else if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		hash = s.hashOf(from.Addr())
	}
	return owner(hash % owners)
}

// budget bounds what all clients hold together: bytes of bodies and of answers,
// requests that run, listen streams, parked calls. No owner holds more of it than is
// left for the others: a single owner gets half, two get a third each, and the next
// one still finds as much as any of them has. Set max and most first. A budget may
// be used by many goroutines at once, and takes no lock.
type budget struct {
	max    int64
	most   int64 // of one owner, whatever is left; 0 for no such bound
	held   atomic.Int64
	shares [owners]atomic.Int64
}

// take takes n for an owner, or says why not: because it has most of what is
// held, or because others have.
func (b *budget) take(o owner, n int64) *refusal {
	share, all := b.shares[o].Add(n), b.held.Add(n)
	greedy := b.most > 0 && share > b.most
	if share <= b.max-all && !greedy {
		return nil
	}
	b.give(o, n)
	if greedy || share > all/2 {
		return errGreedy
	}
	return errFull
}

func (b *budget) give(o owner, n int64) {
	b.shares[o].Add(-n)
	b.held.Add(-n)
}

var (
	errFull   = &refusal{status: http.StatusServiceUnavailable, reason: "the gateway has as much to do as it can bear: try again later"}
	errGreedy = &refusal{status: http.StatusTooManyRequests, reason: "the requests of this client that run take up as much of the gateway as one client may: try again later"}
)

// holding is what one request holds of the budgets of its server. It belongs to
// one goroutine at a time. Releasing one that holds nothing does nothing, nor
// does a nil one.
type holding struct {
	s            *Server
	owner        owner
	calls, bytes int64
}

// begin takes room for n more requests that run.
func (h *holding) begin(n int) *refusal {
	if refused := h.s.calls.take(h.owner, int64(n)); refused != nil {
		return h.crowded(refused)
	}
	h.calls += int64(n)
	return nil
}

// room is begin for requests of a conversation: the error is errBusy, or errCrowded
// where it is others that have too much.
func (h *holding) room(n int) *wire.Error {
	switch h.begin(n) {
	case nil:
		return nil
	case errFull:
		return errCrowded
	default:
		return errBusy
	}
}

// keep takes room for a body of so many bytes in all. Small ones are free.
func (h *holding) keep(size int) *refusal {
	more := int64(size) - h.bytes
	if size <= freeBody || more <= 0 {
		return nil
	}
	if refused := h.s.bodies.take(h.owner, more); refused != nil {
		return h.crowded(refused)
	}
	h.bytes += more
	return nil
}

// crowded tells the log that clients are refused.
func (h *holding) crowded(refused *refusal) *refusal {
	h.s.ratelog.Warn("requests are refused for now: " + refused.reason)
	return refused
}

// handOver returns the room for the body, which whoever gets it releases.
func (h *holding) handOver() holding {
	if h == nil {
		return holding{}
	}
	over := holding{s: h.s, owner: h.owner, bytes: h.bytes}
	h.bytes = 0
	return over
}

// release gives back what is held.
func (h *holding) release() {
	if h.calls > 0 {
		h.s.calls.give(h.owner, h.calls)
	}
	if h.bytes > 0 {
		h.s.bodies.give(h.owner, h.bytes)
	}
	h.calls, h.bytes = 0, 0
}
