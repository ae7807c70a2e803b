package frontend

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// EventCopies keep copies of the events of streams, which other replicas use when one has ended. Its
// methods are called concurrently, and return soon.
type EventCopies interface {
	// Of returns where the events of a session's streams are copied to, which count for a share.
	Of(session string, share fairshare.Share) stream.Copies
	// Read returns the copies of a stream's events, in their order.
	Read(ctx context.Context, session, id string) ([]stream.Entry, error)
	// Moved records that a stream of a replica that has ended continues as another stream.
	Moved(ctx context.Context, session, id string, m stream.Moved) error
}

// The kinds of requests about streams.
const (
	requestResume = "resume" // of the stream of a call: its bytes from an event on, until its end
	requestMove   = "move"   // of a stream without a call: the events after one, and no more
)

// maxMoves bounds how often a stream may have moved since the client got its last event.
const maxMoves = 8

// maxGap bounds the events without data between two others.
const maxGap = 1 << 16

// errNotNow refuses the resumption of a stream that may succeed later.
var errNotNow = errors.New("the replica that has the stream cannot be reached for now")

// resumption is a request of one replica to resume a stream of another.
type resumption struct {
	Session string          `json:"session"`
	Owner   []byte          `json:"owner"`
	After   stream.Position `json:"after"`
	To      string          `json:"to,omitempty"`   // for requestMove: the id of the stream that goes on
	Lost    string          `json:"lost,omitempty"` // the stream that it has moved to, which nobody has
}

// resumed is the reply: one of its members is set, or none.
type resumed struct {
	Unknown  bool         `json:"unknown,omitempty"` // the replica does not have the stream
	Lost     bool         `json:"lost,omitempty"`
	Complete bool         `json:"complete,omitempty"`
	Moved    stream.Moved `json:"moved"`
}

func (r *resumed) err() error {
	switch {
	case r.Lost:
		return stream.ErrEventsLost
	case r.Complete:
		return stream.ErrComplete
	}
	return nil
}

// resumedOf returns the reply for an error of a stream.
func resumedOf(err error) *resumed {
	switch err {
	case nil:
		return &resumed{}
	case stream.ErrEventsLost:
		return &resumed{Lost: true}
	case stream.ErrComplete:
		return &resumed{Complete: true}
	default:
		return &resumed{Unknown: true}
	}
}

// isElsewhere reports whether another replica has the stream, or its copies are.
func isElsewhere(sess *session.Session, p stream.Position) bool {
	if sess.Replica == "" || p.Replica() == "" {
		return false
	}
	_, err := sess.Replay.Find(p)
	return err != nil
}

// askHolder asks the replica of a stream. The error is errNotNow, or wraps ErrReplicaGone.
func (s *Server) askHolder(ctx context.Context, sess *session.Session, kind string, q resumption, receive func([]byte)) (*resumed, error) {
	q.Session, q.Owner = sess.ID(), ownerOf(sess.Principal)
	to := q.After.Replica()
	if to == sess.Replica { // it has forgotten the stream
		return &resumed{Unknown: true}, nil
	}
	data, err := s.options.Sessions.Replicas.Call(ctx, to, kind, encode(q), receive)
	reply := new(resumed)
	if err == nil {
		err = json.Unmarshal(data, reply)
	}
	switch {
	case err == nil:
		return reply, nil
	case errors.Is(err, ErrReplicaGone):
		return nil, err
	case ctx.Err() == nil:
		s.ratelog.Warn("a stream cannot be resumed for now", zap.String("replica", clip(to)), zap.Error(err))
	}
	return nil, errNotNow
}

// resumeCall resumes the stream of a call of another replica. It forwards the events of that replica, or if
// the replica has ended, the copies of its events.
func (s *Server) resumeCall(w http.ResponseWriter, r *http.Request, principal *call.Principal, sess *session.Session, p stream.Position) {
	ctx, cancelExpiry := untilCredentialsExpire(r, principal)
	defer cancelExpiry()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.tasks.ctx, cancel)()
	out, opened := s.newEventWriter(w, s.requestShare(r, principal)), false
	pass := func(msg []byte) {
		if !opened {
			opened = true
			out.Open()
		}
		if len(msg) > 0 && !out.Write(stream.Pieces{msg}) {
			cancel()
		}
	}
	reply, err := s.askHolder(ctx, sess, requestResume, resumption{After: p}, pass)
	if err == errNotNow && !opened { // it may have just ended, which the second attempt tells
		reply, err = s.askHolder(ctx, sess, requestResume, resumption{After: p}, pass)
	}
	switch {
	case opened: // a client whose stream ends without a response comes again
		return
	case errors.Is(err, ErrReplicaGone) || err == nil && reply.Unknown:
		err = s.replayCall(r, sess, p, out, err != nil)
	case err == nil:
		err = reply.err()
	}
	if err != nil {
		s.refuseGet(w, r, principal, err)
	}
}

// errReplicaEnded answers a call whose replica has ended while the client was not connected. It is not retryable, since the server may have run the call.
var errReplicaEnded = wire.Errorf(wire.CodeInternal, "the replica of the gateway that ran this call has ended, and nobody knows how far the call came: send it again if it may run twice").
	WithData(wire.Raw(`{"reason":"the replica that ran the call has ended; the server may have run it","retryable":false}`))

// replayCall writes the copied events of a call whose replica has ended, or does not know the event. If the replica has ended, an error takes the place
// of each missing response.
func (s *Server) replayCall(r *http.Request, sess *session.Session, p stream.Position, out *eventWriter, ended bool) error {
	kept, err := s.readCopies(r.Context(), sess, p)
	if err != nil {
		return err
	}
	last := kept[len(kept)-1]
	missed, err := eventsAfter(kept, p.Number)
	switch {
	case err != nil:
		return err
	case last.Last && p.Number > last.Number, !last.Last && !ended && len(missed) == 0:
		return stream.ErrUnknownEvent // the client has made the number up
	case last.Last && len(missed) == 0:
		return stream.ErrComplete
	case !last.Last && (!ended || last.Requests == ""):
		return stream.ErrEventsLost
	}
	var frames []byte
	for i, data := range missed {
		if len(data) > 0 {
			id := stream.Position{Stream: p.Stream, Number: p.Number + 1 + i}
			frames = wire.AppendEvent(frames, wire.Event{ID: id.String(), HasID: true, Data: data})
		}
	}
	if !last.Last {
		for id := range wire.ValueOf(wire.Raw(last.Requests)).Elements() {
			m := wire.Message{ID: wire.IDOf(string(id.Raw())), Error: errReplicaEnded}
			frames = wire.AppendEvent(frames, wire.Event{Data: m.Append(nil)})
		}
	}
	out.Open()
	out.Write(stream.Pieces{frames})
	return nil
}

// readCopies returns the copies of a stream's events: at least one, or ErrUnknownEvent, or errNotNow.
func (s *Server) readCopies(ctx context.Context, sess *session.Session, p stream.Position) ([]stream.Entry, error) {
	if s.options.Sessions.Copies == nil {
		return nil, stream.ErrUnknownEvent
	}
	kept, err := s.options.Sessions.Copies.Read(ctx, sess.ID(), p.Stream)
	switch {
	case err != nil:
		return nil, errNotNow
	case len(kept) == 0:
		return nil, stream.ErrUnknownEvent
	}
	return kept, nil
}

// eventsAfter returns the data of the events after a number. The error is ErrEventsLost if one of them is
// missing.
func eventsAfter(kept []stream.Entry, number int) (missed [][]byte, err error) {
	for _, e := range kept {
		if e.Number <= number || e.MovedTo != "" {
			continue
		}
		without := e.Number - (number + 1 + len(missed)) // events without data
		if without < 0 || without > min(e.Gap, maxGap) {
			return nil, stream.ErrEventsLost
		}
		missed = append(append(missed, make([][]byte, without)...), e.Data)
	}
	return missed, nil
}

// moveHere opens a stream that continues a stream without a call of another replica. If no replica has that
// stream, the client is notified of all changes that it may have missed.
func (s *Server) moveHere(ctx context.Context, sess *session.Session, p stream.Position) (*stream.Stream, *stream.Conn, error) {
	if s.draining.Load() {
		return nil, nil, errStopped
	}
	st := s.newEventStream(wire.EraLegacy)
	sess.Replay.Record(st, nil, sess.Client.Revision.HasPriming())
	m := mover{s: s, sess: sess, to: st.ID()}
	events, here, err := m.follow(ctx, p)
	switch {
	case here != nil: // the client has resumed it here before
		return s.attachGet(sess, here, func() (*stream.Conn, error) { return here.Resume(m.number) })
	case err == stream.ErrUnknownEvent || err == errNotNow:
		// The stream may have moved, without its events, to the one whose id was sent.
		st = s.newEventStream(wire.EraLegacy)
		sess.Replay.Record(st, nil, sess.Client.Revision.HasPriming())
		sess.NotifyLists(stream.AllChanged)
		sess.NotifyAllUpdated()
	case err != nil:
		return nil, nil, err
	}
	return s.attachGet(sess, st, func() (*stream.Conn, error) { return sess.Replay.Continue(st, events), nil })
}

// mover finds the events after one of a stream that has moved several times.
type mover struct {
	s      *Server
	sess   *session.Session
	to     string // the id of the new stream
	number int    // of the event in a stream that is here
}

// follow returns the events after a position, or the stream that has them if it is here. The error is
// ErrUnknownEvent if nobody has them, or that of the stream.
func (m *mover) follow(ctx context.Context, p stream.Position) (events [][]byte, here *stream.Stream, err error) {
	var before stream.Position // from where the stream has moved
	lost := ""
	for range maxMoves {
		if st, err := m.sess.Replay.Find(p); err == nil && st.Moved().To == "" {
			m.number = p.Number
			return nil, st, nil
		}
		events, moved, err := m.take(ctx, p, lost)
		switch {
		case err == stream.ErrUnknownEvent && before.Stream != "" && lost == "":
			p, lost = before, p.Stream // the events are still where they were
			continue
		case err != nil || moved.To == "":
			return events, nil, err
		}
		next, ok := moved.Follow(p.Number)
		if !ok || next.Replica() == "" {
			return nil, nil, stream.ErrEventsLost
		}
		before, p, lost = p, next, ""
	}
	return nil, nil, stream.ErrUnknownEvent
}

// take takes the events after a position from the stream's replica, or from the copies. If the stream has
// moved on, take returns where to.
func (m *mover) take(ctx context.Context, p stream.Position, lost string) (events [][]byte, moved stream.Moved, err error) {
	if st, err := m.sess.Replay.Find(p); err == nil { // it has moved away from here
		return m.sess.Move(st, p.Number, m.to, lost)
	}
	var parts assembler
	q := resumption{After: p, To: m.to, Lost: lost}
	reply, err := m.s.askHolder(ctx, m.sess, requestMove, q, parts.add)
	if err == errNotNow { // as in resumeCall; nothing is lost if it has moved already
		parts = assembler{}
		reply, err = m.s.askHolder(ctx, m.sess, requestMove, q, parts.add)
	}
	switch {
	case errors.Is(err, ErrReplicaGone) || err == nil && reply.Unknown:
		return m.takeCopies(ctx, p, lost)
	case err != nil:
		return nil, moved, err
	}
	return parts.whole, reply.Moved, reply.err()
}

// takeCopies is take for a stream whose replica has ended. Notifications that this replica had not yet sent
// are lost, so the client is notified of all changes that it may have missed.
func (m *mover) takeCopies(ctx context.Context, p stream.Position, lost string) ([][]byte, stream.Moved, error) {
	kept, err := m.s.readCopies(ctx, m.sess, p)
	if err != nil {
		return nil, stream.Moved{}, err
	}
	if last := kept[len(kept)-1]; last.MovedTo != "" && last.MovedTo != lost {
		return nil, stream.Moved{To: last.MovedTo, After: last.Number}, nil
	}
	events, err := eventsAfter(kept, p.Number)
	if err != nil {
		return nil, stream.Moved{}, err
	}
	if err := m.s.options.Sessions.Copies.Moved(ctx, m.sess.ID(), p.Stream, stream.Moved{To: m.to, After: p.Number}); err != nil {
		return nil, stream.Moved{}, errNotNow
	}
	m.sess.NotifyLists(stream.AllChanged)
	m.sess.NotifyAllUpdated()
	return events, stream.Moved{}, nil
}
