package frontend

import (
	"net/http"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

// listen serves subscriptions/listen over HTTP: a stream that begins with what
// is honored, carries list changes and updates of resources, and ends with a
// result when it is we who end it (2026-07-28, basic/patterns/subscriptions).
func (s *Server) listen(p *post, r *http.Request, x *exchange) {
	sub, ok := subscriptionTo(x.call.Params, x.id)
	if !ok {
		x.finish(p, answer{fault: errNoFilter})
		return
	}
	if !p.takes.events {
		s.refuse(p.w, r, &refusal{http.StatusNotAcceptable, "Accept must name text/event-stream for subscriptions/listen", x.id})
		return
	}
	owner := p.reserved.share
	if err := s.listening.Acquire(owner, 1); err != nil {
		refused := &refusal{http.StatusServiceUnavailable, "there are too many listen streams", x.id}
		if err == fairshare.ErrShareExceeded {
			refused.status, refused.reason = http.StatusTooManyRequests, "this client has as many listen streams as one may"
		}
		s.refuse(p.w, r, refused)
		return
	}
	defer s.listening.Release(owner, 1)
	s.subscribe(x, sub)
	defer sub.close()
	if fault := s.watch(x, sub); fault != nil {
		x.finish(p, answer{fault: fault})
		return
	}
	sub.st = s.newEventStream(wire.EraModern)
	c := sub.st.Connect(s.newEventWriter(p.w, owner))
	s.listens.add(sub)
	defer s.listens.remove(sub)
	if s.draining.Load() { // looked at after add, so that Drain misses no stream
		s.busy(p.w, r, x.id, http.StatusServiceUnavailable, errStopped.Error())
		return
	}
	p.reserved.release() // listening bounds such streams
	ctx, cancel := whileProved(r, x.call.Principal)
	defer cancel()
	c.Run(ctx, nil)
}
