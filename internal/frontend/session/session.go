package session

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// Errors of sessions.
var (
	ErrEnded          = errors.New("the session has ended")
	ErrDuplicate      = errors.New("a request with this id is already in flight")
	ErrTooManyStreams = errors.New("the session has too many streams")
)

// maxStreams bounds the streams of one session that belong to no call.
const maxStreams = 16

// Request is a request of the client that runs in a session.
type Request interface {
	// Cancel ends the request. It must not block, and must not call the session.
	Cancel(cause error)
}

// Config describes a new session.
type Config struct {
	Principal *call.Principal // only this principal may use the session, in the same profile
	Claims
	// Replica is part of the ids of asks and streams, so that every replica knows where they are; ""
	// if no other replica serves the session.
	Replica string
	// Copies gets copies of the events of streams; nil if there are none.
	Copies stream.Copies
	// Log keeps the events of the session's streams.
	Log stream.EventLog
	// Ready is called once, when the client may be asked: it has said that it is
	// initialized, or has sent a request. It must not block; nil calls nothing.
	Ready func()
	// RootsChanged is called when the client says that its roots have changed. It
	// must not block.
	RootsChanged func()
	// Tied says that the session has only one stream, which carries the responses too.
	Tied bool
	// Counted says that the session counts for Share in the table. A session of an
	// HTTP+SSE stream does not: the stream has reserved a slot before.
	Counted bool
	Share   fairshare.Share
}

// Session is the state of one legacy client between initialize and its end. Make one
// with [Table.Open].
type Session struct {
	Config
	Replay *stream.ReplayStore // the streams that can be resumed

	key       string // of Principal
	opened    time.Time
	adopted   bool        // another process may have opened it, see Table.Adopt
	loading   atomic.Bool // see BeginLoad
	levels    *levelTracker
	level     atomic.Uint32 // a wire.Level; written under mu
	resources subscriptions
	over      chan struct{} // closed when the session has ended

	mu       sync.Mutex
	ended    bool
	ready    bool                          // the client has said that it is initialized, or has sent a request
	used     time.Time                     // when a request last began or ended
	inflight map[wire.ID]Request           // nil before the first
	asks     map[wire.ID]chan wire.Message // each has room for the one answer; nil before the first
	asked    int64                         // asks so far; the next one's number
	streams  []*stream.Stream              // those that carry what belongs to no call, the newest last
	pending  stream.Notifications          // what no stream has taken
}

func newSession(c Config, levels *levelTracker) *Session {
	now := time.Now()
	s := &Session{
		Config: c,
		Replay: stream.NewReplayStore(c.Log),
		key:    c.Principal.Key(),
		levels: levels,
		opened: now,
		used:   now,
		over:   make(chan struct{}),
	}
	s.Replay.Share(c.Replica, c.Copies)
	return s
}

// ID returns the id of the session.
func (s *Session) ID() string { return s.Client.Key }

// IsAdopted reports whether the session was opened by another process, or had ended here because
// it was idle.
func (s *Session) IsAdopted() bool { return s.adopted }

// Ended returns a channel that is closed when the session has ended.
func (s *Session) Ended() <-chan struct{} { return s.over }

// Begin registers a request. The error is ErrEnded, or ErrDuplicate if the client
// already has a request with this id in flight.
func (s *Session) Begin(id wire.ID, r Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return ErrEnded
	}
	if _, ok := s.inflight[id]; ok {
		return ErrDuplicate
	}
	if s.inflight == nil {
		s.inflight = make(map[wire.ID]Request)
	}
	s.inflight[id] = r
	s.used = time.Now()
	s.becomeReady()
	return nil
}

// Done removes a request that was answered.
func (s *Session) Done(id wire.ID, r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inflight[id] == r { // the client may have cancelled r and used its id again
		delete(s.inflight, id)
	}
	s.used = time.Now()
}

// cancelRequest ends the request with this id, if it still runs. The client may use
// the id again. It reports whether there was one.
func (s *Session) cancelRequest(id wire.ID, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.inflight[id]
	if r != nil {
		delete(s.inflight, id)
		r.Cancel(cause)
	}
	return r != nil
}

// Touch keeps the session from expiring. It reports false if the session has ended.
func (s *Session) Touch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
	return !s.ended
}

// Attach makes st one of the session's streams for what belongs to no call: it calls
// connect, and puts notifications onto the stream that waited for one. The error is
// ErrEnded, ErrTooManyStreams, or that of connect.
func (s *Session) Attach(st *stream.Stream, connect func() (*stream.Conn, error)) (*stream.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := slices.Contains(s.streams, st) // its last connection may have broken unnoticed
	switch {
	case s.ended:
		return nil, ErrEnded
	case !known && len(s.streams) >= maxStreams:
		return nil, ErrTooManyStreams
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

// Detach removes a stream that no connection carries any longer. Notifications that
// it could not deliver go onto another stream, or wait for the next.
func (s *Session) Detach(st *stream.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
	i := slices.Index(s.streams, st)
	if i < 0 || st.IsConnected() {
		return
	}
	s.streams = slices.Delete(s.streams, i, i+1)
	if left := st.TakeUnwritten(); !left.IsEmpty() {
		s.notify(left)
	}
}

// Move hands a stream over to another replica, with the notifications that wait for a stream if this was the
// last one, see [stream.Stream.Move].
func (s *Session) Move(st *stream.Stream, after int, to, lost string) ([][]byte, stream.Moved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.streams, st)
	more := stream.Notifications{}
	if len(s.streams) == 0 || len(s.streams) == 1 && i == 0 {
		more = s.pending
	}
	missed, before, err := st.Move(after, to, lost, more)
	if err != nil || before.To != "" {
		return nil, before, err
	}
	s.used = time.Now()
	if i >= 0 {
		s.streams = slices.Delete(s.streams, i, i+1)
	}
	if len(s.streams) == 0 {
		s.pending = stream.Notifications{}
	}
	return missed, before, nil
}

// Send puts a message onto one stream of the session, and reports whether one took
// it.
func (s *Session) Send(msg []byte) bool {
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

// NotifyLists tells the client that lists have changed. A tied session drops the
// notification until the client has said that it is initialized, or has sent a
// request, as some hosts do without: such a client has no list yet (2025-11-25,
// basic/lifecycle, "Initialization").
func (s *Session) NotifyLists(c stream.ListChanges) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && (s.ready || !s.Tied) {
		s.notify(stream.Notifications{Lists: c})
	}
}

// NotifyUpdate tells the client that a resource has changed.
func (s *Session) NotifyUpdate(u stream.ResourceUpdate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.notify(stream.UpdateOf(u))
	}
}

// notify puts notifications onto the newest stream that takes them: the connections of
// older streams may have broken unnoticed. If none does, they wait for the next
// stream. The caller holds mu.
func (s *Session) notify(n stream.Notifications) {
	for i := len(s.streams) - 1; i >= 0; i-- {
		if s.streams[i].Notify(wire.ID{}, n) {
			return
		}
	}
	s.pending.Add(n)
}

// endStreams ends the session's streams, except that of a tied session, which carries
// the responses to calls too.
func (s *Session) endStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.Tied {
		s.endStreamsLocked()
	}
}

func (s *Session) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Tied {
		return
	}
	for _, st := range s.streams {
		st.Disconnect()
	}
}

func (s *Session) endStreamsLocked() {
	for _, st := range s.streams {
		st.End()
	}
}

// end ends the session with its requests, asks and subscriptions. keepTied leaves the
// stream of a tied session open, for the responses of its calls. Only the table calls
// end, once.
func (s *Session) end(cause error, keepTied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	close(s.over)
	for _, r := range s.inflight {
		r.Cancel(cause)
	}
	if !s.Tied || !keepTied {
		s.endStreamsLocked()
	}
	s.resources.end()
	s.Replay.Close()
	s.levels.change(wire.Level(s.level.Swap(uint32(wire.LevelNone))), wire.LevelNone)
}

// isOver reports whether the session has no requests, and either its id has expired or the session
// has no streams and was not used for idle.
func (s *Session) isOver(now time.Time, idle time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	expired := s.IsSealed() && !now.Before(s.Expires)
	return len(s.inflight) == 0 && (expired || len(s.streams) == 0 && s.used.Before(now.Add(-idle)))
}

// canBeForgotten reports whether the session has not been used since a time, and nothing is lost if it is
// adopted again, where its state is kept or not. It returns when the session was last used.
func (s *Session) canBeForgotten(since time.Time, kept bool) (used time.Time, ok bool) {
	st := s.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.adopted && len(s.inflight) == 0 && len(s.streams) == 0 && s.used.Before(since)
	return s.used, free && (kept || st.Level == wire.LevelNone && len(st.URIs) == 0)
}
