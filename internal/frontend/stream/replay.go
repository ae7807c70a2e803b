package stream

import (
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
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
)

// recording numbers the events of one stream and keeps them in the log of its
// session. The lock of the stream guards it. A nil recording keeps nothing.
type recording struct {
	stream string // the stream's id, unguessable
	log    EventLog
	primes bool // connections begin with an event that has an id and no data
	call   bool // the stream belongs to a call and ends with its response
	number int  // of the last event
}

// add records an event, whose data nobody changes any more, and returns its id.
func (r *recording) add(data []byte) string {
	if r == nil {
		return ""
	}
	r.number++
	r.log.Append(r.stream, r.number, data)
	return r.eventID(r.number)
}

func (r *recording) eventID(number int) string { return r.stream + "-" + strconv.Itoa(number) }

// parseEventID splits an id that eventID has made.
func parseEventID(id string) (stream string, number int, ok bool) {
	stream, text, _ := strings.Cut(id, "-")
	number, err := strconv.Atoi(text)
	return stream, number, err == nil && strconv.Itoa(number) == text
}

// callMark ends the ids of streams that belong to a call.
const callMark = "c"

// newStreamID returns an unguessable id.
func newStreamID(forCall bool) string {
	if forCall {
		return rand.Text() + callMark
	}
	return rand.Text()
}

// WithoutCall reports whether an event id has the form of one of a stream that belongs to no
// call.
func WithoutCall(eventID string) bool {
	id, number, ok := parseEventID(eventID)
	return ok && number > 0 && !strings.HasSuffix(id, callMark)
}

// ForCall reports whether the stream belongs to a call and ends with its response.
func (st *Stream) ForCall() bool { return st.record != nil && st.record.call }

// Resume continues the stream on a new connection: first the events after the given
// one, then new messages. No event arrives twice or is left out. The stream must
// belong to a ReplayStore. The error is ErrUnknownEvent, ErrEventsLost or ErrComplete.
func (st *Stream) Resume(after int, w Writer) (*Conn, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r := st.record
	if after < 1 || after > r.number {
		return nil, ErrUnknownEvent
	}
	missed := r.log.After(r.stream, after)
	switch {
	case len(missed) != r.number-after:
		return nil, ErrEventsLost
	case len(missed) == 0 && st.ended:
		return nil, ErrComplete
	}
	c := st.connectLocked(w)
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
	log EventLog

	mu    sync.Mutex
	byID  map[string]*Stream
	order []*Stream // the oldest first
}

// NewReplayStore returns a store whose events are kept in a log.
func NewReplayStore(log EventLog) *ReplayStore { return &ReplayStore{log: log} }

// Close closes the log, if that is an io.Closer. Streams may still be used.
func (rs *ReplayStore) Close() {
	if log, ok := rs.log.(io.Closer); ok {
		log.Close() // a failure would change nothing
	}
}

// Open makes a new stream resumable and connects it. forCall says that the stream
// belongs to a call, primes that its connections begin with an event without data.
func (rs *ReplayStore) Open(st *Stream, w Writer, forCall, primes bool) *Conn {
	st.record = &recording{stream: newStreamID(forCall), log: rs.log, call: forCall, primes: primes}
	c := st.Connect(w)
	rs.add(st)
	return c
}

// add keeps a stream, and if there are too many, forgets one that is not used.
func (rs *ReplayStore) add(st *Stream) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byID == nil {
		rs.byID = make(map[string]*Stream)
	}
	rs.byID[st.record.stream] = st
	rs.order = append(rs.order, st)
	if len(rs.order) <= maxUnused {
		return
	}
	if i := slices.IndexFunc(rs.order, (*Stream).isUnused); i >= 0 {
		delete(rs.byID, rs.order[i].record.stream)
		rs.order = slices.Delete(rs.order, i, i+1)
	}
}

// isUnused reports whether a stream can be forgotten: no connection carries it, and
// no call will put a message in.
func (st *Stream) isUnused() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.conn == nil && (st.ended || !st.record.call)
}

// Find returns the stream of an event, and the event's number. The error is
// ErrUnknownEvent.
func (rs *ReplayStore) Find(eventID string) (*Stream, int, error) {
	id, number, ok := parseEventID(eventID)
	if !ok {
		return nil, 0, ErrUnknownEvent
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	st := rs.byID[id]
	if st == nil {
		return nil, 0, ErrUnknownEvent
	}
	return st, number, nil
}
