package sessionstore

import (
	"context"
	"sync"
	"time"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
)

// writer writes the copies of some sessions, the events of each stream in their order.
type writer struct {
	events *Events
	wake   chan struct{} // holds at most one token

	mu       sync.Mutex
	sessions map[string]*copiedSession
	dirty    []*copiedStream // with entries that are not written yet, each once
	queued   int             // bytes of those entries
	swept    time.Time
	complete []completeCopies // in the order of their ends
}

// copiedSession is a session with copies in the store.
type copiedSession struct {
	bytes   int                      // in the store, or on the way there
	streams map[string]*copiedStream // those that are not complete
}

// copiedStream is a stream with copies in the store.
type copiedStream struct {
	session       *copiedSession
	sessionID, id string
	share         fairshare.Share
	waiting       [][]byte // not written yet
	sizes         []int    // of all entries that are kept, the oldest first
	bytes         int      // their sum
	// doubled is how many entries the store may have twice, because it has not answered.
	doubled  int
	used     time.Time
	complete bool // no entry follows
}

// completeCopies are the copies of a stream that is complete.
type completeCopies struct {
	ends      time.Time
	session   *copiedSession
	sessionID string
	share     fairshare.Share
	bytes     int
}

// add queues a copy, or drops it if there is no room.
func (w *writer) add(c *sessionCopies, id string, e stream.Entry) {
	data := appendEntry(make([]byte, 0, len(e.Data)+len(e.Requests)+len(e.MovedTo)+16), e)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sessions[c.session]
	if s == nil {
		s = &copiedSession{streams: make(map[string]*copiedStream)}
		w.sessions[c.session] = s
	}
	st := s.streams[id]
	if st == nil {
		st = &copiedStream{session: s, sessionID: c.session, id: id, share: c.share}
		s.streams[id] = st
	}
	if !w.reserve(st, len(data)) {
		return
	}
	st.used = time.Now()
	if len(st.waiting) == 0 {
		w.dirty = append(w.dirty, st)
	}
	st.waiting = append(st.waiting, data)
	st.complete = st.complete || e.Last || e.MovedTo != ""
	select {
	case w.wake <- struct{}{}:
	default: // a token is there already
	}
}

// reserve counts an entry of n bytes, and drops the oldest ones of its stream if there are too many. It
// reports false if there is no room even so. The caller holds mu.
func (w *writer) reserve(st *copiedStream, n int) bool {
	for len(st.sizes) > 0 && (st.bytes+n > maxStreamBytes || len(st.sizes) >= maxStreamEntries) {
		w.release(st.session, st.share, st.sizes[0])
		st.bytes -= st.sizes[0]
		st.sizes = st.sizes[1:]
	}
	if n > maxStreamBytes || st.session.bytes+n > maxSessionBytes || w.queued+n > maxQueued || w.events.budget.Acquire(st.share, int64(n)) != nil {
		return false
	}
	st.session.bytes += n
	st.bytes += n
	st.sizes = append(st.sizes, n)
	w.queued += n
	return true
}

func (w *writer) release(s *copiedSession, share fairshare.Share, n int) {
	s.bytes -= n
	w.events.budget.Release(share, int64(n))
}

// run writes until ctx ends, and then for some time what is left.
func (w *writer) run(ctx context.Context, left time.Duration) {
	tick := time.NewTicker(sweepAfter)
	defer tick.Stop()
	for {
		select {
		case <-w.wake:
			w.writeAll(ctx)
		case now := <-tick.C:
			w.sweep(now)
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), left)
			defer cancel()
			w.writeAll(end)
			return
		}
	}
}

// writeAll writes what is queued, again and again if the store does not answer, until ctx ends.
func (w *writer) writeAll(ctx context.Context) {
	for {
		b := w.next()
		if len(b.entries) == 0 {
			return
		}
		for w.write(ctx, b) != nil {
			w.doubled(&b)
			pause := time.NewTimer(retryAfter)
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				w.putBack(b)
				return
			}
		}
		w.written(b)
	}
}

// batch are entries of one stream that are written together.
type batch struct {
	stream  *copiedStream
	entries [][]byte
	bytes   int
	keep    int
	life    time.Duration
}

// next takes entries out of the queue, in turn for each stream.
func (w *writer) next() (b batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.dirty) == 0 {
		w.dirty = nil
		return b
	}
	st := w.dirty[0]
	w.dirty = w.dirty[1:]
	n := 0
	for n < len(st.waiting) && (n == 0 || b.bytes+len(st.waiting[n]) <= maxBatch) {
		b.bytes += len(st.waiting[n])
		n++
	}
	b.stream, b.entries, b.keep, b.life = st, st.waiting[:n:n], max(len(st.sizes)-len(st.waiting)+n, n)+st.doubled, w.events.life
	st.waiting = st.waiting[n:]
	if len(st.waiting) > 0 {
		w.dirty = append(w.dirty, st)
	} else if st.waiting = nil; st.complete {
		b.life = completeLife
	}
	return b
}

func (w *writer) write(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return w.events.store.Append(ctx, logKey(b.stream.sessionID, b.stream.id), b.keep, b.life, b.entries...)
}

// doubled takes note that the store may have a batch that is written again.
func (w *writer) doubled(b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	more := min(len(b.entries), maxStreamEntries-b.stream.doubled)
	b.stream.doubled += more
	b.keep += more
}

// putBack queues a batch again, for the writer that continues.
func (w *writer) putBack(b batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(b.stream.waiting) == 0 {
		w.dirty = append(w.dirty, b.stream)
	}
	b.stream.waiting = append(b.entries, b.stream.waiting...)
}

// written takes note of a batch in the store. The copies of a complete stream count until they end.
func (w *writer) written(b batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued -= b.bytes
	st := b.stream
	if !st.complete || len(st.waiting) > 0 {
		return
	}
	delete(st.session.streams, st.id)
	w.complete = append(w.complete, completeCopies{time.Now().Add(completeLife), st.session, st.sessionID, st.share, st.bytes})
	st.bytes, st.sizes = 0, nil
}

// sweep forgets the streams whose copies have ended in the store.
func (w *writer) sweep(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for n < len(w.complete) && !now.Before(w.complete[n].ends) {
		c := w.complete[n]
		w.complete[n] = completeCopies{}
		w.release(c.session, c.share, c.bytes)
		w.forget(c.sessionID, c.session)
		n++
	}
	if w.complete = w.complete[n:]; len(w.complete) == 0 {
		w.complete = nil
	}
	if now.Sub(w.swept) < w.events.life/4 {
		return
	}
	w.swept = now
	for id, s := range w.sessions {
		for name, st := range s.streams {
			if len(st.waiting) == 0 && now.Sub(st.used) > w.events.life {
				w.release(s, st.share, st.bytes)
				delete(s.streams, name)
			}
		}
		w.forget(id, s)
	}
}

// forget forgets a session without copies. The caller holds mu.
func (w *writer) forget(id string, s *copiedSession) {
	if s.bytes == 0 && len(s.streams) == 0 && w.sessions[id] == s {
		delete(w.sessions, id)
	}
}
