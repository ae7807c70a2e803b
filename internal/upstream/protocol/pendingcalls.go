package protocol

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// PendingCall is a request to the server that has no response yet.
type PendingCall struct {
	ID   wire.ID
	seq  int64
	Call *call.Call
	meta wire.Value // the _meta of the params
	// token is the progress token of the client, nil if there is none. The server gets
	// the id of the request in its place.
	token wire.Raw
	// Answer takes the response, or the error in its place. It is nil after
	// [PendingCalls.Begin].
	Answer chan answer
	// NotSent is set if the server certainly has not received the request.
	NotSent   atomic.Bool
	cancelled atomic.Bool // Cancellation was called
}

// Cancellation returns the notification that tells the server that the response is no longer
// needed. ok is false if the notification was returned before, or if the call is an
// initialize, which must not be cancelled (2025-11-25, basic/utilities/cancellation).
func (f *PendingCall) Cancellation() (m wire.Message, ok bool) {
	if f.Call.Method == wire.MethodInitialize || f.cancelled.Swap(true) {
		return wire.Message{}, false
	}
	return wire.Message{Method: wire.NoteCancelled, Params: wire.SetMember(wire.Raw(`{}`), "requestId", wire.Raw(f.ID.String()))}, true
}

// Cancelled reports whether Cancellation has returned the notification.
func (f *PendingCall) Cancelled() bool { return f.cancelled.Load() }

// answer is the end of a pending call: a response of the server, or an error.
type answer struct {
	Message wire.Message
	Err     error // a *CallError, nil if there is a message
}

// PendingCalls is the table of the pending calls of one conversation. It assigns the
// request ids, which are numbers that the conversation has not used before and are the
// progress tokens too. Its methods may be called concurrently.
type PendingCalls struct {
	mu       sync.Mutex
	last     int64
	open     map[wire.ID]*PendingCall
	closedBy error // why no call can begin, nil before Close
}

// NewPendingCalls returns an empty table.
func NewPendingCalls() *PendingCalls {
	return &PendingCalls{open: make(map[wire.ID]*PendingCall)}
}

// Begin adds a call whose response its caller reads itself. The error is a *CallError
// if the conversation is over. The caller must call [PendingCalls.End].
func (t *PendingCalls) Begin(c *call.Call) (*PendingCall, error) { return t.begin(c, nil) }

// BeginDelivered adds a call whose response comes on a stream that all calls share, by
// way of [PendingCalls.Deliver]. Otherwise it is [PendingCalls.Begin].
func (t *PendingCalls) BeginDelivered(c *call.Call) (*PendingCall, error) {
	return t.begin(c, make(chan answer, 1))
}

func (t *PendingCalls) begin(c *call.Call, to chan answer) (*PendingCall, error) {
	f := &PendingCall{Call: c, meta: wire.ValueOf(c.Params).Get("_meta"), Answer: to}
	f.token = f.meta.Get(wire.MetaProgressToken).Raw()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closedBy != nil {
		return nil, &CallError{Reason: ReasonConnectionLost, NotSent: true, ConnectionLost: true, ConversationClosed: true, Cause: t.closedBy}
	}
	t.last++
	f.seq = t.last
	f.ID = wire.IDOf(strconv.FormatInt(t.last, 10))
	t.open[f.ID] = f
	return f, nil
}

// End removes a call from the table. A later response to it is dropped.
func (t *PendingCalls) End(f *PendingCall) {
	t.mu.Lock()
	delete(t.open, f.ID)
	t.mu.Unlock()
}

// Deliver hands a response to its pending call. It returns false if there is none, as for
// a response to a cancelled request.
func (t *PendingCalls) Deliver(m wire.Message) bool {
	t.mu.Lock()
	f := t.open[m.ID]
	delete(t.open, m.ID)
	t.mu.Unlock()
	if f == nil {
		return false
	}
	f.Answer <- answer{Message: m}
	return true
}

// Fail ends a call with an error, unless it has ended.
func (t *PendingCalls) Fail(f *PendingCall, err *CallError) {
	t.mu.Lock()
	_, open := t.open[f.ID]
	delete(t.open, f.ID)
	t.mu.Unlock()
	if open {
		f.Answer <- answer{Err: err}
	}
}

// Progress passes a progress notification to the client whose call it belongs to, with
// the token of the client. It returns false if the call is not pending. It drops the
// notification if the call has no token.
func (t *PendingCalls) Progress(params wire.Raw) bool {
	token := wire.ValueOf(params).Get(wire.MetaProgressToken)
	t.mu.Lock()
	f := t.open[wire.IDOf(string(token.Raw()))]
	t.mu.Unlock()
	if f != nil && f.token != nil {
		notifyProgress(f.Call, params, token, f.token)
	}
	return f != nil
}

// notifyProgress passes on a progress notification with the token of the client.
func notifyProgress(c *call.Call, params wire.Raw, token wire.Value, own wire.Raw) {
	e := wire.NewEdit(params)
	e.Replace(token, own)
	c.Back.Notify(wire.NoteProgress, e.Bytes())
}

// Owner returns the call that a message without the name of a call belongs to. If all
// pending calls of clients belong to one client, that is the youngest of them; polls of a
// task count last, since they end too soon. Otherwise it returns nil: content for one
// client must never be shown to another. Calls of the gateway itself do not count.
func (t *PendingCalls) Owner() *call.Call {
	return t.preferredOwner(func(*call.Call) bool { return true })
}

// NotificationOwner returns the call that a notification without the name of a call
// belongs to. It is the Owner, but a log message belongs to the youngest call that asked
// for its level, since modern clients ask for log messages with each call.
func (t *PendingCalls) NotificationOwner(method string, params wire.Raw) *call.Call {
	if method != wire.NoteMessage {
		return t.Owner()
	}
	return t.preferredOwner(func(c *call.Call) bool { return WantsLog(c.LogLevel, params) })
}

// preferredOwner is Owner, but prefers calls that suits accepts to younger ones.
func (t *PendingCalls) preferredOwner(suits func(*call.Call) bool) *call.Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found *PendingCall
	var suited bool
	for _, f := range t.open {
		if f.Call.Client == nil {
			continue
		}
		if found != nil && f.Call.Client.Key != found.Call.Client.Key {
			return nil
		}
		fits := suits(f.Call) && !f.pollsTask()
		if found == nil || fits && !suited || fits == suited && f.seq > found.seq {
			found, suited = f, fits
		}
	}
	if found == nil {
		return nil
	}
	return found.Call
}

// pollsTask reports whether the call is about a task and does not wait for its result.
func (f *PendingCall) pollsTask() bool {
	m := wire.MethodOf(f.Call.Method)
	return m.Kind == wire.KindTask && m.Shape != wire.ShapeToolResult
}

// waitingFor returns the youngest call that waits for the result of a task, nil if there
// is none.
func (t *PendingCalls) waitingFor(task string) *call.Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found *PendingCall
	for _, f := range t.open {
		if f.Call.Method == wire.MethodTasksResult && f.Call.Client != nil && (found == nil || f.seq > found.seq) &&
			wire.ValueOf(f.Call.Params).Get("taskId").IsString(task) {
			found = f
		}
	}
	if found == nil {
		return nil
	}
	return found.Call
}

// Close ends all calls with an error, prevents new ones, and returns those that were
// pending. Calls of [PendingCalls.Begin] get the error of their own connection instead.
// cause is for the log, and for clients if it is an *EndError.
func (t *PendingCalls) Close(cause error) []*PendingCall {
	t.mu.Lock()
	if t.closedBy == nil {
		t.closedBy = cause
	}
	open := t.open
	t.open = make(map[wire.ID]*PendingCall)
	t.mu.Unlock()
	reason := ReasonConnectionLost
	if end, known := errors.AsType[*EndError](cause); known {
		reason = end.Error()
	}
	for _, f := range open {
		if f.Answer == nil {
			continue
		}
		f.Answer <- answer{Err: &CallError{Reason: reason, NotSent: f.NotSent.Load(), ConnectionLost: true, ConversationClosed: true, Cause: cause}}
	}
	return slices.Collect(maps.Values(open))
}

// ReasonConnectionLost is the reason of calls that were pending when the conversation
// ended.
const ReasonConnectionLost = "the connection to the server was lost"

// ReasonConnectionBroken is the reason of calls whose connection ended before the whole answer came.
const ReasonConnectionBroken = "the connection to the server broke before it answered"

// EndError ends a conversation for a reason that clients may know.
type EndError struct{ Why error }

func (e *EndError) Error() string { return "the server was ended: " + e.Why.Error() }

func (e *EndError) Unwrap() error { return e.Why }

// AwaitsAnswer reports whether a call is pending that the server should answer. A
// subscription has its answer when it ends.
func (t *PendingCalls) AwaitsAnswer() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.open {
		if f.Call.Method != wire.MethodListen {
			return true
		}
	}
	return false
}

// Get returns the call with this id, nil if there is none.
func (t *PendingCalls) Get(id wire.ID) *PendingCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

// WantsLog reports whether a log message has at least the level that a call asked
// for. A message with an unknown level passes if the call asked for any.
func WantsLog(least wire.Level, params wire.Raw) bool {
	if least == wire.LevelNone {
		return false
	}
	level, known := wire.ParseLevel(wire.ValueOf(params).Get("level").Str())
	return !known || level >= least
}
