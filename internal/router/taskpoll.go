package router

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

// retryPause is the time between two polls of a task while its upstream cannot be asked.
const retryPause = 5 * time.Second

// taskPolls are the polls of the tasks that clients watch: one poll for each task of a
// principal, however many watches there are. Use newTaskPolls.
type taskPolls struct {
	budget *fairshare.Budget // of watches

	mu    sync.Mutex
	polls map[pollKey]*taskPoll
}

type pollKey struct {
	task      taskKey
	principal string // with whose rights the upstream is asked
}

// taskPoll asks an upstream for one task.
type taskPoll struct {
	key    pollKey
	form   wire.Era // of the task
	cancel context.CancelFunc
	joined chan struct{} // holds a token when there is a new watch

	watches []*taskWatch // guarded by taskPolls.mu
}

func newTaskPolls() *taskPolls {
	return &taskPolls{budget: fairshare.New(maxTaskWatches, 0), polls: make(map[pollKey]*taskPoll)}
}

func pollKeyOf(w *taskWatch) pollKey { return pollKey{keyOf(w.task.ref), w.task.principal.Key()} }

// add adds a watch to the poll of its task. If there is none, start begins one.
func (t *taskPolls) add(w *taskWatch, start func(*taskPoll)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.over {
		return // its context ended before
	}
	key := pollKeyOf(w)
	p := t.polls[key]
	if p == nil {
		p = &taskPoll{key: key, form: w.task.ref.Form, joined: make(chan struct{}, 1)}
		t.polls[key] = p
		start(p)
	}
	p.watches = append(p.watches, w)
	select {
	case p.joined <- struct{}{}:
	default:
	}
}

// remove takes a watch out of its poll, which ends with its last watch. It reports false
// for a watch that is over already.
func (t *taskPolls) remove(w *taskWatch) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.over {
		return false
	}
	w.over = true
	p := t.polls[pollKeyOf(w)]
	if p == nil {
		return true // it was not added yet
	}
	p.watches = slices.DeleteFunc(p.watches, func(o *taskWatch) bool { return o == w })
	if len(p.watches) == 0 {
		p.cancel()
		delete(t.polls, p.key)
	}
	return true
}

// of returns the watches of a poll.
func (t *taskPolls) of(p *taskPoll) []*taskWatch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(p.watches)
}

// pollTask polls a task until its last watch has ended. A watch that joins later gets the
// last answer immediately, for which the upstream is not asked again.
func (r *Router) pollTask(ctx context.Context, p *taskPoll) {
	var last call.Result
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			answer, err := r.pollOnce(ctx, p)
			pause := retryPause
			if rpc, ok := errors.AsType[*wire.Error](err); ok && rpc.Raw != nil {
				for _, w := range r.polls.of(p) { // the upstream no longer knows the task
					r.endWatch(w)
				}
			} else if err == nil {
				last = answer
				task := bridge.ParseTask(last.Raw, p.form)
				pause = task.Pause()
				r.deliverToWatches(p, last, false)
			}
			timer.Reset(pause)
		case <-p.joined:
			if last.Raw != nil {
				r.deliverToWatches(p, last, true)
			}
		}
	}
}

// pollOnce asks the upstream for the task, with the rights of a client that watches it. It ends
// watches whose client may no longer see the tool of the task.
func (r *Router) pollOnce(ctx context.Context, p *taskPoll) (call.Result, error) {
	for _, w := range r.polls.of(p) {
		routes, part := r.visiblePart(&w.task)
		if part == nil {
			r.endWatch(w)
			continue
		}
		get := *w.get
		get.Principal = r.latest(get.Principal)
		f := r.newTaskForwarding(&get, routes, w.task)
		f.resolveTask(part)
		_, err := f.request(ctx, pollStages)
		return f.result, err
	}
	return call.Result{}, context.Canceled
}

// deliverToWatches delivers the answer of the upstream to the watches: to all, or only to the new
// ones, to which nothing was delivered yet. Watches to which the end of the task was delivered are
// over.
func (r *Router) deliverToWatches(p *taskPoll, answer call.Result, new bool) {
	task := bridge.ParseTask(answer.Raw, p.form)
	for _, w := range r.polls.of(p) {
		if new && w.delivered != nil {
			continue
		}
		routes, part := r.visiblePart(&w.task)
		if part == nil || r.deliverTask(w, routes, part, answer) && task.Ended() {
			r.endWatch(w)
		}
	}
}
