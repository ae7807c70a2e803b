package protocol

import (
	"strconv"
	"sync"
	"sync/atomic"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// flight is one request of the gateway's that the server has not answered.
type PendingCall struct {
	ID   wire.ID
	seq  int64
	Call *call.Call
	// token is the progress token that the client gave, nil when it gave none.
	// The server sees the request's id in its place.
	token wire.Raw
	// Answer takes the response, or the error in its place. It is nil after
	// [PendingCalls.Begin].
	Answer chan answer
	// unsent is set when it is certain that the server has not got the request.
	NotSent atomic.Bool
}

// answer is how a flight ends: with a response of the server, or with err.
type answer struct {
	Message wire.Message
	Err     error // a *CallError, nil when msg holds
}

// flights is the table of what is in flight in one conversation. It gives out
// request ids and progress tokens, which are numbers that the conversation has
// not used before; a flight's token is its id. Its methods may be called by
// many goroutines at once.
type PendingCalls struct {
	mu   sync.Mutex
	last int64
	open map[wire.ID]*PendingCall
	over error // why nothing can begin any more
}

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
	f := &PendingCall{
		Call:   c,
		token:  wire.ValueOf(c.Params).Get("_meta", wire.MetaProgressToken).Raw(),
		Answer: to,
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil {
		return nil, &CallError{Reason: ReasonConnectionLost, NotSent: true, ConnectionLost: true, ConversationClosed: true, Cause: t.over}
	}
	t.last++
	f.seq = t.last
	f.ID = wire.IDOf(strconv.FormatInt(t.last, 10))
	t.open[f.ID] = f
	return f, nil
}

// End takes the flight out of the table. What the server says of it later is
// dropped.
func (t *PendingCalls) End(f *PendingCall) {
	t.mu.Lock()
	delete(t.open, f.ID)
	t.mu.Unlock()
}

// Deliver hands a response to the flight that waits for it, and reports whether
// there was one: the answer to a request that was cancelled has none.
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

// Fail ends one flight with a fault, unless it has an answer already.
func (t *PendingCalls) Fail(f *PendingCall, err *CallError) {
	t.mu.Lock()
	_, open := t.open[f.ID]
	delete(t.open, f.ID)
	t.mu.Unlock()
	if open {
		f.Answer <- answer{Err: err}
	}
}

// Progress passes a progress notification to the client whose call it belongs
// to, under the token that the client gave. One of a call that is not in
// flight is left to the caller, to whom false is returned; one of a call that
// asked for none is dropped.
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

// notifyProgress passes a progress notification on with the client's own token in
// the place of that which the server knows.
func notifyProgress(c *call.Call, params wire.Raw, token wire.Value, own wire.Raw) {
	e := wire.NewEdit(params)
	e.Replace(token, own)
	c.Back.Notify(wire.NoteProgress, e.Bytes())
}

// Owner returns the call that a message belongs to which does not say so
// itself: when every client's call in flight comes from one client, the
// youngest of them that is no look at a task, which is over too soon, else nil.
// What belongs to one client must never be shown to another, so nothing is guessed.
// Calls of the gateway itself do not count: nobody waits behind them to whom
// something could be shown by mistake.
func (t *PendingCalls) Owner() *call.Call { return t.ownerWho(func(*call.Call) bool { return true }) }

// hearer returns the call that a notification belongs to which does not say so
// itself. It is the owner; but modern clients ask for log messages with each
// call, and so one goes to the youngest call that asked for such a one, if any
// did.
func (t *PendingCalls) NotificationOwner(method string, params wire.Raw) *call.Call {
	if method != wire.NoteMessage {
		return t.Owner()
	}
	return t.ownerWho(func(c *call.Call) bool { return WantsLog(c.LogLevel, params) })
}

// ownerWho is owner, but prefers calls that suit to younger ones.
func (t *PendingCalls) ownerWho(suits func(*call.Call) bool) *call.Call {
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
		fits := suits(f.Call) && !f.looks()
		if found == nil || fits && !suited || fits == suited && f.seq > found.seq {
			found, suited = f, fits
		}
	}
	if found == nil {
		return nil
	}
	return found.Call
}

// looks reports whether the flight is about a task and does not wait for its result.
func (f *PendingCall) looks() bool {
	m := wire.MethodOf(f.Call.Method)
	return m.Kind == wire.KindTask && m.Shape != wire.ShapeToolResult
}

// waitingFor returns the youngest call that waits for the result of a task, nil
// when none does.
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

// Close ends every flight with a fault, and lets no more begin.
func (t *PendingCalls) Close(cause error) {
	t.mu.Lock()
	if t.over == nil {
		t.over = cause
	}
	open := t.open
	t.open = make(map[wire.ID]*PendingCall)
	t.mu.Unlock()
	for _, f := range open {
		if f.Answer == nil {
			continue // its caller learns it from its own connection
		}
		f.Answer <- answer{Err: &CallError{Reason: ReasonConnectionLost, NotSent: f.NotSent.Load(), ConnectionLost: true, ConversationClosed: true, Cause: cause}}
	}
}

// reasonLost is what a client reads when a conversation ended under its call.
const ReasonConnectionLost = "the connection to the server was lost"

// Get returns the flight with this id, nil when there is none.
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
