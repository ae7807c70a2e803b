package frontend

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/wire"
)

// outlet takes messages for a client that come before, or beside, the answer to
// a request. send does not wait for the client; it reports false when the
// message cannot reach the client this way. The message is copied.
type outlet interface {
	send(msg []byte) bool
}

// changes is a set of lists that have changed.
type changes uint8

const (
	toolsChanged changes = 1 << iota
	promptsChanged
	resourcesChanged
)

// methods lists the notifications that stand for c.
func (c changes) methods() []string {
	var out []string
	for i, method := range [...]string{wire.NoteToolsChanged, wire.NotePromptsChanged, wire.NoteResourcesChanged} {
		if c&(1<<i) != 0 {
			out = append(out, method)
		}
	}
	return out
}

// stream carries server-sent events in one HTTP response. Any goroutine may put
// messages in, at any time; exactly one, that of run, writes them out.
type stream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	gauge prometheus.Gauge
	// subscription is the id of the listen request that the stream answers, zero
	// for streams of legacy sessions. It marks every list change.
	subscription wire.ID

	wake chan struct{} // holds one token when there is something to look at

	mu      sync.Mutex
	queue   []byte  // events that nobody has written yet
	changed changes // list changes that nobody has written yet
	ended   bool    // nothing more goes in; what is there is still written
	dead    bool    // the client is gone or too slow
}

func (s *Server) newStream(w http.ResponseWriter, era wire.Era) *stream {
	return &stream{
		w:     w,
		rc:    http.NewResponseController(w),
		gauge: s.opt.Metrics.Streams.WithLabelValues(era.String()),
		wake:  make(chan struct{}, 1),
	}
}

var (
	jsonType    = []string{"application/json"}
	eventsType  = []string{"text/event-stream"}
	noCache     = []string{"no-cache, no-transform"}
	noBuffering = []string{"no"}
	noSniffing  = []string{"nosniff"}
)

// open begins the response, which tells proxies to pass events on as they come.
// Only the goroutine that writes may call it.
func (st *stream) open() {
	h := st.w.Header()
	h["Content-Type"] = eventsType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	st.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	st.w.WriteHeader(http.StatusOK)
	st.rc.Flush()
}

// send puts one message in. It never blocks. A client that has fallen too far
// behind loses the stream.
func (st *stream) send(msg []byte) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended || st.dead {
		return false
	}
	if len(st.queue) > 0 && len(st.queue)+len(msg) > maxQueue {
		st.dead, st.queue = true, nil
		st.signal()
		return false
	}
	st.queue = wire.AppendEvent(st.queue, wire.Event{Data: msg})
	st.signal()
	return true
}

// listChanged puts list changes in. Changes that are still waiting to be
// written coalesce. It reports false when the stream takes nothing any more.
func (st *stream) listChanged(c changes) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended || st.dead {
		return false
	}
	st.changed |= c
	st.signal()
	return true
}

// end lets run return after what is in has been written.
func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ended = true
	st.signal()
}

// signal wakes the writer; the token that is already there does as well.
func (st *stream) signal() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// run begins the response and writes what is put in until the stream ends, and
// comments while there is nothing to write. It reports whether the stream ended in good order, so that a
// last message may follow: not when ctx ended, the client has gone, or it was
// too slow.
func (st *stream) run(ctx context.Context) bool {
	st.gauge.Inc()
	defer st.gauge.Dec()
	st.open()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	var spare []byte
	for {
		st.mu.Lock()
		frames, changed := st.queue, st.changed
		st.queue, st.changed = spare[:0], 0
		ended, dead := st.ended, st.dead
		st.mu.Unlock()
		if dead {
			return false
		}
		for _, method := range changed.methods() {
			frames = wire.AppendEvent(frames, wire.Event{Data: st.listChange(method)})
		}
		if len(frames) > 0 {
			if !st.write(frames) {
				st.lose(changed)
				return false
			}
			tick.Reset(keepAlive)
			spare = frames
			continue
		}
		spare = frames
		if ended {
			return true
		}
		select {
		case <-ctx.Done():
			st.lose(0)
			return false
		case <-st.wake:
		case <-tick.C:
			if !st.write(wire.AppendComment(nil, "keep-alive")) {
				st.lose(0)
				return false
			}
		}
	}
}

// listChange returns the notification that a list has changed.
func (st *stream) listChange(method string) []byte {
	m := wire.Message{Method: method}
	if !st.subscription.IsZero() {
		m.Params = subscriptionParams(st.subscription)
	}
	return m.Append(nil)
}

// write sends bytes at once. Only the goroutine of run may call it, or whoever
// knows that run has returned.
func (st *stream) write(b []byte) bool {
	return writeAll(st.w, st.rc, b) == nil && st.rc.Flush() == nil
}

// lose marks the stream as one whose client is gone. Changes that were taken
// out but did not reach the client go back in.
func (st *stream) lose(unwritten changes) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.dead, st.queue = true, nil
	st.changed |= unwritten
}

// unwritten returns the list changes that did not reach the client. It is for
// after run has returned.
func (st *stream) unwritten() changes {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.changed
}
