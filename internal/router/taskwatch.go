package router

import (
	"bytes"
	"context"
	"errors"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// WatchTask has deliver called with each change of a task of this caller's, as
// the params of notifications/tasks under public names, until the task has ended,
// the caller may not see its tool any more, or ctx ends. It reports false for an id that is none of the caller's. deliver
// must not block; when it returns false it gets the same news again later.
//
// The gateway looks at the task as often as its upstream wants: so it needs no
// subscription of its own there, and works for upstreams that tell of nothing.
// The first news is how the task is.
func (r *Router) WatchTask(ctx context.Context, c *call.Call, id string, deliver func(params wire.Raw) bool) bool {
	get := *c
	get.Method = wire.MethodTasksGet
	get.Params = wire.SetMember(wire.Raw(`{}`), "taskId", wire.String(id))
	get.Back = noBackChannel{}
	f := r.newTaskForwarding(&get, r.Routes(), heldTask{id: id, client: c.Client, principal: c.Principal})
	for _, stage := range taskStages[:2] { // open and authorize: the watch is one request
		if _, err := stage.run(f, ctx); err != nil {
			return false
		}
	}
	ref := f.task.ref
	go func() {
		begin := time.Now()
		r.watch(ctx, &get, f.task, deliver)
		if r.audit != nil {
			r.audit.ended(&get, ref.Public, ref.Upstream, call.Result{}, time.Since(begin), nil)
		}
	}()
	return true
}

func (r *Router) watch(ctx context.Context, get *call.Call, t *heldTask, deliver func(wire.Raw) bool) {
	var told wire.Raw
	for {
		routes, part := r.visiblePart(t) // a watch may be open for long: policy is asked again
		if part == nil {
			return
		}
		look := r.newTaskForwarding(get, routes, *t)
		look.resolveTask(part)
		pause := watchPause
		res, err := look.run(ctx, watchStages)
		if err == nil {
			task := bridge.TaskState(res.Raw, t.ref.Form)
			news := asNote(res.Raw)
			delivered := bytes.Equal(news, told) || deliver(news)
			if delivered {
				told = news
			}
			if delivered && task.Ended() {
				return
			}
			pause = task.Pause()
		} else if rpc, ok := errors.AsType[*wire.Error](err); ok && rpc.Raw != nil {
			return // the upstream does not know the task any more
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// watchPause is the time between two looks at a task while its upstream cannot
// be asked.
const watchPause = 5 * time.Second

// asNote returns the result of tasks/get without what only results have.
func asNote(result wire.Raw) wire.Raw {
	e := wire.NewEdit(result)
	e.Remove(e.Root(), "resultType", "_meta")
	return e.Bytes()
}

// noBackChannel is the back channel of requests that no client has made.
type noBackChannel struct{}

func (noBackChannel) Notify(string, wire.Raw) {}

func (noBackChannel) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	return nil, wire.Errorf(wire.CodeInternal, "nobody is there to be asked")
}
