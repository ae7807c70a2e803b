package stream

import (
	"crypto/rand"
	"strconv"
	"strings"
)

// Position names an event of a stream, as an event id does. Its Number is 0 before the first event.
type Position struct {
	Stream string
	Number int
}

// String returns the event id.
func (p Position) String() string { return p.Stream + "-" + strconv.Itoa(p.Number) }

// ParseEventID returns the position that an event id names. The error is ErrUnknownEvent.
func ParseEventID(id string) (Position, error) {
	stream, text, _ := strings.Cut(id, "-")
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || strconv.Itoa(number) != text || len(id) > maxEventID {
		return Position{}, ErrUnknownEvent
	}
	return Position{stream, number}, nil
}

// maxEventID bounds event ids, in bytes.
const maxEventID = 128

// callMark ends the ids of streams that belong to a call, and replicaMark begins the name of the
// replica in the ids of streams that other replicas can find.
const (
	callMark    = "c"
	replicaMark = "."
)

// newStreamID returns an unguessable id.
func newStreamID(replica string, forCall bool) string {
	id := rand.Text()
	if replica != "" {
		id += replicaMark + replica
	}
	if forCall {
		id += callMark
	}
	return id
}

// ForCall reports whether the stream has the id of one that belongs to a call.
func (p Position) ForCall() bool { return strings.HasSuffix(p.Stream, callMark) }

// Replica returns the name of the replica that has the stream, "" if there is none in its id.
func (p Position) Replica() string {
	_, replica, _ := strings.Cut(strings.TrimSuffix(p.Stream, callMark), replicaMark)
	return replica
}
