package frontend

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

// sseMessages is the path that messages are posted to, below that of the stream.
const sseMessages = "message"

// sseParam is the query parameter of that URL with the id of the peer.
const sseParam = "sessionId"

// ServeSSE serves the HTTP+SSE transport (2024-11-05, basic/transports, "HTTP with
// SSE"), for all legacy revisions. GET opens a stream, whose first event names the URL
// that the client posts its messages to. The stream carries all messages to the client,
// and the session ends with it. Mount ServeSSE at a separate path and at "message"
// below it.
func (s *Server) ServeSSE(w http.ResponseWriter, r *http.Request) {
	requestid.Set(w, r)
	defer s.recoverPanic(w)
	timed := setBodyDeadline(w, r)
	principal := s.admit(w, r)
	if principal == nil {
		return
	}
	if !s.serves(principal.Profile, wire.EraLegacy) {
		s.refuse(w, r, principal, &refusal{status: http.StatusBadRequest, reason: "HTTP+SSE is for legacy clients, which this profile does not serve"})
		return
	}
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && !query.Has(sseParam):
		s.openSSE(w, r, principal)
	case r.Method == http.MethodPost && query.Has(sseParam):
		s.postSSE(w, r, principal, query[sseParam], timed)
	default: // clients of newer transports try POST first, and try GET after this status
		w.Header().Set("Allow", "GET")
		s.refuse(w, r, principal, &refusal{status: http.StatusMethodNotAllowed, reason: "begin a session with GET, and post its messages to the URL that the first event names"})
	}
}

// openSSE serves a peer until one side ends the stream.
func (s *Server) openSSE(w http.ResponseWriter, r *http.Request, principal *call.Principal) {
	if !parseAccept(r.Header["Accept"]).events {
		s.refuse(w, r, principal, &refusal{status: http.StatusNotAcceptable, reason: "Accept must name text/event-stream"})
		return
	}
	st := s.newEventStream(wire.EraLegacy)
	share := s.requestShare(r, principal)
	conn := st.Connect()
	p := s.newPeer(r.Context(), principal, st)
	p.remote, p.share = r.RemoteAddr, share
	defer p.close()
	if s.draining.Load() {
		s.refuseBusy(w, r, principal, wire.ID{}, http.StatusServiceUnavailable, errStopped.Error())
		return
	}
	if why := s.sessions.Reserve(share); why != nil {
		s.refuseNewSession(w, r, principal, wire.ID{}, sessionRefusal(why))
		return
	}
	defer s.sessions.Release(share)
	p.hasSlot = true
	s.peers.add(p)
	defer s.peers.remove(p)
	if s.draining.Load() { // checked after add, so that Drain misses no peer
		s.refuseBusy(w, r, principal, wire.ID{}, http.StatusServiceUnavailable, errStopped.Error())
		return
	}
	st.SendEvent(wire.Event{Name: "endpoint", Data: []byte(s.endpointOf(r, p.id))})
	conn.Run(r.Context(), s.newStreamWriter(w, share), stream.Ends{At: principal.Expires})
}

// endpointOf returns the URL that a peer posts to. It is a path, which the client
// resolves against the URL of the stream. Behind a proxy the path begins with that of
// the public URL.
func (s *Server) endpointOf(r *http.Request, id string) string {
	base := ""
	if u, err := url.Parse(s.settings.Load().PublicURL); err == nil {
		base = strings.TrimSuffix(u.EscapedPath(), "/")
	}
	return base + path.Join(r.URL.EscapedPath(), sseMessages) + "?" + sseParam + "=" + id
}

// postSSE handles a message of a peer.
func (s *Server) postSSE(w http.ResponseWriter, r *http.Request, principal *call.Principal, names []string, timed bool) {
	if refused := checkContentType(r); refused != nil {
		s.refuse(w, r, principal, refused)
		return
	}
	p, reason := s.peers.get(names[0], principal)
	elsewhere := ""
	if len(names) > 1 {
		reason = session.ErrUnknown
	} else if p == nil {
		elsewhere = s.replicaOfPeer(names[0])
	}
	if reason != nil && elsewhere == "" {
		s.refuseUnknownSession(w, r, wire.ID{}, principal, reason)
		return
	}
	h := &reservation{s: s, share: s.requestShare(r, principal)}
	defer h.release()
	body, refused := s.readBody(w, r, h, timed)
	if refused != nil {
		s.refuse(w, r, principal, refused)
		return
	}
	if elsewhere != "" {
		s.postElsewhere(w, r, principal, elsewhere, postedMessage{names[0], ownerOf(principal), requestid.Of(w), body.b})
		return
	}
	id, why := p.receive(body.b, requestid.Of(w), h)
	s.answerPost(w, r, principal, postStatus(why), id, why)
}
