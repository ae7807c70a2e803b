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
// listen streams, and wait if a legacy client has no stream. Others are dropped then. Clients
// whose streams are at other replicas are notified there. Notify does not block.
func (s *Server) Notify(to Audience, method string, params wire.Raw) {
	m := wire.Message{Method: method, Params: params}
	if !s.notifyHere(to, &m) {
		s.notifyElsewhere(to, &m)
	}
}

// notifyHere is Notify for the streams of this replica. It reports whether no other replica has to
// notify the audience.
func (s *Server) notifyHere(to Audience, m *wire.Message) (all bool) {
	lists := stream.ListChangeOf(m.Method)
	msg := m.Append(nil)
	for _, sess := range s.sessionsOf(to) {
		switch {
		case lists != 0:
			all = sess.HasStream() || !sess.IsSealed()
			sess.NotifyLists(lists)
		case m.Method != wire.NoteMessage || sess.WantsLog(m.Params):
			all = sess.Send(msg) || !sess.IsSealed()
		default:
			all = true
		}
	}
	if lists != 0 && to.Principal != "" {
		s.listens.listChanged(func(principal *call.Principal, _ *call.Client) stream.ListChanges {
			if principal.Key() == to.Principal {
				return lists
			}
			return 0
		})
	}
	return all && to.Principal == ""
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
// [call.BackChannel.Ask]. The Key of c is the id of the session. The client may have its stream
// at another replica.
func (s *Server) Ask(ctx context.Context, c *call.Client, method string, params wire.Raw) (wire.Raw, error) {
	if !bridge.Declared(c, method, params) {
		return undeclared(c, method)
	}
	sess := s.sessions.Find(c.Key)
	if sess != nil {
		if answer, sent, err := askOnStream(ctx, sess, method, params); sent {
			return answer, err
		}
	}
	if s.options.Sessions.Replicas == nil || sess != nil && !sess.IsSealed() {
		return unanswered(method)
	}
	return s.askElsewhere(ctx, c.Key, method, params)
}

// askOnStream asks the client of a session on one of its streams. It reports false if the session has
// none.
func askOnStream(ctx context.Context, sess *session.Session, method string, params wire.Raw) (answer wire.Raw, sent bool, err error) {
	id, answers := sess.NewAsk()
	defer sess.ForgetAsk(id)
	if m := (wire.Message{ID: id, Method: method, Params: params}); !sess.Send(m.Append(nil)) {
		return nil, false, nil
	}
	select {
	case m := <-answers:
		if m.Error != nil {
			return nil, true, m.Error
		}
		return m.Result, true, nil
	case <-sess.Ended():
		answer, err = unanswered(method)
		return answer, true, err
	case <-ctx.Done():
		sess.Send(cancelledNote(id))
		return nil, true, ctx.Err()
	}
}
