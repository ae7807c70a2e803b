package frontend

import (
	"bytes"
	"net/http"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// initialize opens a session: the revision is the one that the client proposes
// if it is a legacy one, else our latest (2025-11-25, basic/lifecycle, "Version
// Negotiation").
func (s *Server) initialize(p *post, r *http.Request, who *call.Principal, m *wire.Message) {
	params := wire.ValueOf(m.Params)
	proposed, ok := params.Get("protocolVersion").Text()
	if !ok {
		s.fault(p.w, r, m.ID, http.StatusBadRequest, wire.Errorf(wire.CodeInvalidParams, "invalid params: initialize needs the string protocolVersion"))
		return
	}
	rev := wire.Revision(proposed)
	if rev.Era() != wire.EraLegacy {
		rev = wire.LatestLegacy
	}
	client := &call.Client{Key: newSessionID(), Revision: rev}
	if info := params.Get("clientInfo"); info.Kind() == '{' {
		client.Info = bytes.Clone(info.Raw())
	}
	if capabilities := params.Get("capabilities"); capabilities.Kind() == '{' {
		client.Capabilities = bytes.Clone(capabilities.Raw())
	}

	x := s.legacyCall(r, p, nil, client, who, m)
	defer x.cancel(nil)
	x.call.Method, x.call.Params = wire.MethodDiscover, nil
	x.begin()
	a := x.run()
	x.end()
	if a.fault == nil && !a.silent {
		a.result = call.Result{Raw: s.initializeResult(rev, a.result.Raw)}
		sess := newSession(who, client, &s.levels)
		if !s.sessions.add(sess) {
			s.busy(p.w, r, http.StatusServiceUnavailable, "there are too many sessions")
			return
		}
		if s.stopped.Load() { // looked at after add, so that the end of Run misses no session
			s.sessions.remove(sess, errStopped)
		}
		p.w.Header()[wire.HeaderSession] = []string{sess.id}
	}
	x.finish(p, a)
}

// initializeResult makes the result of initialize from what the handler says of
// the gateway.
func (s *Server) initializeResult(rev wire.Revision, discovered wire.Raw) wire.Raw {
	out := append([]byte(`{"protocolVersion":`), wire.String(string(rev))...)
	out = append(out, `,"serverInfo":`...)
	out = append(out, s.opt.Info...)
	for m := range wire.ValueOf(discovered).Members() {
		out = append(out, ',')
		out = append(out, m.Key.Raw()...)
		out = append(out, ':')
		out = append(out, m.Value.Raw()...)
	}
	return append(out, '}')
}
