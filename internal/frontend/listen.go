package frontend

import (
	"net/http"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// listen serves subscriptions/listen over HTTP. The stream begins with an
// acknowledgement, carries list changes and updates of resources and tasks, and ends
// with a result if the gateway ends it (2026-07-28, basic/patterns/subscriptions).
func (s *Server) listen(p *postResponse, r *http.Request, x *exchange) {
	sub, malformed := parseSubscription(x.call.Params, x.id)
	if malformed != nil {
		x.finish(p, answer{err: malformed})
		return
	}
	if !p.accepts.events {
		s.refuse(p.w, r, x.call.Principal, &refusal{http.StatusNotAcceptable, "Accept must name text/event-stream for subscriptions/listen", x.id})
		return
	}
	share := p.reserved.share
	if err := s.listening.Acquire(share, 1); err != nil {
		refused := &refusal{http.StatusServiceUnavailable, "there are too many listen streams: try again later", x.id}
		if err == fairshare.ErrShareExceeded {
			refused.status, refused.reason = http.StatusTooManyRequests, "this client has as many listen streams as one client may have: close unused ones"
		}
		s.refuse(p.w, r, x.call.Principal, refused)
		return
	}
	stays := false
	end := func() {
		s.listens.remove(sub)
		s.listening.Release(share, 1)
	}
	defer func() {
		if !stays {
			end()
		}
	}()
	s.subscribeResources(x, sub)
	if err := s.watchTasks(x, sub); err != nil {
		x.finish(p, answer{err: err})
		return
	}
	sub.stream = s.newEventStream(wire.EraModern)
	c := sub.stream.Connect()
	s.listens.add(sub)
	if s.draining.Load() { // checked after add, so that Drain misses no stream
		s.refuseBusy(p.w, r, x.call.Principal, x.id, http.StatusServiceUnavailable, errStopped.Error())
		return
	}
	p.reserved.release() // the budget of listen streams counts it from now on
	stays = true
	s.runStream(p.w, r, share, c, stream.Ends{At: x.call.Principal.Expires}, end)
}
