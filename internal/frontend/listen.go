package frontend

import (
	"net/http"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

// listen serves subscriptions/listen over HTTP: a stream that begins with what
// is honored, carries list changes and updates of resources, and ends with a
// result when it is we who end it (2026-07-28, basic/patterns/subscriptions).
func (s *Server) listen(p *postResponse, r *http.Request, x *exchange) {
	sub, ok := parseSubscription(x.call.Params, x.id)
	if !ok {
		x.finish(p, answer{err: errNoFilter})
		return
	}
	if !p.accepts.events {
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
	s.subscribeResources(x, sub)
	defer sub.close()
	if fault := s.watchTasks(x, sub); fault != nil {
		x.finish(p, answer{err: fault})
		return
	}
	sub.stream = s.newEventStream(wire.EraModern)
	c := sub.stream.Connect(s.newEventWriter(p.w, owner))
	s.listens.add(sub)
	defer s.listens.remove(sub)
	if s.draining.Load() { // looked at after add, so that Drain misses no stream
		s.refuseBusy(p.w, r, x.id, http.StatusServiceUnavailable, errStopped.Error())
		return
	}
	p.reserved.release() // listening bounds such streams
	ctx, cancel := untilCredentialsExpire(r, x.call.Principal)
	defer cancel()
	c.Run(ctx, nil)
}
