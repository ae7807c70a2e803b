package frontend

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// initialize opens a session over streamable HTTP. It reports whether the buffer of the
// body can be reused.
func (s *Server) initialize(p *postResponse, r *http.Request, principal *call.Principal, m *wire.Message) bool {
	client, err := newLegacyClient(m)
	if err != nil {
		s.rejectMessage(p.w, r, principal, m.ID, http.StatusBadRequest, err)
		return true
	}
	claims := s.sessionIDs.Seal(client, principal, time.Now())
	x := s.legacyCall(context.WithoutCancel(r.Context()), p, nil, client, s.senderOf(p.w, r, principal), m)
	defer x.Cancel(nil)
	a, sess := x.openSession(session.Config{Claims: claims, Counted: true, Share: p.reserved.share})
	switch {
	case a.err == errTooManySessions || a.err == errSessionShare:
		s.refuseNewSession(p.w, r, principal, m.ID, a.err)
		return true
	case sess != nil:
		p.w.Header()[wire.HeaderSession] = []string{sess.ID()}
	}
	x.finish(p, a)
	return x.bodyIsFree(a)
}

var (
	errTooManySessions = wire.Errorf(wire.CodeInternal, "there are too many sessions: try again later")
	errSessionShare    = wire.Errorf(wire.CodeInternal, "this client has as many sessions as one client may have: end unused sessions")
)

// sessionRefusal returns the error for a client that gets no session, for an error of
// [session.Table].
func sessionRefusal(err error) *wire.Error {
	if err == fairshare.ErrShareExceeded {
		return errSessionShare
	}
	return errTooManySessions
}

// refuseNewSession answers a client that gets no session.
func (s *Server) refuseNewSession(w http.ResponseWriter, r *http.Request, principal *call.Principal, id wire.ID, why *wire.Error) {
	status := http.StatusServiceUnavailable
	if why == errSessionShare {
		status = http.StatusTooManyRequests
	}
	s.countRefused(zapcore.WarnLevel, "sessions are refused for now: "+why.Message, w, r, status, reasonOf(status, 0), zap.String("principal", principal.Subject), zap.Int("max_sessions", s.options.Limits.MaxSessions))
	s.answerRefused(w, &refusal{status, why.Message, id})
}

// newLegacyClient returns the client that an initialize request describes, without a Key. Its
// revision is the proposed one if that is a legacy revision, otherwise the latest (2025-11-25,
// basic/lifecycle, "Version Negotiation").
func newLegacyClient(m *wire.Message) (*call.Client, *wire.Error) {
	params := wire.ValueOf(m.Params)
	proposed, ok := params.Get("protocolVersion").Text()
	if !ok {
		return nil, wire.Errorf(wire.CodeInvalidParams, "invalid params: initialize needs the string protocolVersion")
	}
	client := &call.Client{Revision: wire.Revision(proposed)}
	if client.Era() != wire.EraLegacy {
		client.Revision = wire.LatestLegacy
	}
	if info := params.Get("clientInfo"); info.Kind() == '{' {
		client.Info = bytes.Clone(info.Raw())
	}
	if capabilities := params.Get("capabilities"); capabilities.Kind() == '{' {
		client.Capabilities = bytes.Clone(capabilities.Raw())
	}
	return client, nil
}

// openSession answers initialize and opens the session, which is nil if the answer is
// not a result. It completes the configuration, see sessionConfig.
func (x *exchange) openSession(c session.Config) (answer, *session.Session) {
	s := x.s
	x.call.Method, x.call.Params = wire.MethodDiscover, metaOf(x.call.Params)
	x.begin()
	a := x.run()
	x.end()
	if a.err != nil || a.noResponse {
		return a, nil
	}
	sess, err := s.sessions.Open(s.sessionConfig(c, x.call.Principal))
	if err != nil {
		return answer{err: sessionRefusal(err)}, nil
	}
	return answer{result: call.Result{Raw: s.initializeResult(c.Client.Revision, a.result.Raw)}}, sess
}

// adoptSession opens the session with this id for a principal, if the id is sealed. The error is
// that of [session.IDs.Open] or [session.Table.Adopt].
func (s *Server) adoptSession(r *http.Request, id string, principal *call.Principal) (*session.Session, error) {
	claims, err := s.sessionIDs.Open(id, principal, time.Now())
	if err != nil {
		return nil, err
	}
	sess, err := s.sessions.Adopt(s.sessionConfig(session.Config{Claims: claims, Counted: true, Share: s.requestShare(r, principal)}, principal))
	if err == nil && !s.loadState(r.Context(), sess) {
		return nil, session.ErrUnknown
	}
	return sess, err
}

// sessionConfig completes the configuration of a principal's session.
func (s *Server) sessionConfig(c session.Config, principal *call.Principal) session.Config {
	client := c.Client
	c.Principal = principal
	if peers := s.options.Sessions.Replicas; peers != nil && !c.Expires.IsZero() {
		c.Replica = peers.Name()
		if copies := s.options.Sessions.Copies; copies != nil {
			c.Copies = copies.Of(client.Key, c.Share)
		}
	}
	c.Log = s.newEventLog(client.Key, c.Share)
	c.Ready = func() { s.options.Events.SessionReady(client) }
	c.RootsChanged = func() { s.options.Events.RootsChanged(client, principal.Key()) }
	return c
}

// newEventLog returns the event log of a new session.
func (s *Server) newEventLog(id string, share fairshare.Share) stream.EventLog {
	if s.options.Sessions.EventLog != nil {
		return s.options.Sessions.EventLog(id)
	}
	return stream.NewMemoryLog(s.eventLogs, share)
}

// metaOf returns params with only the _meta of the given ones, or nil if they have none.
func metaOf(params wire.Raw) wire.Raw {
	meta := wire.ValueOf(params).Get("_meta")
	if meta.Kind() != '{' {
		return nil
	}
	return wire.SetMember(wire.Raw(`{}`), "_meta", meta.Raw())
}

// initializeResult returns the result of initialize, from the handler's result of
// server/discover.
func (s *Server) initializeResult(rev wire.Revision, discovered wire.Raw) wire.Raw {
	out := append([]byte(`{"protocolVersion":`), wire.String(string(rev))...)
	out = append(out, `,"serverInfo":`...)
	out = append(out, s.options.Info...)
	for m := range wire.ValueOf(discovered).Members() {
		out = append(out, ',')
		out = append(out, m.Key.Raw()...)
		out = append(out, ':')
		out = append(out, m.Value.Raw()...)
	}
	return append(out, '}')
}
