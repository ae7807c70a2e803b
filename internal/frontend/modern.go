package frontend

import (
	"context"
	"net/http"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/park"
	"mcpgateway/internal/wire"
)

// serveModern serves one message of a modern client. It reports whether the
// buffer of the body can be reused.
func (s *Server) serveModern(p *postResponse, r *http.Request, principal *call.Principal, m *wire.Message, meta *requestMeta) bool {
	switch {
	case m.IsResponse():
		s.rejectMessage(p.w, r, principal, m.ID, http.StatusBadRequest, wire.Errorf(wire.CodeInvalidRequest, "invalid request: modern clients send no responses"))
		return true
	case m.IsNotification():
		// Over HTTP no notification of a modern client has an effect. A client cancels a
		// request by closing its connection.
		version, _ := header(r, wire.HeaderVersion)
		unknown := version != "" && wire.Revision(version).Era() == wire.EraUnknown
		if unknown || !s.serves(principal.Profile, wire.EraModern) {
			s.rejectMessage(p.w, r, principal, m.ID, http.StatusBadRequest, s.unsupportedRevision(version, principal.Profile))
			return true
		}
		writeAccepted(p.w)
		return true
	}
	if err := s.checkMeta(r, meta, principal.Profile); err != nil {
		s.rejectMessage(p.w, r, principal, m.ID, http.StatusBadRequest, err)
		return true
	}
	x := s.modernCall(r.Context(), p, s.senderOf(p.w, r, principal), s.modernClient(r, principal, meta), m, meta)
	x.reserved = &p.reserved
	defer x.Cancel(nil)
	p.onLost = func() { x.Cancel(errClientGone) }
	if err := s.checkHeaders(r, x); err != nil {
		s.rejectMessage(p.w, r, principal, m.ID, http.StatusBadRequest, err)
		return true
	}
	// The body is no longer needed: strip returns a copy, because it removes metadata.
	x.call.Params = meta.strip(m.Params)
	*m, *meta = wire.Message{}, requestMeta{}
	p.releaseBody()
	if x.call.Method == wire.MethodListen {
		s.listen(p, r, x)
		return false
	}
	x.finish(p, x.answerModern())
	return false
}

// modernCall returns the call of a modern request, over any transport. Its params are
// still those that the client has sent.
func (s *Server) modernCall(parent context.Context, out sink, from sender, client *call.Client, m *wire.Message, meta *requestMeta) *exchange {
	x := s.newExchange(parent, out, from, m.ID)
	x.call.Method, x.call.Params = m.Method, m.Params
	x.setClient(client)
	x.call.LogLevel = levelOf(meta.level)
	x.call.TakesRounds = true
	return x
}

// answerModern answers a modern request, in the front end or by the handler. It does
// not answer subscriptions/listen, which depends on the transport.
func (x *exchange) answerModern() answer {
	c, m := &x.call, wire.MethodOf(x.call.Method)
	if m.Kind != wire.KindTask && !m.KnownTo(c.Client.Revision) { // the router answers for tasks
		return answer{err: wire.Errorf(wire.CodeMethodNotFound, "method %s is not known to revision %s", c.Method, c.Client.Revision)}
	}
	x.begin()
	a := x.runModern()
	x.end()
	if x.call.Method == wire.MethodDiscover && a.err == nil && !a.noResponse {
		a.result = call.Result{Raw: wire.SetMember(a.result.Raw, "supportedVersions", x.s.supportedIn(c.Principal.Profile))}
	}
	return a
}

// runModern has a modern request handled: as a retry of a parked call, as a call that
// can be parked, or as any other call.
func (x *exchange) runModern() answer {
	if state := park.StateOf(&x.call); state != "" {
		return x.outcome(x.resume(state))
	}
	if park.Parkable(&x.call) {
		body := x.reserved.takeBody() // strip has copied the params
		return x.outcome(x.s.parked.Run(x, x.s.handle, body.release))
	}
	return x.run()
}

// resume passes a retry on to its parked call. The handler does not see the retry, so its span is
// made here.
func (x *exchange) resume(state string) (call.Result, error) {
	tracer := x.s.options.Tracer
	if tracer == nil {
		return x.s.parked.Resume(x, state)
	}
	span := tracer.Begin(&x.call, x.call.Method, nil, time.Now())
	x.trace.Begin(time.Now, span)
	res, err := x.s.parked.Resume(x, state)
	span.End(time.Now(), call.SpanEnd{Err: err, Item: x.trace.Resumed, Revision: res.Revision})
	return res, err
}

// ResumePassed continues a parked call with a retry that another replica has permitted and passed on, see
// [Parking].
func (s *Server) ResumePassed(ctx context.Context, c *call.Call) (call.Result, error) {
	return s.parked.ResumePassed(ctx, c)
}
