package bridge

import (
	"context"
	"errors"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// outcome is the outcome of a request in the background.
type outcome struct {
	res call.Result
	err error
}

// modern waits for a task of the extension of 2026-07-28. It also reports whether the task has
// ended by itself.
func (w *TaskWait) modern(ctx context.Context, t Task) (call.Result, bool, error) {
	// The task is polled while questions are open: it may end before they are answered, or
	// ask more.
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
	w.report(&t, false)
	for {
		switch {
		case t.Ended():
			finish()
			res, err := w.conclude(&t)
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
		next, missed, err := w.poll(ctx)
		if err != nil {
			return call.Result{}, ctx.Err() == nil, err
		}
		if !missed {
			t = next
		}
	}
}

// unasked returns the requests whose keys are not in asked, nil for none, and adds their keys. A
// key is used for one question only (2026-07-28, extensions/tasks, "Task Update Requests").
func unasked(requests wire.Value, asked map[string]bool) wire.Raw {
	out := wire.Raw{'{'}
	for m := range requests.Members() {
		key := m.Key.Str()
		if asked[key] {
			continue
		}
		asked[key] = true
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.Key.Raw()...), ':'), m.Value.Raw()...)
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, '}')
}

// answer asks the questions and sends the answers to the upstream.
func (w *TaskWait) answer(ctx context.Context, requests wire.Raw) error {
	answers, err := askAll(ctx, w.c.Back, wire.ValueOf(requests))
	if err != nil {
		return err
	}
	_, err = w.request(ctx, wire.MethodTasksUpdate, answers)
	return err
}

// conclude returns what the call would have returned, for a task that has ended.
func (w *TaskWait) conclude(t *Task) (call.Result, error) {
	switch {
	case t.Status == taskCompleted && t.Body.Get("result").Kind() == '{':
		return call.Result{Raw: t.Body.Get("result").Raw(), Revision: wire.LatestModern}, nil
	case t.Status == taskFailed:
		if rpcErr := errorOf(t.Body.Get("error")); rpcErr != nil {
			return call.Result{}, rpcErr
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

// errorOf reads a JSON-RPC error object. It returns nil for a value that is not one.
func errorOf(v wire.Value) *wire.Error {
	code, ok := v.Get("code").Int()
	message, ok2 := v.Get("message").Text()
	if !ok || !ok2 {
		return nil
	}
	return &wire.Error{Code: code, Message: message, Data: v.Get("data").Raw(), Raw: v.Raw()}
}

// legacy waits for a task of 2025-11-25. A request for its result is always open, because the
// task's questions come on its stream. The task is polled as well, for its messages, because some
// servers refuse the result while the task runs, and because every connection may break.
func (w *TaskWait) legacy(ctx context.Context, t Task) (call.Result, bool, error) {
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
	w.report(&t, false)
	ask()
	early := false // the result was refused while the task ran
	for {
		timer := time.NewTimer(t.Pause())
		select {
		case o := <-results:
			timer.Stop()
			open = false
			var rpcErr *wire.Error
			switch {
			case o.err == nil:
				o.res.Raw = WithoutRelatedTask(o.res.Raw)
				return o.res, true, nil
			case !errors.As(o.err, &rpcErr) || t.Ended():
				return call.Result{}, t.Ended(), o.err
			}
			now, missed, err := w.poll(ctx)
			switch {
			case err != nil:
				return call.Result{}, ctx.Err() == nil, err
			case missed:
				continue
			}
			t = now
			if t.Ended() {
				ask() // the result may have been refused because the task still ran
			}
			early = rpcErr.Raw != nil // otherwise the request has timed out
			continue
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return call.Result{}, false, ctx.Err()
		}
		next, missed, err := w.poll(ctx)
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
