package http1server

import (
	"sync"
	"time"

	"mcpgateway/internal/call"
)

// watchAfter is how long a request runs before its client is watched.
const watchAfter = 50 * time.Millisecond

// watch ends the context of a request when its client is gone. A timer runs while the
// connection is in use. When it sees the same request for the second time, its goroutine
// reads until the client sends something, which belongs to the next request, or is gone.
//
// A handler that calls Wait needs neither the timer nor that goroutine: Wait itself reads.
type watch struct {
	c    *conn
	byte [1]byte
	// The goroutine of the connection may use these while no request is served, and after
	// takeOver.
	got    bool // byte has been read
	broken bool // the client is gone
	waited bool // takeOver was called for this request

	mu       sync.Mutex
	woken    bool          // wake was called
	reading  bool          // Wait reads
	wakes    chan struct{} // of waitForWake; nil before
	timer    *time.Timer
	running  bool          // the timer runs
	request  *call.Scope   // that is served, or nil
	seen     *call.Scope   // by the timer
	ready    bool          // the body of the request has been read
	aborted  bool          // endRequest waits for the reading goroutine
	finished chan struct{} // closed by the reading goroutine, nil if there is none
}

// beginRequest begins a request. bodyRead says that it has no body.
func (w *watch) beginRequest(request *call.Scope, bodyRead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.request, w.ready = request, bodyRead
	if w.running {
		return
	}
	w.running = true
	if w.timer == nil {
		w.timer = time.AfterFunc(watchAfter, w.tick)
	} else {
		w.timer.Reset(watchAfter)
	}
}

// bodyRead says that the body of the request has been read.
func (w *watch) bodyRead() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = true
}

// tick runs on the goroutine of the timer.
func (w *watch) tick() {
	w.mu.Lock()
	switch {
	case w.request == nil:
		w.running, w.seen = false, nil
		w.mu.Unlock()
		return
	case w.request != w.seen || !w.ready || w.got:
		w.seen = w.request
		w.timer.Reset(watchAfter)
		w.mu.Unlock()
		return
	}
	request, finished := w.request, make(chan struct{})
	w.finished = finished
	w.c.nc.SetReadDeadline(time.Time{})
	w.c.readUntil = time.Time{} // nobody else uses it after the body
	w.mu.Unlock()

	n, err := w.c.nc.Read(w.byte[:])
	w.mu.Lock()
	w.got = n > 0
	gone := n == 0 && err != nil && !w.aborted
	w.broken = gone
	w.running, w.seen = false, nil
	w.mu.Unlock()
	if gone {
		request.Cancel(nil)
	}
	close(finished)
}

// endRequest ends the watch of a request.
func (w *watch) endRequest() {
	w.mu.Lock()
	w.request = nil
	finished := w.finished
	w.aborted = finished != nil
	w.mu.Unlock()
	if finished != nil {
		w.c.nc.SetReadDeadline(longAgo)
		<-finished
		w.finished, w.aborted = nil, false
	}
	if finished != nil || w.waited {
		w.c.nc.SetReadDeadline(time.Time{})
		w.c.readUntil, w.waited = time.Time{}, false
	}
}

// longAgo is a deadline that ends a read immediately.
var longAgo = time.Unix(1, 0)

// takeOver ends the timer and its goroutine: from now on the goroutine that writes the answer
// reads, and nothing else notices that the client of the request is gone.
func (w *watch) takeOver() {
	w.endRequest()
	w.waited = true
	w.dropTimer()
}

// waitForWake waits until wake is called, or until a time unless that is zero, for a client
// that has sent the begin of its next request, which must not be read further. It returns
// false if the server ends.
func (w *watch) waitForWake(until time.Time) bool {
	w.mu.Lock()
	if w.wakes == nil {
		w.wakes = make(chan struct{}, 1)
	}
	woken := w.woken
	w.mu.Unlock()
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	alive := true
	if !woken {
		select {
		case <-w.wakes:
		case <-late:
		case <-w.c.scope.Done():
			alive = false
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = false
	return alive
}

// wake ends a wait, or the next one if none runs. It does not block, and may be called after
// the request.
func (w *watch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.woken {
		return
	}
	w.woken = true
	if w.reading {
		w.c.nc.SetReadDeadline(longAgo)
	}
	if w.wakes != nil {
		select {
		case w.wakes <- struct{}{}:
		default: // a token is there already
		}
	}
}

// dropTimer gives up the timer, unless it fires just now.
func (w *watch) dropTimer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil && (!w.running || w.timer.Stop()) {
		w.timer, w.running, w.seen = nil, false, nil
	}
}

// stop ends the timer. No request is served any more.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}
