package connector

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Bounds of what one server can send in one session, as bursts and then per second. They are
// far above what a client can use.
const (
	callNotesBurst, callNotesPerSecond = 1000, 100 // progress and log messages of one call
	logsBurst, logsPerSecond           = 1000, 100 // log messages that belong to no call
	notesBurst, notesPerSecond         = 1000, 200 // other notifications that belong to no call
	listsBurst, listsPerSecond         = 10, 1     // lists that are gathered because they changed

	// maxWaitingNotes and maxWaitingURI bound the notifications that wait for their turn,
	// and the bytes of each.
	maxWaitingNotes = 1000
	maxWaitingURI   = 8 << 10
)

// Kinds of excess messages in metrics and the log.
const (
	excessProgress = "progress"
	excessLog      = "log"
	excessUpdated  = "resource_updated"
	excessLists    = "list_changed"
	excessOther    = "other"
)

// excessKinds are the kinds of notifications but changes of lists.
var excessKinds = map[string]string{
	wire.NoteProgress: excessProgress, wire.NoteMessage: excessLog, wire.NoteResourceUpdated: excessUpdated,
}

// excessOf returns the kind of a notification.
func excessOf(method string) string {
	if wire.MethodOf(method).Kind == wire.KindListChanged {
		return excessLists
	}
	return cmp.Or(excessKinds[method], excessOther)
}

// noteLimiter limits the notifications of one session that belong to no call, so that a
// flood costs others nothing. Log messages over the limit are dropped. Changes of a list or
// a resource wait for their turn, one of each, so that the last change is always reported.
// The methods may be called concurrently.
type noteLimiter struct {
	c    *Connector
	logs *rate.Limiter
	rest *rate.Limiter

	mu      sync.Mutex
	waiting map[string]wire.Raw // params by method and URI
	order   []string            // the keys of waiting, the oldest first
	timer   *time.Timer         // calls flush; nil while nothing waits
	lost    bool                // something found no room to wait
	ended   bool
}

func newNoteLimiter(c *Connector) *noteLimiter {
	return &noteLimiter{
		c: c, logs: rate.NewLimiter(logsPerSecond, logsBurst), rest: rate.NewLimiter(notesPerSecond, notesBurst),
		waiting: make(map[string]wire.Raw),
	}
}

// notified takes a notification for the Session.
func (n *noteLimiter) notified(method string, params wire.Raw) {
	limiter, kind := n.rest, excessOf(method)
	if kind == excessLog {
		limiter = n.logs
	}
	if limiter.Allow() {
		n.c.o.Session.Notified(method, params)
		return
	}
	n.c.exceeded(kind)
	if kind == excessUpdated || kind == excessLists {
		n.wait(method, params)
	}
}

// wait keeps a notification until there is time for it. It replaces an earlier one about
// the same.
func (n *noteLimiter) wait(method string, params wire.Raw) {
	uri := wire.ValueOf(params).Get("uri").Str()
	if len(uri) > maxWaitingURI {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := method + " " + uri
	_, waits := n.waiting[key]
	switch {
	case n.ended, waits:
		return
	case len(n.waiting) >= maxWaitingNotes:
		n.lost = true
		return
	}
	n.waiting[key] = nil // the names of lists are all that matters
	if uri != "" {
		n.waiting[key] = protocol.UpdatedParams(uri)
	}
	n.order = append(n.order, key)
	if n.timer == nil {
		n.timer = time.AfterFunc(time.Second/notesPerSecond, n.flush)
	}
}

// flush passes on what waits, as far as there is time for it.
func (n *noteLimiter) flush() {
	for {
		method, params, ok := n.next()
		if !ok {
			return
		}
		n.c.o.Session.Notified(method, params)
	}
}

// next takes the oldest notification, if its time has come.
func (n *noteLimiter) next() (method string, params wire.Raw, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.ended, len(n.order) == 0:
		n.timer = nil
		if n.lost { // an update is assumed of every resource, once the flood is over
			n.lost = false
			protocol.Poke(n.c.signals.missed)
		}
		return "", nil, false
	case !n.rest.Allow():
		n.timer.Reset(10 * time.Second / notesPerSecond)
		return "", nil, false
	}
	key := n.order[0]
	n.order = n.order[1:]
	params = n.waiting[key]
	delete(n.waiting, key)
	method, _, _ = strings.Cut(key, " ")
	return method, params, true
}

// end drops what waits.
func (n *noteLimiter) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	if n.timer != nil {
		n.timer.Stop()
	}
}

// exceeded counts a message that is dropped or merged with another one.
func (c *Connector) exceeded(kind string) { c.Exceeded(kind, 1) }

// Exceeded counts what the server sends too much, by kind. One line a minute says so in the log for each
// kind, so that a flood of one does not hide the beginning of another.
func (c *Connector) Exceeded(kind string, n int) {
	c.o.Metrics.excess.WithLabelValues(c.o.Name, kind).Add(float64(n))
	log, ok := c.floodLogs.Load(kind)
	if !ok {
		log, _ = c.floodLogs.LoadOrStore(kind, &rate.Sometimes{Interval: time.Minute})
	}
	log.(*rate.Sometimes).Do(func() {
		c.o.Logger.Warn("the server sends more messages than are passed on", zap.String("kind", kind))
	})
}
