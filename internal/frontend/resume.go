package frontend

import (
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Why a stream is not taken up again.
var (
	errUnknownEvent = errors.New("Last-Event-ID names no event of this session")
	errForgotten    = errors.New("events after Last-Event-ID are no longer kept: the stream cannot be resumed")
	errComplete     = errors.New("the stream is complete")
)

// record numbers the events of one stream and keeps them in the log of its
// session. It is guarded by the lock of the stream. A nil record keeps nothing.
type record struct {
	stream string // the stream's id, unguessable
	log    EventLog
	primes bool // connections begin with an event that has an id and no data
	call   bool // the stream belongs to a request, and ends with the response
	number int  // of the last event
}

// add takes an event in and returns its id.
func (r *record) add(data []byte) string {
	if r == nil {
		return ""
	}
	r.number++
	r.log.Append(r.stream, r.number, data)
	return r.eventID(r.number)
}

func (r *record) eventID(number int) string { return r.stream + "-" + strconv.Itoa(number) }

// parseEventID returns the parts of an event's id as record.add makes it.
func parseEventID(id string) (stream string, number int, ok bool) {
	stream, text, _ := strings.Cut(id, "-")
	number, err := strconv.Atoi(text)
	return stream, number, err == nil && strconv.Itoa(number) == text
}

// resume continues the stream on another connection, with the events that come
// after the given one and then with what is put in. Nothing of it arrives twice
// or is left out: when the log has a gap, the error is errForgotten. It is
// errComplete when the client has had everything there will ever be.
func (st *stream) resume(after int, to carrier) (*conn, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r := st.record
	if after < 1 || after > r.number {
		return nil, errUnknownEvent
	}
	missed := r.log.After(r.stream, after)
	switch {
	case len(missed) != r.number-after:
		return nil, errForgotten
	case len(missed) == 0 && st.ended:
		return nil, errComplete
	}
	c := st.attachLocked(to)
	for i, msg := range missed {
		if len(msg) > 0 {
			st.queue = st.frame(st.queue, r.eventID(after+1+i), msg)
		}
	}
	if len(st.queue) == 0 {
		st.prime() // so that whoever comes again and again is seen to get on
	}
	return c, nil
}

// maxKept bounds the streams of a session that are kept although nothing uses
// them: those whose call is over, and GET streams whose client is gone.
const maxKept = 256

// shelf holds the streams of one session that can be resumed.
type shelf struct {
	log EventLog

	mu    sync.Mutex
	byID  map[string]*stream
	order []*stream // the oldest first
}

// open begins a stream that can be resumed, on its first connection.
func (sh *shelf) open(st *stream, to carrier, call, primes bool) *conn {
	st.record = &record{stream: rand.Text(), log: sh.log, call: call, primes: primes}
	c := st.attach(to)
	sh.keep(st)
	return c
}

// keep takes a stream in, and forgets one that is not used if there are too many.
func (sh *shelf) keep(st *stream) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.byID == nil {
		sh.byID = make(map[string]*stream)
	}
	sh.byID[st.record.stream] = st
	sh.order = append(sh.order, st)
	if len(sh.order) <= maxKept {
		return
	}
	if i := slices.IndexFunc(sh.order, (*stream).isUnused); i >= 0 {
		delete(sh.byID, sh.order[i].record.stream)
		sh.order = slices.Delete(sh.order, i, i+1)
	}
}

// isUnused reports whether a stream can be forgotten: no call will put anything
// in, and nothing carries it.
func (st *stream) isUnused() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.conn == nil && (st.ended || !st.record.call)
}

// find returns the stream of an event, and the event's number.
func (sh *shelf) find(eventID string) (*stream, int, error) {
	id, number, ok := parseEventID(eventID)
	if !ok {
		return nil, 0, errUnknownEvent
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.byID[id]
	if st == nil {
		return nil, 0, errUnknownEvent
	}
	return st, number, nil
}
