package frontend

import (
	"context"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// Audience names the recipients of a notification that belongs to no call: the legacy
// client with this Key, or all clients of the principal with this key.
type Audience struct{ Client, Principal string }

// Notify sends a notification that belongs to no call to the legacy clients of the
// audience. Log messages go only to clients that want them. List changes also go to
// listen streams, and wait if a legacy client has no stream. Log messages are dropped then,
// and others reach the client if it has a stream at another replica. Notify does not block.
func (s *Server) Notify(to Audience, method string, params wire.Raw) {
	lists := stream.ListChangeOf(method)
	m := wire.Message{Method: method, Params: params}
	msg := m.Append(nil)
	sent := false
	for _, sess := range s.sessionsOf(to) {
		switch {
		case lists != 0:
			sess.NotifyLists(lists)
		case method != wire.NoteMessage || sess.WantsLog(params):
			sent = sess.Send(msg) || sent
		}
	}
	if !sent && to.Client != "" && lists == 0 && method != wire.NoteMessage {
		s.tellClient(to.Client, msg)
	}
	if lists != 0 && to.Principal != "" {
		s.listens.listChanged(func(principal *call.Principal, _ *call.Client) stream.ListChanges {
			if principal.Key() == to.Principal {
				return lists
			}
			return 0
		})
	}
}

// sessionsOf returns the sessions of an audience.
func (s *Server) sessionsOf(to Audience) []*session.Session {
	if to.Principal != "" {
		return s.sessions.Of(to.Principal)
	}
	if sess := s.sessions.Find(to.Client); sess != nil {
		return []*session.Session{sess}
	}
	return nil
}

// Ask asks a legacy client something that belongs to no call, like
// [call.BackChannel.Ask]. The Key of c is the id of the session.
func (s *Server) Ask(ctx context.Context, c *call.Client, method string, params wire.Raw) (wire.Raw, error) {
	if !bridge.Declared(c, method, params) {
		return undeclared(c, method)
	}
	sess := s.sessions.Find(c.Key)
	if sess == nil {
		return unanswered(method)
	}
	id, answers := sess.NewAsk()
	defer sess.ForgetAsk(id)
	if m := (wire.Message{ID: id, Method: method, Params: params}); !sess.Send(m.Append(nil)) {
		return unanswered(method)
	}
	select {
	case m := <-answers:
		if m.Error != nil {
			return nil, m.Error
		}
		return m.Result, nil
	case <-sess.Ended():
		return unanswered(method)
	case <-ctx.Done():
		sess.Send(cancelledNote(id))
		return nil, ctx.Err()
	}
}
