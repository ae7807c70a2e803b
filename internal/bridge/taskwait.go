package bridge

import (
	"context"
	"errors"
	"strconv"
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

// WaitTask takes a call that an upstream has made a task of to its result, for
// a client that cannot carry the task itself: it looks at the task until it has
// ended and returns what the call would have returned. Meanwhile the task's
// questions go to c.Back, and so does, when the client asked for progress, the
// task's status message. When ctx ends the task is cancelled.
//
// c is the call that made the task, with native names and for a client that
// declares to the upstream what tasks need. The error is a *wire.Error or that
// of ctx.
func WaitTask(ctx context.Context, c *call.Call, t Task, do Do) (call.Result, error) {
	if t.ID == "" {
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream began a task without an id")
	}
	timed, cancel := context.WithTimeoutCause(ctx, longestTask,
		wire.Errorf(wire.CodeInternal, "the task took longer than %s", longestTask))
	defer cancel()
	w := &taskWait{c: c, id: t.ID, form: t.Form, do: do, token: wire.ValueOf(c.Params).Get("_meta", wire.MetaProgressToken).Raw()}
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

// taskWait is one wait. It belongs to one goroutine.
type taskWait struct {
	c     *call.Call
	id    string
	form  wire.Era
	do    Do
	token wire.Raw // nil when the client wants no progress

	told   string // the last message that the client got
	count  int64  // of progress notifications
	last   time.Time
	misses int
}

// request sends a request about the task, with answers to its questions or nil.
func (w *taskWait) request(ctx context.Context, method string, answers wire.Raw) (call.Result, error) {
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
func (w *taskWait) look(ctx context.Context) (t Task, missed bool, err error) {
	res, err := w.request(ctx, wire.MethodTasksGet, nil)
	var own *wire.Error
	switch {
	case err == nil:
		w.misses = 0
		t = readTask(wire.ValueOf(res.Raw), w.form)
		w.tell(&t)
		return t, false, nil
	case errors.As(err, &own) && own.Raw == nil && own.Code == wire.CodeInternal && w.misses < maxMisses:
		w.misses++
		return Task{}, true, nil
	default:
		return Task{}, false, err
	}
}

// tell passes on what the task says of itself, and gives a sign of life from
// time to time.
func (w *taskWait) tell(t *Task) {
	if w.token == nil || t.Ended() {
		return
	}
	now := time.Now()
	if w.last.IsZero() {
		w.last = now
	}
	if (t.Message == "" || t.Message == w.told) && now.Sub(w.last) < sign {
		return
	}
	w.count++
	w.told, w.last = t.Message, now
	params := wire.SetMember(wire.Raw(`{}`), wire.MetaProgressToken, w.token)
	params = wire.SetMember(params, "progress", wire.Raw(strconv.FormatInt(w.count, 10)))
	if t.Message != "" && w.c.Client.Revision.AtLeast(wire.Rev20250326) { // before, progress was numbers alone
		params = wire.SetMember(params, "message", wire.String(t.Message))
	}
	w.c.Back.Notify(wire.NoteProgress, params)
}

// stop cancels the task. Nobody waits for what becomes of that.
func (w *taskWait) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	own := *w.c
	own.Back = deaf{}
	cancelling := taskWait{c: &own, id: w.id, do: w.do}
	_, _ = cancelling.request(ctx, wire.MethodTasksCancel, nil) // the upstream ends the task by its own lights if this is lost
}

// Pause is how long to wait before the next look at the task.
func (t *Task) Pause() time.Duration {
	if t.Poll == 0 {
		return usualPoll
	}
	return max(t.Poll, shortestPoll)
}

// outcome is how a request in the background ended.
type outcome struct {
	res call.Result
	err error
}

// modern waits for a task of the extension of 2026-07-28. It also returns
// whether the task has ended by itself.
func (w *taskWait) modern(ctx context.Context, t Task) (call.Result, bool, error) {
	// Questions are asked while the task is looked at: it may end before they
	// are answered, or ask more.
	asking, giveUp := context.WithCancel(ctx)
	answered := make(chan error)
	asked := make(map[string]bool)
	rounds := 0
	finish := func() {
		giveUp()
		for ; rounds > 0; rounds-- {
			<-answered
		}
	}
	defer finish()
	w.tell(&t)
	for {
		switch {
		case t.Ended():
			finish()
			res, err := w.end(&t)
			return res, true, err
		case t.Status == taskInput:
			if fresh := unasked(t.Body.Get("inputRequests"), asked); fresh != nil {
				if len(asked) > maxRounds*maxRequests {
					return call.Result{}, false, wire.Errorf(wire.CodeInternal, "the task asked more than %d questions", maxRounds*maxRequests)
				}
				rounds++
				go func() { answered <- w.answer(asking, fresh) }()
			}
		}
		timer := time.NewTimer(t.Pause())
		select {
		case <-timer.C:
		case err := <-answered:
			timer.Stop()
			rounds--
			if err != nil {
				return call.Result{}, false, err
			}
		case <-ctx.Done():
			timer.Stop()
			return call.Result{}, false, ctx.Err()
		}
		next, missed, err := w.look(ctx)
		if err != nil {
			return call.Result{}, ctx.Err() == nil, err
		}
		if !missed {
			t = next
		}
	}
}

// unasked returns the requests whose keys are not among those asked, and adds
// them; nil when there are none. A key is used for one question only
// (2026-07-28, extensions/tasks, "Task Update Requests").
func unasked(requests wire.Value, asked map[string]bool) wire.Raw {
	var out wire.Raw
	for m := range requests.Members() {
		key := m.Key.Str()
		if asked[key] {
			continue
		}
		asked[key] = true
		if out == nil {
			out = wire.Raw(`{}`)
		}
		out = wire.SetMember(out, key, m.Value.Raw())
	}
	return out
}

// answer asks the questions and brings the answers to the upstream.
func (w *taskWait) answer(ctx context.Context, requests wire.Raw) error {
	answers, err := askAll(ctx, w.c.Back, wire.ValueOf(requests))
	if err != nil {
		return err
	}
	_, err = w.request(ctx, wire.MethodTasksUpdate, answers)
	return err
}

// end returns what the call would have returned, from a task that has ended.
func (w *taskWait) end(t *Task) (call.Result, error) {
	switch {
	case t.Status == taskCompleted && t.Body.Get("result").Kind() == '{':
		return call.Result{Raw: t.Body.Get("result").Raw(), Revision: wire.LatestModern}, nil
	case t.Status == taskFailed:
		if fault := errorOf(t.Body.Get("error")); fault != nil {
			return call.Result{}, fault
		}
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream's task failed%s", because(t.Message))
	case t.Status == taskCancelled:
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream cancelled the task%s", because(t.Message))
	default:
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream's task completed without a result")
	}
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// errorOf reads a JSON-RPC error object, nil when it is none.
func errorOf(v wire.Value) *wire.Error {
	code, ok := v.Get("code").Int()
	message, ok2 := v.Get("message").Text()
	if !ok || !ok2 {
		return nil
	}
	return &wire.Error{Code: code, Message: message, Data: v.Get("data").Raw(), Raw: v.Raw()}
}

// legacy waits for a task of 2025-11-25. A request for its result is open all
// the time, because the task's questions come on its stream; the task is looked
// at beside it, for its messages, and because some servers refuse to say the
// result too early, and every connection may break.
func (w *taskWait) legacy(ctx context.Context, t Task) (call.Result, bool, error) {
	waiting, giveUp := context.WithCancel(ctx)
	results := make(chan outcome, 1)
	open := false
	ask := func() {
		open = true
		go func() {
			res, err := w.request(waiting, wire.MethodTasksResult, nil)
			results <- outcome{res, err}
		}()
	}
	defer func() {
		giveUp()
		if open {
			<-results
		}
	}()
	w.tell(&t)
	ask()
	early := false // the result was refused while the task ran
	for {
		timer := time.NewTimer(t.Pause())
		select {
		case o := <-results:
			timer.Stop()
			open = false
			var fault *wire.Error
			switch {
			case o.err == nil:
				o.res.Raw = Unrelated(o.res.Raw)
				return o.res, true, nil
			case !errors.As(o.err, &fault) || t.Ended():
				return call.Result{}, t.Ended(), o.err
			}
			now, missed, err := w.look(ctx)
			switch {
			case err != nil:
				return call.Result{}, ctx.Err() == nil, err
			case missed:
				continue
			}
			t = now
			if t.Ended() {
				ask() // what was refused may have been that the task still ran
			}
			early = fault.Raw != nil // else it is the gateway's own: the upstream said nothing for too long
			continue
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return call.Result{}, false, ctx.Err()
		}
		next, missed, err := w.look(ctx)
		switch {
		case err != nil:
			return call.Result{}, ctx.Err() == nil, err
		case missed:
			continue
		}
		t = next
		if !open && (t.Ended() || !early || t.Status == taskInput) {
			early = false
			ask()
		}
	}
}

// Patient returns do for tasks/result of 2025-11-25, which takes as long as the
// task: when the gateway lost patience with a silent upstream while the task
// runs, the request is sent again.
func Patient(do Do) Do {
	return func(ctx context.Context, c *call.Call) (call.Result, error) {
		for ended := false; ; {
			res, err := do(ctx, c)
			own, ok := errors.AsType[*wire.Error](err)
			if !ok || own.Raw != nil || own.Code != wire.CodeInternal || ended {
				return res, err
			}
			look := *c
			look.Method = wire.MethodTasksGet
			got, lerr := do(ctx, &look)
			if lerr != nil {
				return res, err
			}
			task := TaskState(got.Raw, wire.EraLegacy)
			if ended = task.Ended(); ended {
				continue
			}
			if err := sleep(ctx, task.Pause()); err != nil {
				return call.Result{}, err
			}
		}
	}
}

// deaf is the back channel of requests that nobody waits for.
type deaf struct{}

func (deaf) Notify(string, wire.Raw) {}

func (deaf) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	return nil, wire.Errorf(wire.CodeInternal, "nobody waits for this any more")
}
