package router

import (
	"bytes"
	"context"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// maxTaskWatches bounds the watches of tasks of all clients. It bounds also how many tasks
// are polled, because all watches of a task share one poll.
const maxTaskWatches = 1024

// taskWatch is one client's watch of a task.
type taskWatch struct {
	get     *call.Call // tasks/get, as the client would send it
	task    knownTask
	deliver func(params wire.Raw) bool
	share   fairshare.Share
	begun   time.Time

	delivered wire.Raw // the last delivered params; only the poll uses them

	stop func() bool // releases the hook on the context
	over bool        // guarded by taskPolls.mu
}

// WatchTask has deliver called with each change of a task of the caller, as the params of
// notifications/tasks under public names, until the task has ended, the caller may not see
// its tool any longer, or ctx ends. It reports false for an id that is not one of the
// caller's, and if the caller or all clients together have as many watches as they may.
// deliver must not block. When it returns false it gets the same params again later. The
// first params say how the task is now.
//
// The gateway polls the task as often as its upstream wants. It needs no subscription of
// its own there, and the watch works for upstreams that send no notifications.
func (r *Router) WatchTask(ctx context.Context, c *call.Call, id string, deliver func(params wire.Raw) bool) bool {
	get := c.With(wire.SetMember(wire.Raw(`{}`), "taskId", wire.String(id)))
	get.Method, get.Back = wire.MethodTasksGet, noBackChannel{}
	f := r.newTaskForwarding(get, r.Routes(), knownTask{id: id, client: c.Client, principal: c.Principal})
	if _, err := f.request(ctx, watchStages); err != nil {
		return false
	}
	w := &taskWatch{get: get, task: *f.task, deliver: deliver, share: fairshare.ShareOf(c.ShareKey), begun: time.Now()}
	if err := r.polls.budget.Acquire(w.share, 1); err != nil {
		r.ratelog.Warn("a task is not watched", zap.String("request", c.ID), zap.String("principal", c.Principal.Subject), ratelog.Profile(c.Principal.Profile), zap.NamedError("reason", err))
		return false
	}
	w.stop = context.AfterFunc(ctx, func() { r.endWatch(w) })
	r.polls.add(w, func(p *taskPoll) {
		polling, cancel := context.WithCancel(context.WithoutCancel(ctx))
		p.cancel = cancel
		go r.pollTask(polling, p)
	})
	return true
}

// endWatch ends a watch, once.
func (r *Router) endWatch(w *taskWatch) {
	if !r.polls.remove(w) {
		return
	}
	w.stop()
	r.polls.budget.Release(w.share, 1)
	if r.audit != nil {
		ref := &w.task.ref
		r.auditEnd(w.get, ref.Public, &logFields{upstream: ref.Upstream}, call.Result{}, time.Since(w.begun), nil)
	}
}

// deliverTask delivers an answer of the upstream if it differs from the last one. It reports whether
// the client has the answer now.
func (r *Router) deliverTask(w *taskWatch, routes *Routes, part *catalog.Part, answer call.Result) bool {
	f := r.newTaskForwarding(w.get, routes, w.task)
	f.resolveTask(part)
	f.openBackChannel(w.task.ref.Session)
	f.result = answer
	res, err := f.answer()
	if err != nil {
		return false
	}
	params := asNotification(res.Raw)
	if !bytes.Equal(params, w.delivered) {
		if !w.deliver(params) {
			return false
		}
		w.delivered = params
	}
	return true
}

// asNotification returns the result of tasks/get without what only results have.
func asNotification(result wire.Raw) wire.Raw {
	e := wire.NewEdit(result)
	e.Remove(e.Root(), "resultType", "_meta")
	return e.Bytes()
}

// noBackChannel is the back channel of requests that no client has made.
type noBackChannel struct{}

func (noBackChannel) Notify(string, wire.Raw) {}

func (noBackChannel) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	return nil, wire.Errorf(wire.CodeInternal, "no client is there to be asked")
}
