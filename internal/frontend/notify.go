package frontend

import "mcpgateway/internal/wire"

// Notify sends a notification to one legacy client outside of its calls, on the
// newest of its streams that takes it. key is the client's Key. It does not
// block, and a client that is gone or has no such stream is not told.
func (s *Server) Notify(key, method string, params wire.Raw) {
	s.sessions.mu.RLock()
	sess := s.sessions.byID[key]
	s.sessions.mu.RUnlock()
	if sess == nil {
		return
	}
	m := wire.Message{Method: method, Params: params}
	sess.notify(m.Append(nil))
}

// notify puts a message onto one stream of the session.
func (s *session) notify(msg []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	for i := len(s.streams) - 1; i >= 0; i-- {
		if s.streams[i].send(msg) {
			return
		}
	}
}
