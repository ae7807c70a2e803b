package session

import (
	"bytes"
	"errors"
	"strconv"

	"mcpgateway/internal/wire"
)

// ErrCancelled is the cause with which a request ends that the client has cancelled.
var ErrCancelled = errors.New("the client cancelled the request")

// Receive handles a notification or a response of the client. A nil session ignores
// every message.
func (s *Session) Receive(m *wire.Message) {
	if s == nil {
		return
	}
	if m.IsResponse() {
		s.answered(m)
	} else if handle := notifications[m.Method]; handle != nil {
		handle(s, m.Params)
	}
}

// notifications are the notifications of a client that a session handles. They get
// the params alone: an argument of such a call is allocated on the heap, and a message
// would be for each call.
var notifications = map[string]func(s *Session, params wire.Raw){
	wire.NoteInitialized:  func(s *Session, _ wire.Raw) { s.setReady() },
	wire.NoteRootsChanged: func(s *Session, _ wire.Raw) { s.RootsChanged() },
	wire.NoteCancelled: func(s *Session, params wire.Raw) {
		if id, ok := cancelledRequest(params); ok {
			s.cancelRequest(id, ErrCancelled)
		}
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
	id := wire.IDOf(strconv.FormatInt(s.asked, 10))
	answers := make(chan wire.Message, 1)
	s.asks[id] = answers
	return id, answers
}

// ForgetAsk drops a later answer to an ask.
func (s *Session) ForgetAsk(id wire.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asks, id)
}

// answered passes the client's response to the ask that waits for it. Any other
// response is dropped.
func (s *Session) answered(m *wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := s.asks[m.ID]
	if answers == nil {
		return
	}
	delete(s.asks, m.ID)
	kept := wire.Message{ID: m.ID, Result: bytes.Clone(m.Result)} // the buffer of m is reused
	if e := m.Error; e != nil {
		kept.Error = &wire.Error{Code: e.Code, Message: e.Message, Data: bytes.Clone(e.Data), Raw: bytes.Clone(e.Raw)}
	}
	answers <- kept
}

// FailAsk answers the ask with this id by an error, because the client's answer
// cannot be read. It reports false if id is the zero ID: then the message that could
// not be read was not a response.
func (s *Session) FailAsk(id wire.ID, why *wire.Error) bool {
	if id.IsZero() {
		return false
	}
	s.Receive(&wire.Message{ID: id, Error: wire.Errorf(why.Code, "the client's answer cannot be read: %s", why.Message)})
	return true
}
