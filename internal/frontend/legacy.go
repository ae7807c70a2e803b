package frontend

import (
	"context"
	"crypto/rand"
	"net/http"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/wire"
)

var errNoSession = wire.Errorf(wire.CodeInvalidRequest, "session not found: begin a new one with initialize")

func invalidRequest(err error) *wire.Error {
	return wire.Errorf(wire.CodeInvalidRequest, "invalid request: %s", err)
}

// serveLegacy serves one message of a legacy client. It reports whether the
// buffer of the body can be reused.
func (s *Server) serveLegacy(p *postResponse, r *http.Request, principal *call.Principal, m *wire.Message) bool {
	if !s.serves(principal.Profile, wire.EraLegacy) {
		s.refuseLegacy(p.w, r, principal, m)
		return true
	}
	if m.Method == wire.MethodInitialize && m.IsRequest() {
		return s.initialize(p, r, principal, m)
	}
	sess, client, ok := s.findSession(p.w, r, principal, m.ID)
	if !ok {
		return true
	}
	p.sess, p.request = sess, m.ID
	switch {
	case m.IsRequest():
		ctx := r.Context()
		if sess != nil {
			ctx = context.WithoutCancel(ctx)
		}
		x := s.legacyCall(ctx, p, sess, client, s.senderOf(p.w, r, principal), m)
		defer x.Cancel(nil)
		if sess == nil { // the client could not fetch the answer later
			p.onLost = func() { x.Cancel(errClientGone) }
		}
		if err := x.begin(); err == session.ErrEnded { // after it was found
			if s.stopped.Load() {
				s.refuseSession(p.w, r, m.ID, principal, errStopped)
			} else {
				s.rejectMessage(p.w, r, principal, m.ID, http.StatusNotFound, errNoSession)
			}
			return true
		} else if err != nil {
			s.rejectMessage(p.w, r, principal, m.ID, http.StatusBadRequest, invalidRequest(err))
			return true
		}
		a := x.answerLegacy()
		x.end()
		x.finish(p, a)
		return x.bodyIsFree(a)
	case m.IsResponse() && sess == nil:
		s.rejectMessage(p.w, r, principal, m.ID, http.StatusBadRequest, wire.Errorf(wire.CodeInvalidRequest, "invalid request: a response needs the session of its request"))
		return true
	}
	s.receive(sess, m)
	writeAccepted(p.w)
	return true
}

// findSession returns the session that a request names, and its client. A request
// without a session is served too, for a client that is not known otherwise, because
// some hosts drop the header. If findSession reports false, it has answered the
// request.
func (s *Server) findSession(w http.ResponseWriter, r *http.Request, principal *call.Principal, id wire.ID) (*session.Session, *call.Client, bool) {
	version, single := header(r, wire.HeaderVersion)
	name, named := header(r, wire.HeaderSession)
	if !single || !named {
		s.rejectMessage(w, r, principal, id, http.StatusBadRequest, wire.Errorf(wire.CodeInvalidRequest, "invalid request: Mcp-Session-Id and MCP-Protocol-Version must be sent once"))
		return nil, nil, false
	}
	if len(r.Header[wire.HeaderSession]) == 0 {
		// Two such clients cannot be distinguished, so each request counts as a
		// separate client.
		c := &call.Client{Key: rand.Text(), Sessionless: true, Revision: wire.Revision(version)}
		if version == "" {
			c.Revision = wire.Rev20250326 // 2025-11-25, basic/transports, "Protocol Version Header"
		}
		return nil, c, true
	}
	sess, reason := s.sessions.Get(name, principal)
	if reason == nil && !sess.Touch() {
		reason = session.ErrUnknown
	}
	switch {
	case reason == session.ErrUnknown:
		sess, reason = s.adoptSession(r, name, principal)
	case reason == nil && !s.loadState(r.Context(), sess):
		reason = session.ErrUnknown
	}
	if reason != nil {
		s.refuseSession(w, r, id, principal, reason)
		return nil, nil, false
	}
	if version != "" && version != string(sess.Client.Revision) {
		s.rejectMessage(w, r, principal, id, http.StatusBadRequest, wire.Errorf(wire.CodeInvalidRequest,
			"invalid request: the MCP-Protocol-Version header must be %s, which this session negotiated", sess.Client.Revision))
		return nil, nil, false
	}
	return sess, sess.Client, true
}

// refuseSession refuses a request whose session cannot be used, or not now.
func (s *Server) refuseSession(w http.ResponseWriter, r *http.Request, id wire.ID, principal *call.Principal, reason error) {
	switch reason {
	case fairshare.ErrExhausted, fairshare.ErrShareExceeded:
		s.refuseNewSession(w, r, principal, id, sessionRefusal(reason))
	case errStopped: // not 404: the session goes on at another replica
		s.refuseBusy(w, r, principal, id, http.StatusServiceUnavailable, reason.Error())
	default:
		s.refuseUnknownSession(w, r, id, principal, reason)
	}
}

// refuseUnknownSession refuses a request whose session cannot be used, and logs the
// reason.
func (s *Server) refuseUnknownSession(w http.ResponseWriter, r *http.Request, id wire.ID, principal *call.Principal, reason error) {
	s.countRefusedID("session id refused", w, r, principal, http.StatusNotFound, reason)
	s.answerRejected(w, id, http.StatusNotFound, errNoSession)
}

// legacyCall returns the call of a legacy request, over any transport. In a session
// over HTTP parent must not end with the connection, because that is not a
// cancellation. Without a session it must, because the client could not fetch the
// answer later.
func (s *Server) legacyCall(parent context.Context, out sink, sess *session.Session, client *call.Client, from sender, m *wire.Message) *exchange {
	x := s.newExchange(parent, out, from, m.ID)
	x.sess = sess
	x.call.Method, x.call.Params = m.Method, m.Params
	x.setClient(client)
	// A server that needs a level should not send debug messages to a client that set none.
	if x.call.LogLevel = sess.LogLevel(); x.call.LogLevel == wire.LevelNone {
		x.call.LogLevel, x.call.LevelUnset = wire.LevelInfo, true
	}
	return x
}

// begin registers the call, so that it can be cancelled. The error is that of
// [session.Session.Begin].
func (x *exchange) begin() error {
	if x.sess == nil {
		x.s.sessionless.add(x)
		if x.s.stopped.Load() {
			x.Cancel(errStopped)
		}
		return nil
	}
	return x.sess.Begin(x.id, x)
}

// end removes the call that begin has registered.
func (x *exchange) end() {
	if x.sess == nil {
		x.s.sessionless.remove(x)
		return
	}
	x.sess.Done(x.id, x)
}

// answerLegacy answers a legacy request, in the front end or by the handler.
func (x *exchange) answerLegacy() answer {
	if by := legacyAnswers[x.call.Method]; by != nil {
		return by(x)
	}
	return x.run()
}

// legacyAnswers are the legacy requests that the front end answers itself.
var legacyAnswers = map[string]func(*exchange) answer{
	wire.MethodPing:               func(*exchange) answer { return answer{result: call.Result{Raw: wire.Raw(`{}`)}} },
	wire.MethodSetLevel:           (*exchange).answerSetLevel,
	wire.MethodResourcesSubscribe: (*exchange).answerSubscribe,
	wire.MethodResourcesUnsub:     (*exchange).answerSubscribe,
	wire.MethodInitialize: func(*exchange) answer {
		return answer{err: wire.Errorf(wire.CodeInvalidRequest, "invalid request: initialize must not be part of a batch")}
	},
	wire.MethodDiscover: (*exchange).answerUnknown,
	wire.MethodListen:   (*exchange).answerUnknown,
}

// answerSetLevel answers logging/setLevel.
func (x *exchange) answerSetLevel() answer {
	level := levelOf(wire.ValueOf(x.call.Params).Get("level"))
	if level == wire.LevelNone {
		return answer{err: wire.Errorf(wire.CodeInvalidParams, "invalid params: level must be one of %s", levelNames)}
	}
	if x.sess != nil {
		x.sess.SetLogLevel(level)
		x.s.share(&x.scope, x.sess, session.Change{Level: level})
	}
	return answer{result: call.Result{Raw: wire.Raw(`{}`)}}
}

// answerUnknown answers a method that only modern revisions have.
func (x *exchange) answerUnknown() answer {
	return answer{err: wire.Errorf(wire.CodeMethodNotFound, "method %s is not known to revision %s here", x.call.Method, x.call.Client.Revision)}
}

// serveDelete ends a session.
func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request, principal *call.Principal) {
	if len(r.Header[wire.HeaderSession]) == 0 {
		s.refuseWithoutSession(w, r, principal)
		return
	}
	sess, _, ok := s.findSession(w, r, principal, wire.ID{})
	if !ok {
		return
	}
	s.sessions.Close(sess, session.ErrEnded)
	s.share(r.Context(), sess, session.Change{Ended: true})
	writeStatus(w, http.StatusNoContent)
}
