package session

import (
	"bytes"
	"strconv"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// ErrCancelled is the cause with which a request ends that the client has cancelled.
var ErrCancelled error = call.ClientGone("the client cancelled the request")

// Receive handles a notification or a response of the client. It reports whether it is
// for other replicas too: an answer to an ask that nobody here waits for, the end of a
// request that does not run here, a change that others have to know. A nil session ignores
// every message.
func (s *Session) Receive(m *wire.Message) (forOthers bool) {
	if s == nil {
		return false
	}
	if m.IsResponse() {
		return !s.answered(m)
	}
	if handle := notifications[m.Method]; handle != nil {
		return handle(s, m.Params)
	}
	return false
}

// notifications are the notifications of a client that a session handles, with the result
// of Receive. They get the params alone: an argument of such a call is allocated on the
// heap, and a message would be for each call.
var notifications = map[string]func(s *Session, params wire.Raw) (forOthers bool){
	wire.NoteInitialized:  func(s *Session, _ wire.Raw) bool { s.setReady(); return false },
	wire.NoteRootsChanged: func(s *Session, _ wire.Raw) bool { s.RootsChanged(); return true },
	wire.NoteCancelled: func(s *Session, params wire.Raw) bool {
		id, ok := cancelledRequest(params)
		return ok && !s.cancelRequest(id, ErrCancelled)
	},
}

// CancelledRequest returns the id of the request that m cancels. It reports false if
// m cancels none.
func CancelledRequest(m *wire.Message) (wire.ID, bool) {
	if m.Method != wire.NoteCancelled {
		return wire.ID{}, false
	}
	return cancelledRequest(m.Params)
}

// cancelledRequest returns the id in the params of a notifications/cancelled.
func cancelledRequest(params wire.Raw) (wire.ID, bool) {
	switch id := wire.ValueOf(params).Get("requestId"); id.Kind() {
	case '"', '0':
		return wire.IDOf(string(id.Raw())), true
	default:
		return wire.ID{}, false
	}
}

func (s *Session) setReady() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.becomeReady()
}

// becomeReady notes that the client may be asked. The caller holds mu.
func (s *Session) becomeReady() {
	if s.ready {
		return
	}
	s.ready = true
	if s.Ready != nil {
		s.Ready()
	}
}

// NewAsk registers an ask. It returns the id of the request to send, and where the
// client's answer will come. The caller calls ForgetAsk afterwards.
func (s *Session) NewAsk() (wire.ID, <-chan wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	// Only the client's answers to asks carry this id, so it may equal an id of the client's.
	text := strconv.FormatInt(s.asked, 10)
	if s.Replica != "" {
		text = `"` + s.Replica + "." + text + `"`
	}
	id := wire.IDOf(text)
	answers := make(chan wire.Message, 1)
	if s.asks == nil {
		s.asks = make(map[wire.ID]chan wire.Message)
	}
	s.asks[id] = answers
	return id, answers
}

// AskedBy returns the name of the replica that has made the id of an ask. It reports false if there is
// none in it.
func AskedBy(id wire.ID) (replica string, ok bool) {
	text, quoted := strings.CutPrefix(string(id.Append(nil)), `"`)
	replica, number, ok := strings.Cut(strings.TrimSuffix(text, `"`), ".")
	_, err := strconv.ParseInt(number, 10, 64)
	return replica, quoted && ok && err == nil && replica != "" && len(text) <= maxAskID
}

// maxAskID bounds the ids of asks that replicas make, in bytes.
const maxAskID = 64

// ForgetAsk drops a later answer to an ask.
func (s *Session) ForgetAsk(id wire.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asks, id)
}

// answered passes the client's response to the ask that waits for it. It reports false if there is
// none.
func (s *Session) answered(m *wire.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := s.asks[m.ID]
	if answers == nil {
		return false
	}
	delete(s.asks, m.ID)
	kept := wire.Message{ID: m.ID, Result: bytes.Clone(m.Result)} // the buffer of m is reused
	if e := m.Error; e != nil {
		kept.Error = &wire.Error{Code: e.Code, Message: e.Message, Data: bytes.Clone(e.Data), Raw: bytes.Clone(e.Raw)}
	}
	answers <- kept
	return true
}
