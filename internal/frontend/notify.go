package frontend

import (
	"context"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// Audience is who is to hear of something that belongs to no call: the legacy
// client with this Key, or all clients of the principal with this key.
type Audience struct{ Client, Principal string }

// Notify sends a notification outside of calls, to each legacy client that is
// meant on the newest of its streams that takes it. Log messages reach those that
// want such, and changes of lists those that listen too. It does not block, and a
// client that is gone or has no such stream is not told, save for changes of
// lists, which wait for one.
func (s *Server) Notify(to Audience, method string, params wire.Raw) {
	lists := stream.ListChangeOf(method)
	m := wire.Message{Method: method, Params: params}
	msg := m.Append(nil)
	for _, sess := range s.sessionsOf(to) {
		switch {
		case lists != 0:
			sess.NotifyLists(lists)
		case method != wire.NoteMessage || sess.WantsLog(params):
			sess.Send(msg)
		}
	}
	if lists != 0 && to.Principal != "" {
		s.listens.listChanged(func(who *call.Principal, _ *call.Client) stream.ListChanges {
			if keyOf(who) == to.Principal {
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

// Ask puts a question to one legacy client outside of its calls, like
// [call.BackChannel.Ask]: c says what the client can answer, and its Key which
// client that is.
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
