package frontend

import (
	"context"
	"net/http"

	"mcpgateway/internal/call"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

// ServeHTTP serves the MCP endpoint.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestid.Set(w, r)
	defer s.recoverPanic(w)
	timed := setBodyDeadline(w, r)
	principal := s.admit(w, r)
	if principal == nil {
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.servePost(w, r, principal, timed)
		return
	case http.MethodGet, http.MethodDelete:
		if !s.serves(principal.Profile, wire.EraLegacy) {
			s.refuseWithoutSession(w, r, principal)
			return
		}
	}
	switch r.Method {
	case http.MethodGet:
		s.serveGet(w, r, principal)
	case http.MethodDelete:
		s.serveDelete(w, r, principal)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE, OPTIONS")
		s.refuse(w, r, principal, &refusal{status: http.StatusMethodNotAllowed, reason: "this HTTP method is not served here"})
	}
}

// AdmitPage reports whether a page for browsers may be served: Host and Origin are those of
// requests that ServeHTTP serves. If not, it answers the request.
func (s *Server) AdmitPage(w http.ResponseWriter, r *http.Request) bool {
	if reason := s.settings.Load().Refusal(r); reason != "" {
		s.refuse(w, r, nil, &refusal{status: http.StatusForbidden, reason: reason}, origins(r)...)
		return false
	}
	return true
}

// admit returns the sender of a request. If it returns nil, the request was answered:
// it was refused, or it was a preflight request.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) *call.Principal {
	w.Header()["X-Content-Type-Options"] = noSniffing
	if !s.AdmitPage(w, r) {
		return nil
	}
	set := s.settings.Load()
	if r.Method == http.MethodOptions {
		set.preflight(w, r)
		return nil
	}
	set.allowCORS(w, r)
	principal, err := s.options.Authenticate(r)
	if err != nil {
		s.refuseUnauthenticated(w, r, err)
		return nil
	}
	if r.Method != http.MethodPost && r.ContentLength != 0 {
		if refused := s.skipBody(w, r); refused != nil {
			s.refuse(w, r, principal, refused)
			return nil
		}
	}
	return principal
}

// untilCredentialsExpire returns a context that ends with the request, and when the
// sender's credentials expire: a client that comes again has to authenticate again.
func untilCredentialsExpire(r *http.Request, principal *call.Principal) (context.Context, context.CancelFunc) {
	if principal.Expires.IsZero() {
		return r.Context(), func() {}
	}
	return context.WithDeadline(r.Context(), principal.Expires)
}

func (s *Server) servePost(w http.ResponseWriter, r *http.Request, principal *call.Principal, timed bool) {
	if refused := checkContentType(r); refused != nil {
		s.refuse(w, r, principal, refused)
		return
	}
	p := &postResponse{s: s, w: w, r: r, ctx: r.Context(), reserved: reservation{s: s, share: s.requestShare(r, principal)}}
	defer p.cleanUp()
	if p.accepts = parseAccept(r.Header["Accept"]); !p.accepts.json && !p.accepts.events {
		s.refuse(w, r, principal, &refusal{status: http.StatusNotAcceptable, reason: "Accept must name application/json or text/event-stream, better both"})
		return
	}
	if p.codings = parseAcceptEncoding(r.Header["Accept-Encoding"]); p.codings.refusesAll() {
		s.refuse(w, r, principal, errNoCoding)
		return
	}
	if s.stopped.Load() {
		s.refuseBusy(w, r, principal, wire.ID{}, http.StatusServiceUnavailable, "the gateway is shutting down")
		return
	}
	if refused := p.reserved.acquireCalls(1); refused != nil {
		s.refuse(w, r, principal, refused)
		return
	}
	body, refused := s.readBody(w, r, &p.reserved, timed)
	if refused != nil {
		s.refuse(w, r, principal, refused)
		return
	}
	p.body = body
	if s.serveBody(p, r, principal) {
		p.releaseBody()
	}
}

// serveBody serves the body of p. It reports whether the body's buffer can be reused,
// see bodyIsFree.
func (s *Server) serveBody(p *postResponse, r *http.Request, principal *call.Principal) bool {
	if isArray(p.body.b) {
		s.serveBatch(p, r, principal, p.body.b)
		return false
	}
	m, err := wire.Parse(p.body.b, s.options.Limits.JSON)
	if err != nil {
		invalid := err.(*wire.Error)
		if name, _ := header(r, wire.HeaderSession); name != "" {
			if sess, unknown := s.sessions.Get(name, principal); unknown == nil && s.failAsk(sess, responseIn(p.body.b), invalid) {
				m.ID = wire.ID{} // the id of an ask of ours, which the client may use for a request
			}
		}
		s.rejectMessage(p.w, r, principal, m.ID, http.StatusBadRequest, invalid)
		return true
	}
	if m.IsRequest() && m.Method != wire.MethodPing && s.draining.Load() {
		s.refuseDraining(p.w, r, principal, m.ID)
		return true
	}
	meta := readMeta(&m)
	if eraOf(r, &m, &meta) == wire.EraModern {
		p.era = wire.EraModern
		return s.serveModern(p, r, principal, &m, &meta)
	}
	p.era = wire.EraLegacy
	return s.serveLegacy(p, r, principal, &m)
}
