package stream

import "mcpgateway/internal/wire"

// Copies keeps copies of the events of one session's streams where other replicas find them, for the
// case that this replica ends. Copy is called in the order of a stream's events, under its lock: it
// must not block. It may drop copies.
type Copies interface {
	Copy(stream string, e Entry)
}

// Entry is the copy of an event.
type Entry struct {
	Number int
	Gap    int // how many events without data are before it, which have no copy
	// Requests is an array of the ids of the requests that the stream answers, as JSON; "" if it
	// belongs to no call.
	Requests string
	Last     bool // it is the last event: each request has its response
	// MovedTo is the id of the stream that continues with the events after Number, which are its
	// events 1, 2, 3 and so on. Such an entry is no event.
	MovedTo string
	Data    []byte
}

// Moved says how a stream continues at another replica: the event that has the number After + n is the
// event n of the stream To. The zero value says that the stream has not moved.
type Moved struct {
	To    string
	After int
}

// Follow returns the position in the stream that continues after this event. It reports false if the
// event is older than the move.
func (m Moved) Follow(number int) (Position, bool) {
	return Position{m.To, number - m.After}, number >= m.After
}

// Move ends the stream here, because it continues at another replica as the stream to. It returns the
// events after a number, including notifications that no connection has written, and the further ones.
// If the stream has moved before, Move returns the new position instead, except after a move to the
// stream lost, which no replica has.
//
// The error is ErrUnknownEvent or ErrEventsLost. Then the stream stays.
func (st *Stream) Move(after int, to, lost string, more Notifications) (missed [][]byte, before Moved, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r := st.record
	if r.moved.To != "" && r.moved.To != lost {
		return nil, r.moved, nil
	}
	if after < 0 || after > r.number {
		return nil, Moved{}, ErrUnknownEvent
	}
	if len(r.log.After(r.stream, after)) != r.number-after {
		return nil, Moved{}, ErrEventsLost
	}
	for _, n := range st.pending {
		more.Add(n)
	}
	st.pending = nil
	for _, msg := range more.messages(wire.ID{}) {
		r.add(msg, false)
	}
	missed = r.log.After(r.stream, after)
	if len(missed) != r.number-after {
		return nil, Moved{}, ErrEventsLost
	}
	r.moved = Moved{to, after}
	if r.copied > 0 {
		r.copies.Copy(r.stream, Entry{Number: after, MovedTo: to})
	}
	st.endLocked()
	st.disconnect()
	return missed, Moved{}, nil
}

// Moved returns where the stream has moved to.
func (st *Stream) Moved() Moved {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.record.moved
}

// ID returns the id of a stream of a [ReplayStore].
func (st *Stream) ID() string { return st.record.stream }
