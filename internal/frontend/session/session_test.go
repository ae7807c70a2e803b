package session

import (
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

func testConfig(id string) Config {
	return Config{
		Principal: call.Anonymous, Claims: Claims{Client: &call.Client{Key: id, Revision: wire.LatestLegacy}},
		Log: stream.NewMemoryLog(fairshare.New(1<<40, 0), 0), RootsChanged: func() {},
	}
}

// request is a Request that notes why it was cancelled.
type request struct{ cause error }

func (r *request) Cancel(cause error) { r.cause = cause }

// Only the first answer to an ask counts. It outlives the buffer that it came in.
func TestSecondAnswerIsDropped(t *testing.T) {
	s := newSession(testConfig("s"), &levelTracker{})
	id, answers := s.NewAsk()
	body := []byte(`{"action":"accept"}`)
	s.Receive(&wire.Message{ID: id, Result: body})
	clear(body)
	s.Receive(&wire.Message{ID: id, Result: wire.Raw(`{"action":"decline"}`)})
	if got := <-answers; string(got.Result) != `{"action":"accept"}` {
		t.Errorf("the answer is %q", got.Result)
	}
	if len(answers) != 0 {
		t.Error("there was a second answer")
	}
}

// A client may use the id of a request again as soon as it has cancelled it.
func TestCancelledIDIsFree(t *testing.T) {
	s := newSession(testConfig("s"), &levelTracker{})
	id := wire.IDOf("1")
	first, second := &request{}, &request{}
	if err := s.Begin(id, first); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(id, second); err != ErrDuplicate {
		t.Errorf("a second request with the id: %v, want %v", err, ErrDuplicate)
	}
	s.Receive(&wire.Message{Method: wire.NoteCancelled, Params: wire.Raw(`{"requestId":1}`)})
	if first.cause != ErrCancelled {
		t.Errorf("the request ended with %v, want %v", first.cause, ErrCancelled)
	}
	if err := s.Begin(id, second); err != nil {
		t.Errorf("the id is not free: %v", err)
	}
	s.Done(id, first)
	if err := s.Begin(id, &request{}); err != ErrDuplicate {
		t.Error("the end of the first request removed the second one")
	}
}

// A session may end after it was found and before it is used.
func TestSessionEndsUnderRequest(t *testing.T) {
	s := newSession(testConfig("s"), &levelTracker{})
	s.end(ErrEnded, false)
	if err := s.Begin(wire.IDOf("1"), &request{}); err != ErrEnded {
		t.Errorf("Begin: %v, want %v", err, ErrEnded)
	}
	if _, err := s.Attach(nil, nil); err != ErrEnded {
		t.Errorf("Attach: %v, want %v", err, ErrEnded)
	}
}
