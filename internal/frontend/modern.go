package frontend

import (
	"cmp"
	"context"
	"net/http"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/park"
	"mcpgateway/internal/wire"
)

// serveModern serves one message of a modern client. It reports whether the
// body is free for other use.
func (s *Server) serveModern(p *postResponse, r *http.Request, who *call.Principal, m *wire.Message, meta *requestMeta) bool {
	switch {
	case m.IsResponse():
		s.rejectMessage(p.w, r, m.ID, http.StatusBadRequest, wire.Errorf(wire.CodeInvalidRequest, "invalid request: modern clients send no responses"))
		return true
	case m.IsNotification():
		// No notification of a client means anything over HTTP, not even
		// cancelled: the end of the connection says that.
		if version, _ := header(r, wire.HeaderVersion); version != "" && wire.Revision(version).Era() == wire.EraUnknown {
			s.rejectMessage(p.w, r, m.ID, http.StatusBadRequest, s.unsupportedRevision(version))
			return true
		}
		writeAccepted(p.w)
		return true
	}
	if fault := s.checkMeta(r, meta); fault != nil {
		s.rejectMessage(p.w, r, m.ID, http.StatusBadRequest, fault)
		return true
	}
	x := s.modernCall(r.Context(), p, who, s.modernClientKey(r, who, meta.info.Raw()), m, meta)
	x.call.ShareKey = s.callShare(r.RemoteAddr, who, x.call.Client)
	x.reserved = &p.reserved
	defer x.Cancel(nil)
	p.onLost = func() { x.Cancel(errClientGone) }
	if fault := s.checkHeaders(r, x); fault != nil {
		s.rejectMessage(p.w, r, m.ID, http.StatusBadRequest, fault)
		return true
	}
	// Of the body nothing is needed from here on: what strip returns is a copy,
	// as there is metadata to be taken out.
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

// modernCall makes the call of a modern request, whatever it travels on. Its
// params are still those that the client sent. key is the Key of its client, "" for
// one that made this request and no other.
func (s *Server) modernCall(parent context.Context, out sink, who *call.Principal, key string, m *wire.Message, meta *requestMeta) *exchange {
	x := s.newExchange(parent, out, m.ID)
	x.call.Method, x.call.Params = m.Method, m.Params
	x.call.Principal, x.call.Client = who, modernClient(cmp.Or(key, x.call.ID), meta)
	x.call.LogLevel = levelOf(meta.level)
	x.call.TakesRounds = true
	return x
}

// answerModern answers a modern request, here or by the handler. It is not for
// subscriptions/listen, whose answer depends on the transport.
func (x *exchange) answerModern() answer {
	c, m := &x.call, wire.MethodOf(x.call.Method)
	if m.Kind != wire.KindTask && !m.KnownTo(c.Client.Revision) { // the router answers for tasks
		return answer{err: wire.Errorf(wire.CodeMethodNotFound, "method %s is not known to revision %s", c.Method, c.Client.Revision)}
	}
	x.begin()
	a := x.runModern()
	x.end()
	if x.call.Method == wire.MethodDiscover && a.err == nil && !a.noResponse {
		a.result = call.Result{Raw: wire.SetMember(a.result.Raw, "supportedVersions", x.s.supported)}
	}
	return a
}

// runModern has a modern request handled: as a retry of a parked call, as a call
// that may have to be parked, or without further ado.
func (x *exchange) runModern() answer {
	if state := park.StateOf(&x.call); state != "" {
		return x.outcome(x.s.parked.Resume(x, state))
	}
	if park.Parkable(&x.call) {
		body := x.reserved.takeBody() // the params are the call's own: see (*requestMeta).strip
		return x.outcome(x.s.parked.Run(x, x.s.handle, body.release))
	}
	return x.run()
}

// modernClient describes the sender of one request. The copy of what it said
// outlives the request.
func modernClient(key string, meta *requestMeta) *call.Client {
	info, capabilities := meta.info.Raw(), meta.capabilities.Raw()
	kept := make(wire.Raw, 0, len(info)+len(capabilities))
	kept = append(append(kept, info...), capabilities...)
	c := &call.Client{Key: key, Sessionless: true, Revision: meta.revision, Capabilities: kept[len(info):]}
	if info != nil {
		c.Info = kept[:len(info):len(info)]
	}
	return c
}
