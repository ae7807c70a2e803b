package frontend

import (
	"bytes"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// session is one conversation with a legacy client. It knows requests in flight
// and questions to the client, but not how messages travel. All methods may be
// called by many goroutines at once.
type session struct {
	id     string          // unguessable, visible ASCII
	who    *call.Principal // as they were when the session began
	owner  string          // key of the principal that opened it; nobody else may use it
	client *call.Client
	levels *levelCount
	level  atomic.Uint32       // a wire.Level; written under mu
	replay *stream.ReplayStore // the streams that can be resumed
	subs   resourceSubs
	rooted func()          // is told that the client's roots have changed
	over   chan struct{}   // closed when the session has ended
	tied   bool            // the session has one stream, which ends with it and ends it
	counts bool            // among the sessions that there may be; not when its conversation does
	share  fairshare.Share // whose it is then

	mu       sync.Mutex
	ended    bool
	begun    bool      // the client has said that it is ready, or behaves so
	used     time.Time // when something last began or ended
	inflight map[wire.ID]*exchange
	asks     map[wire.ID]chan wire.Message // each with room for the one answer
	asked    int64                         // questions so far; numbers them
	streams  []*stream.Stream              // those that carry what belongs to no call, the newest last
	pending  stream.Notifications          // what found no stream
}

func newSession(who *call.Principal, client *call.Client, levels *levelCount, log stream.EventLog) *session {
	return &session{
		replay:   stream.NewReplayStore(log),
		id:       client.Key,
		who:      who,
		owner:    who.Key(),
		client:   client,
		levels:   levels,
		used:     time.Now(),
		over:     make(chan struct{}),
		rooted:   func() {},
		inflight: make(map[wire.ID]*exchange),
		asks:     make(map[wire.ID]chan wire.Message),
	}
}

// newSessionID returns an id of more than 128 random bits in visible ASCII
// (2025-11-25, basic/transports, "Session Management").
func newSessionID() string { return rand.Text() + rand.Text() }

// begin takes a request in. The error is errSessionEnded, or errDuplicate when
// the client already has a request with this id in flight.
func (s *session) begin(x *exchange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errSessionEnded
	}
	if _, twice := s.inflight[x.id]; twice {
		return errDuplicate
	}
	s.inflight[x.id] = x
	s.used = time.Now()
	s.begun = true
	return nil
}

// ready notes that the client is.
func (s *session) ready() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
}

// done takes a request out that has been answered.
func (s *session) done(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inflight[x.id] == x {
		delete(s.inflight, x.id)
	}
	s.used = time.Now()
}

// cancelRequest ends the request with this id, if it is still running. The id
// is free for use again.
func (s *session) cancelRequest(id wire.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.inflight[id]; x != nil {
		delete(s.inflight, id)
		x.cancel(errCancelled)
	}
}

// touch keeps the session from expiring. It reports false when it has ended.
func (s *session) touch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
	return !s.ended
}

// ask numbers a question to the client and returns where its answer will come.
func (s *session) ask() (wire.ID, <-chan wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	id := askID(s.asked)
	answers := make(chan wire.Message, 1)
	s.asks[id] = answers
	return id, answers
}

// forget withdraws a question.
func (s *session) forget(id wire.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asks, id)
}

// answered passes the client's response to whoever asked. An answer that nobody
// waits for, any longer or at all, is dropped.
func (s *session) answered(m *wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := s.asks[m.ID]
	if answers == nil {
		return
	}
	delete(s.asks, m.ID)
	kept := wire.Message{ID: m.ID, Result: bytes.Clone(m.Result)} // the body is not ours to keep
	if e := m.Error; e != nil {
		kept.Error = &wire.Error{Code: e.Code, Message: e.Message, Data: bytes.Clone(e.Data), Raw: bytes.Clone(e.Raw)}
	}
	answers <- kept
}

// lostAnswer tells whoever waits for the client's answer that it cannot be read.
// It reports false when id is zero, and the message no answer.
func (s *session) lostAnswer(id wire.ID, why *wire.Error) bool {
	if id.IsZero() {
		return false
	}
	s.take(&wire.Message{ID: id, Error: wire.Errorf(why.Code, "the client's answer cannot be read: %s", why.Message)})
	return true
}

// logLevel returns the level that the client has set, LevelNone when it has set
// none. A nil session has none.
func (s *session) logLevel() wire.Level {
	if s == nil {
		return wire.LevelNone
	}
	return wire.Level(s.level.Load())
}

func (s *session) setLevel(to wire.Level) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.levels.change(wire.Level(s.level.Swap(uint32(to))), to)
}

// attach makes st one of the session's streams for what belongs to no call, by
// connecting it. What has been waiting for one goes onto it. The error is
// errSessionEnded, errTooMany, or that of connect.
func (s *session) attach(st *stream.Stream, connect func() (*stream.Conn, error)) (*stream.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := slices.Contains(s.streams, st) // its last connection may be broken without our knowing
	switch {
	case s.ended:
		return nil, errSessionEnded
	case !known && len(s.streams) >= maxGetStreams:
		return nil, errTooMany
	}
	c, err := connect()
	if err != nil {
		return nil, err
	}
	if !known {
		s.streams = append(s.streams, st)
	}
	if !s.pending.IsEmpty() && st.Notify(wire.ID{}, s.pending) {
		s.pending = stream.Notifications{}
	}
	return c, nil
}

// detach takes a stream out that nothing carries any longer. What it could not
// deliver goes onto another, or waits for the next.
func (s *session) detach(st *stream.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
	i := slices.Index(s.streams, st)
	if i < 0 || st.IsConnected() {
		return
	}
	s.streams = slices.Delete(s.streams, i, i+1)
	if left := st.TakeUnwritten(); !left.IsEmpty() {
		s.deliver(left)
	}
}

// listChanged tells the client that lists have changed. Where all goes one way,
// there is none to tell before it has said that it is ready, or sent a request,
// as some hosts do without: it has got no list, and is to hear nothing yet
// (2025-11-25, basic/lifecycle, "Initialization").
func (s *session) listChanged(c stream.ListChanges) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && (s.begun || !s.tied) {
		s.deliver(stream.Notifications{Lists: c})
	}
}

// deliver puts news on one stream: the newest that takes them, since older ones
// may be those of connections that broke unnoticed. The caller holds mu.
func (s *session) deliver(n stream.Notifications) {
	for i := len(s.streams) - 1; i >= 0; i-- {
		if s.streams[i].Notify(wire.ID{}, n) {
			return
		}
	}
	s.pending.Add(n)
}

func (s *session) endStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tied { // the answers to calls come on the stream too
		return
	}
	for _, st := range s.streams {
		st.End()
	}
}

// end ends the session with everything in it. It is called once, by whoever
// took it out of the table.
func (s *session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	close(s.over)
	for _, x := range s.inflight {
		x.cancel(cause)
	}
	if !s.tied || cause != errStopped { // else the answers are yet to come on it, and then it ends
		for _, st := range s.streams {
			st.End()
		}
	}
	s.subs.end()
	s.replay.Close()
	s.levels.change(wire.Level(s.level.Swap(uint32(wire.LevelNone))), wire.LevelNone)
}

// isIdle reports whether nothing has happened since a moment and nothing goes on.
func (s *session) isIdle(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inflight) == 0 && len(s.streams) == 0 && s.used.Before(since)
}
