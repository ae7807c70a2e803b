package stream

import (
	"errors"
	"io"
	"slices"
	"sync"

	"mcpgateway/internal/wire"
)

// Errors of [ReplayStore.Find] and [Stream.Resume].
var (
	// ErrUnknownEvent means that the client names an event that it never got, or one
	// of a stream that is no longer kept.
	ErrUnknownEvent = errors.New("Last-Event-ID names no event of this session")
	// ErrEventsLost means that the log has forgotten events that the client missed.
	ErrEventsLost = errors.New("events after Last-Event-ID are no longer kept: the stream cannot be resumed")
	// ErrComplete means that the client has every event, and no more will come.
	ErrComplete = errors.New("the stream is complete")
	// ErrMoved means that the stream continues at another replica, see [Stream.Moved].
	ErrMoved = errors.New("the stream goes on at another replica")
)

// recording numbers the events of one stream and keeps them in the log of its
// session. The lock of the stream guards it. A nil recording keeps nothing.
type recording struct {
	stream   string // the stream's id, unguessable
	log      EventLog
	copies   Copies // nil if there are none
	requests string // see Entry
	primes   bool   // connections begin with an event that has an id and no data
	call     bool   // the stream belongs to a call and ends with its response
	number   int    // of the last event
	copied   int    // of the last event that was copied
	moved    Moved
}

// add records an event, whose data nobody changes any more, and returns its id. last says that no
// event follows.
func (r *recording) add(data []byte, last bool) string {
	if r == nil {
		return ""
	}
	r.number++
	r.log.Append(r.stream, r.number, data)
	if r.copies != nil && len(data) > 0 { // others are copied as gaps: a silent stream has no copy
		r.copies.Copy(r.stream, Entry{Number: r.number, Gap: r.number - r.copied - 1, Requests: r.requests, Last: last, Data: data})
		r.copied = r.number
	}
	return r.eventID(r.number)
}

func (r *recording) eventID(number int) string { return Position{r.stream, number}.String() }

// ForCall reports whether the stream belongs to a call and ends with its response.
func (st *Stream) ForCall() bool { return st.record != nil && st.record.call }

// Resume continues the stream on a new connection: first the events after the given
// one, then new messages. No event arrives twice or is left out. The stream must
// belong to a ReplayStore. The error is ErrUnknownEvent, ErrEventsLost, ErrComplete or ErrMoved.
func (st *Stream) Resume(after int) (*Conn, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r := st.record
	switch {
	case r.moved.To != "":
		return nil, ErrMoved
	case after < 0 || after > r.number:
		return nil, ErrUnknownEvent
	}
	missed := r.log.After(r.stream, after)
	switch {
	case len(missed) != r.number-after:
		return nil, ErrEventsLost
	case len(missed) == 0 && st.ended:
		return nil, ErrComplete
	}
	c := st.connectLocked()
	for i, msg := range missed {
		if len(msg) > 0 {
			st.queue = st.appendFrame(st.queue, r.eventID(after+1+i), msg)
		}
	}
	if len(st.queue) == 0 {
		st.prime() // so that a client that polls sees the event id advance
	}
	return c, nil
}

// maxUnused bounds the streams of a session that are kept although nothing uses them:
// their call is over, or they have no call and no connection.
const maxUnused = 256

// ReplayStore holds the streams of one session that can be resumed. Its methods may
// be called concurrently.
type ReplayStore struct {
	log     EventLog
	copies  Copies
	replica string // in the ids of streams

	mu      sync.Mutex
	streams []*Stream // the oldest first; they are few, and a map would cost every session more
}

// NewReplayStore returns a store whose events are kept in a log.
func NewReplayStore(log EventLog) *ReplayStore { return &ReplayStore{log: log} }

// Share makes other replicas find the streams that are opened later: their ids have the name of this
// replica, and their events are copied. It is called before the store is used.
func (rs *ReplayStore) Share(replica string, copies Copies) { rs.replica, rs.copies = replica, copies }

// Close closes the log, if that is an io.Closer. Streams may still be used.
func (rs *ReplayStore) Close() {
	if log, ok := rs.log.(io.Closer); ok {
		log.Close() // a failure would change nothing
	}
}

// Open makes a new stream resumable and connects it. requests are the ids of the requests that the
// stream answers, none for a stream that belongs to no call. primes says that its connections begin with
// an event without data.
func (rs *ReplayStore) Open(st *Stream, requests []wire.ID, primes bool) *Conn {
	rs.Record(st, requests, primes)
	c := st.Connect()
	rs.add(st)
	return c
}

// Record gives a stream its id, for a later [ReplayStore.Continue]. The parameters are those of Open.
func (rs *ReplayStore) Record(st *Stream, requests []wire.ID, primes bool) {
	call := len(requests) > 0
	st.record = &recording{stream: newStreamID(rs.replica, call), log: rs.log, copies: rs.copies, call: call, primes: primes}
	if rs.copies != nil && call {
		st.record.requests = appendIDs(requests)
	}
}

// Continue connects a stream of Record, which continues with the events of another replica.
func (rs *ReplayStore) Continue(st *Stream, events [][]byte) *Conn {
	st.mu.Lock()
	defer rs.add(st)
	defer st.mu.Unlock()
	c := st.connectLocked()
	for _, data := range events {
		id := st.record.add(data, false)
		if len(data) > 0 {
			st.queue = st.appendFrame(st.queue, id, data)
		}
	}
	if len(st.queue) == 0 {
		st.prime()
	}
	return c
}

// appendIDs returns an array of ids as JSON.
func appendIDs(ids []wire.ID) string {
	out := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			out = append(out, ',')
		}
		out = id.Append(out)
	}
	return string(append(out, ']'))
}

// add keeps a stream, and if there are too many, forgets one that is not used.
func (rs *ReplayStore) add(st *Stream) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.streams = append(rs.streams, st)
	if len(rs.streams) <= maxUnused {
		return
	}
	if i := slices.IndexFunc(rs.streams, (*Stream).isUnused); i >= 0 {
		rs.streams = slices.Delete(rs.streams, i, i+1)
	}
}

// isUnused reports whether a stream can be forgotten: no connection carries it, and
// no call will put a message in.
func (st *Stream) isUnused() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.conn == nil && (st.ended || !st.record.call)
}

// Find returns the stream of an event. The error is ErrUnknownEvent.
func (rs *ReplayStore) Find(p Position) (*Stream, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	i := slices.IndexFunc(rs.streams, func(st *Stream) bool { return st.record.stream == p.Stream })
	if i < 0 {
		return nil, ErrUnknownEvent
	}
	return rs.streams[i], nil
}
