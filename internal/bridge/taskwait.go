package bridge

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

const (
	// A task is polled as often as its upstream wants, within these bounds, and every
	// defaultPoll if the upstream does not say.
	minPoll     = 50 * time.Millisecond
	defaultPoll = time.Second
	maxPoll     = 30 * time.Second
	// maxTaskWait bounds the whole wait.
	maxTaskWait = time.Hour
	// keepAlive is the longest time without a progress notification for a client that wants
	// progress.
	keepAlive = 15 * time.Second
	// maxFailures bounds the polls in a row that may fail.
	maxFailures = 5
	// cancelTimeout bounds the request that cancels a task.
	cancelTimeout = 5 * time.Second
)

// TaskWait waits for the result of a task that an upstream made of a call, for a client that
// cannot carry the task. The task's questions go to the call's back channel. If the client asked
// for progress, the status messages of the task go there too: those of polls, and those of
// notifications that [TaskWait.Notified] gets.
//
// A TaskWait is a [call.BackChannel] for messages about the task outside of calls. Its methods
// may be called concurrently, at any time. They have no effect after Run has returned.
type TaskWait struct {
	c     *call.Call
	id    string
	form  wire.Era
	first Task
	do    Do
	token wire.Raw // nil if the client wants no progress

	ctx    context.Context // of questions outside of calls
	cancel context.CancelFunc
	asks   sync.WaitGroup

	mu            sync.Mutex
	over          bool
	notified      bool   // a notification has come
	lastAnswer    string // the message of the last poll
	lastSent      string // the last message that was sent to the client
	lastUpdatedAt string // of that message, as the upstream says, "" for none
	progress      int64  // the number of progress notifications of the wait
	ownProgress   bool   // the upstream sends progress notifications
	lastSentAt    time.Time

	failures int // in a row, used by Run
}

// NewTaskWait returns a wait for the task t, which sends requests with do. c is the call that
// began the task, with native names and for a client that declares to the upstream what tasks
// need. The caller must call Run.
func NewTaskWait(c *call.Call, t Task, do Do) *TaskWait {
	w := &TaskWait{c: c, id: t.ID, form: t.Form, first: t, do: do, token: wire.ValueOf(c.Params).Get("_meta", wire.MetaProgressToken).Raw()}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Run polls the task until it has ended, and returns what the call would have returned. When ctx
// ends the task is cancelled. The error is a *wire.Error or that of ctx. Run is called once.
func (w *TaskWait) Run(ctx context.Context) (call.Result, error) {
	defer w.close()
	t := w.first
	if t.ID == "" {
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream began a task without an id")
	}
	timed, cancel := context.WithTimeoutCause(ctx, maxTaskWait,
		wire.Errorf(wire.CodeInternal, "the task took longer than %s", maxTaskWait))
	defer cancel()
	var res call.Result
	var ended bool
	var err error
	if t.Form == wire.EraLegacy {
		res, ended, err = w.legacy(timed, t)
	} else {
		res, ended, err = w.modern(timed, t)
	}
	if !ended {
		w.cancelTask(ctx)
	}
	if err != nil && timed.Err() != nil && ctx.Err() == nil {
		err = causeOf(timed)
	}
	return res, err
}

// close stops all messages to the client.
func (w *TaskWait) close() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.cancel()
	w.asks.Wait()
}

// Notified takes the params of a notification that the task has changed. It does not block.
func (w *TaskWait) Notified(params wire.Raw) {
	t := ParseTask(params, w.form)
	w.report(&t, true)
}

// Notify implements [call.BackChannel]. Once the upstream sends progress notifications, the wait
// sends none of its own, because progress must grow.
func (w *TaskWait) Notify(method string, params wire.Raw) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	if method == wire.NoteProgress {
		progress, err := strconv.ParseFloat(string(wire.ValueOf(params).Get("progress").Raw()), 64)
		if err != nil || progress <= float64(w.progress) {
			return
		}
		w.ownProgress = true
	}
	w.c.Back.Notify(method, params)
}

// Ask implements [call.BackChannel]. It ends with the wait at the latest.
func (w *TaskWait) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return nil, context.Canceled
	}
	w.asks.Add(1)
	w.mu.Unlock()
	defer w.asks.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	return w.c.Back.Ask(ctx, method, params)
}

// request sends a request about the task, with answers to its questions or nil.
func (w *TaskWait) request(ctx context.Context, method string, answers wire.Raw) (call.Result, error) {
	params := wire.SetMember(wire.Raw(`{}`), "taskId", wire.String(w.id))
	if answers != nil {
		params = wire.SetMember(params, "inputResponses", answers)
	}
	d := w.c.With(params)
	d.Method = method
	return w.do(ctx, d)
}

// poll asks for the state of the task. missed says that the upstream could not be asked this
// time, which is an error only after too many failures.
func (w *TaskWait) poll(ctx context.Context) (t Task, missed bool, err error) {
	res, err := w.request(ctx, wire.MethodTasksGet, nil)
	var own *wire.Error
	switch {
	case err == nil:
		w.failures = 0
		t = readTask(wire.ValueOf(res.Raw), w.form)
		w.report(&t, false)
		return t, false, nil
	case errors.As(err, &own) && own.Raw == nil && own.Code == wire.CodeInternal && w.failures < maxFailures:
		w.failures++
		return Task{}, true, nil
	default:
		return Task{}, false, err
	}
}

// report sends the client the status message of the task, and a progress notification without
// one if the client has had none for a while. Answers and notifications may overtake one another,
// so an older message is left out, and the message of a poll counts only if no notifications
// come, or one seems to be lost.
func (w *TaskWait) report(t *Task, note bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.token == nil || w.over || w.ownProgress || t.Ended() {
		return
	}
	message, stamp := t.Message, t.Body.Get("lastUpdatedAt").Str()
	early := !note && w.notified && message != w.lastAnswer
	if note {
		w.notified = true
	} else {
		w.lastAnswer = message
	}
	if early || len(stamp) == len(w.lastUpdatedAt) && stamp < w.lastUpdatedAt {
		message = ""
	}
	now := time.Now()
	if w.lastSentAt.IsZero() {
		w.lastSentAt = now
	}
	if (message == "" || message == w.lastSent) && now.Sub(w.lastSentAt) < keepAlive {
		return
	}
	w.progress++
	w.lastSentAt = now
	if message != "" {
		w.lastSent, w.lastUpdatedAt = message, stamp
	}
	params := wire.SetMember(wire.Raw(`{}`), wire.MetaProgressToken, w.token)
	params = wire.SetMember(params, "progress", wire.Raw(strconv.FormatInt(w.progress, 10)))
	if message != "" && w.c.Client.Revision.AtLeast(wire.Rev20250326) { // older revisions have no message
		params = wire.SetMember(params, "message", wire.String(message))
	}
	w.c.Back.Notify(wire.NoteProgress, params)
}

// cancelTask cancels the task, without regard to the answer.
func (w *TaskWait) cancelTask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	own := *w.c
	own.Back = noBackChannel{}
	cancelling := TaskWait{c: &own, id: w.id, do: w.do}
	_, _ = cancelling.request(ctx, wire.MethodTasksCancel, nil) // if this is lost, the upstream ends the task at its own time
}

// Pause returns how long to wait before the next poll of the task.
func (t *Task) Pause() time.Duration {
	if t.Poll == 0 {
		return defaultPoll
	}
	return max(t.Poll, minPoll)
}
