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
	// A task is looked at as often as its upstream wants, within these bounds,
	// and every usualPoll when it does not say.
	shortestPoll = 50 * time.Millisecond
	usualPoll    = time.Second
	longestPoll  = 30 * time.Second
	// longestTask bounds the whole wait.
	longestTask = time.Hour
	// sign is how long a client that wants progress hears nothing at most.
	sign = 15 * time.Second
	// maxMisses is how often in a row an upstream may fail to say how a task is.
	maxMisses = 5
	// stopTimeout bounds telling an upstream that a task is not wanted any more.
	stopTimeout = 5 * time.Second
)

// TaskWait takes a call that an upstream has made a task of to its result, for a
// client that cannot carry the task itself. Meanwhile the task's questions go to
// the call's back channel, and so does, when the client asked for progress, what
// the task says of itself: in answers, and in notifications that [TaskWait.Told]
// is told of.
//
// It is a [call.BackChannel] for what the upstream says of the task outside of
// any call. Its methods may be called by many goroutines at once, at any time;
// nothing comes of them any more when Run has returned.
type TaskWait struct {
	c     *call.Call
	id    string
	form  wire.Era
	first Task
	do    Do
	token wire.Raw // nil when the client wants no progress

	life   context.Context // of questions that come outside of calls
	cut    context.CancelFunc
	asking sync.WaitGroup

	mu    sync.Mutex
	over  bool
	heard bool   // of a notification
	seen  string // the message in the last answer
	told  string // the last message that the client got
	stamp string // when the upstream says that this was, "" when it did not say
	count int64  // of progress notifications of the wait's own
	apart bool   // the upstream tells of progress by itself
	last  time.Time

	misses int // of Run's
}

// NewTaskWait returns a wait for the task t, which do is asked about. c is the
// call that made the task, with native names and for a client that declares to the
// upstream what tasks need. Whoever makes a wait calls Run.
func NewTaskWait(c *call.Call, t Task, do Do) *TaskWait {
	w := &TaskWait{c: c, id: t.ID, form: t.Form, first: t, do: do, token: wire.ValueOf(c.Params).Get("_meta", wire.MetaProgressToken).Raw()}
	w.life, w.cut = context.WithCancel(context.Background())
	return w
}

// Run looks at the task until it has ended and returns what the call would have
// returned. When ctx ends the task is cancelled. The error is a *wire.Error or
// that of ctx. It is called once.
func (w *TaskWait) Run(ctx context.Context) (call.Result, error) {
	defer w.close()
	t := w.first
	if t.ID == "" {
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream began a task without an id")
	}
	timed, cancel := context.WithTimeoutCause(ctx, longestTask,
		wire.Errorf(wire.CodeInternal, "the task took longer than %s", longestTask))
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
		w.stop(ctx)
	}
	if err != nil && timed.Err() != nil && ctx.Err() == nil {
		err = reasonOf(timed)
	}
	return res, err
}

// close lets nothing through to the client any more.
func (w *TaskWait) close() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.cut()
	w.asking.Wait()
}

// Told takes the params of a notification that the task has changed. It does not
// block.
func (w *TaskWait) Told(params wire.Raw) {
	t := TaskState(params, w.form)
	w.tell(&t, true)
}

// Notify implements [call.BackChannel]. Where the upstream tells of progress by
// itself, the wait makes up none any more: progress must grow.
func (w *TaskWait) Notify(method string, params wire.Raw) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	if method == wire.NoteProgress {
		progress, err := strconv.ParseFloat(string(wire.ValueOf(params).Get("progress").Raw()), 64)
		if err != nil || progress <= float64(w.count) {
			return
		}
		w.apart = true
	}
	w.c.Back.Notify(method, params)
}

// Ask implements [call.BackChannel]. It ends with the wait, too.
func (w *TaskWait) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return nil, context.Canceled
	}
	w.asking.Add(1)
	w.mu.Unlock()
	defer w.asking.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.life, cancel)()
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

// look asks how the task is. A miss is no error: the upstream could not be
// asked this time. Too many of them are.
func (w *TaskWait) look(ctx context.Context) (t Task, missed bool, err error) {
	res, err := w.request(ctx, wire.MethodTasksGet, nil)
	var own *wire.Error
	switch {
	case err == nil:
		w.misses = 0
		t = readTask(wire.ValueOf(res.Raw), w.form)
		w.tell(&t, false)
		return t, false, nil
	case errors.As(err, &own) && own.Raw == nil && own.Code == wire.CodeInternal && w.misses < maxMisses:
		w.misses++
		return Task{}, true, nil
	default:
		return Task{}, false, err
	}
}

// tell passes on what the task says of itself, and gives a sign of life from
// time to time. Answers and notifications may overtake one another, so what is
// older than what was told is left out, and an answer counts only where no
// notifications come, or one seems to be lost.
func (w *TaskWait) tell(t *Task, note bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.token == nil || w.over || w.apart || t.Ended() {
		return
	}
	message, stamp := t.Message, t.Body.Get("lastUpdatedAt").Str()
	early := !note && w.heard && message != w.seen
	if note {
		w.heard = true
	} else {
		w.seen = message
	}
	if early || len(stamp) == len(w.stamp) && stamp < w.stamp {
		message = ""
	}
	now := time.Now()
	if w.last.IsZero() {
		w.last = now
	}
	if (message == "" || message == w.told) && now.Sub(w.last) < sign {
		return
	}
	w.count++
	w.last = now
	if message != "" {
		w.told, w.stamp = message, stamp
	}
	params := wire.SetMember(wire.Raw(`{}`), wire.MetaProgressToken, w.token)
	params = wire.SetMember(params, "progress", wire.Raw(strconv.FormatInt(w.count, 10)))
	if message != "" && w.c.Client.Revision.AtLeast(wire.Rev20250326) { // before, progress was numbers alone
		params = wire.SetMember(params, "message", wire.String(message))
	}
	w.c.Back.Notify(wire.NoteProgress, params)
}

// stop cancels the task. Nobody waits for what becomes of that.
func (w *TaskWait) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	own := *w.c
	own.Back = deaf{}
	cancelling := TaskWait{c: &own, id: w.id, do: w.do}
	_, _ = cancelling.request(ctx, wire.MethodTasksCancel, nil) // the upstream ends the task by its own lights if this is lost
}

// Pause is how long to wait before the next look at the task.
func (t *Task) Pause() time.Duration {
	if t.Poll == 0 {
		return usualPoll
	}
	return max(t.Poll, shortestPoll)
}
