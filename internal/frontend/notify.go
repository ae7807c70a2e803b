package frontend

import (
	"context"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
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
	s.sessions.each(to, func(sess *session) {
		switch {
		case lists != 0:
			sess.listChanged(lists)
		case method != wire.NoteMessage || sess.wants(params):
			sess.notify(msg)
		}
	})
	if lists != 0 && to.Principal != "" {
		s.listens.listChanged(func(who *call.Principal, _ *call.Client) stream.ListChanges {
			if keyOf(who) == to.Principal {
				return lists
			}
			return 0
		})
	}
}

// Ask puts a question to one legacy client outside of its calls, like
// [call.BackChannel.Ask]: c says what the client can answer, and its Key which
// client that is.
func (s *Server) Ask(ctx context.Context, c *call.Client, method string, params wire.Raw) (wire.Raw, error) {
	if !bridge.Declared(c, method, params) {
		return undeclared(c, method)
	}
	s.sessions.mu.RLock()
	sess := s.sessions.byID[c.Key]
	s.sessions.mu.RUnlock()
	if sess == nil {
		return unanswered(method)
	}
	id, answers := sess.ask()
	defer sess.forget(id)
	if m := (wire.Message{ID: id, Method: method, Params: params}); !sess.notify(m.Append(nil)) {
		return unanswered(method)
	}
	select {
	case m := <-answers:
		if m.Error != nil {
			return nil, m.Error
		}
		return m.Result, nil
	case <-sess.over:
		return unanswered(method)
	case <-ctx.Done():
		sess.notify(cancelledNote(id))
		return nil, ctx.Err()
	}
}

// notify puts a message onto one stream of the session, and reports whether there
// was one.
func (s *session) notify(msg []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	for i := len(s.streams) - 1; i >= 0; i-- {
		if s.streams[i].Send(msg) {
			return true
		}
	}
	return false
}

// wants reports whether a log message outside of calls is as grave as the client
// wants them. One that has set no level gets no debug output.
func (s *session) wants(params wire.Raw) bool {
	least := s.logLevel()
	if least == wire.LevelNone {
		least = wire.LevelInfo
	}
	level, known := wire.ParseLevel(wire.ValueOf(params).Get("level").Str())
	return !known || level >= least
}
