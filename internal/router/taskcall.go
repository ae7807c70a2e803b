package router

import (
	"context"
	"errors"
	"slices"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// send sends the call, with native names, and concludes what comes back. The call
// is send's own: it says to the upstream what the client would have said. A task
// that the upstream makes of it goes to a client that can carry it; for any
// other client its result is waited for.
func (j *journey) send(ctx context.Context, down *call.Call) (call.Result, error) {
	if j.c.Method != wire.MethodToolsCall {
		return j.once(ctx, down)
	}
	carries := j.withTask(down)
	res, err := j.once(ctx, down)
	if j.insists(err) && j.waits() {
		down.Client = bridge.WithTasks(down.Client)
		carries = false
		res, err = j.once(ctx, down)
	}
	if err != nil {
		return res, err
	}
	asked := wire.ValueOf(down.Params).Get("task").Exists()
	task, made := bridge.CreatedTask(res, asked)
	switch {
	case !made:
		return res, nil
	case carries && task.Form == j.c.Client.Era():
		return j.announce(res, task)
	case task.Form == wire.EraModern:
		down.Client = bridge.WithTasks(down.Client)
	}
	wait := bridge.NewTaskWait(down, task, j.to.Do)
	key := taskKey{j.space.Upstream(), j.session, task.ID}
	j.r.waits.add(key, down, wait)
	defer j.r.waits.remove(key, wait)
	res, err = wait.Run(ctx)
	return j.conclude(ctx, down, res, err)
}

func (j *journey) once(ctx context.Context, down *call.Call) (call.Result, error) {
	res, err := j.to.Do(ctx, down)
	j.r.metrics.crossed(j.c.Client.Era(), res.Revision.Era())
	return j.conclude(ctx, down, res, err)
}

// withTask makes the call one as its upstream shall see it, and reports whether
// the client can carry a task that comes of it.
//
// A client of 2025-11-25 says with each call whether it wants a task; a modern
// one says with the extension that it can carry one. Before or after 2025-11-25
// the member "task" means nothing, so a legacy upstream that knows tasks does not
// get it. A tool that can only be called as a task is called as one.
func (j *journey) withTask(down *call.Call) (carries bool) {
	client, capabilities := j.c.Client, j.target.Part.Capabilities()
	wants := wire.ValueOf(down.Params).Get("task").Exists()
	if client.Era() == wire.EraModern {
		carries = client.Can("extensions", wire.ExtensionTasks)
	} else {
		carries = wants && client.Revision == wire.Rev20251125
		down.Client = bridge.WithoutTasks(client)
	}
	legacy := runsTasks(capabilities)
	if legacy || extendsToTasks(capabilities) {
		down.Back = &taskBack{down.Back, j.r, j.space, j.session, j.c.Principal}
	}
	if !legacy {
		return carries
	}
	if wants && client.Revision != wire.Rev20251125 {
		e := wire.NewEdit(down.Params)
		e.Remove(e.Root(), "task")
		down.Params, wants = e.Bytes(), false
	}
	if !wants && j.target.Entry != nil && wire.ValueOf(j.target.Entry.Raw).Get("execution", "taskSupport").IsString("required") {
		down.Params, carries = bridge.AsTask(down.Params), false
	}
	return carries
}

// runsTasks reports whether a legacy upstream runs tool calls as tasks
// (2025-11-25, basic/utilities/tasks, "Server Capabilities").
func runsTasks(capabilities wire.Raw) bool {
	return wire.ValueOf(capabilities).Get("tasks", "requests", "tools", "call").Kind() == '{'
}

// extendsToTasks reports whether a modern upstream declares the tasks extension.
func extendsToTasks(capabilities wire.Raw) bool {
	return wire.ValueOf(capabilities).Get("extensions", wire.ExtensionTasks).Exists()
}

// insists reports whether the upstream serves the call only to clients that
// declare the tasks extension, which this one did not.
func (j *journey) insists(err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	return ok && bridge.WantsTasks(rpc) &&
		(j.c.Client.Era() != wire.EraModern || !j.c.Client.Can("extensions", wire.ExtensionTasks))
}

// waits reports whether the gateway carries a task for a client that did not
// declare the extension. A legacy client cannot declare it. A modern one can, and
// learns from the error that it has to; but one that asks for progress is ready
// for a call that takes its time, and sees that it is alive.
func (j *journey) waits() bool {
	return j.c.Client.Era() != wire.EraModern ||
		wire.ValueOf(j.c.Params).Get("_meta", wire.MetaProgressToken).Exists()
}

// announce returns a result that announces a task under an id of this
// principal's own, and remembers the task.
func (j *journey) announce(res call.Result, task bridge.Task) (call.Result, error) {
	ref := bridge.TaskRef{
		Upstream: j.space.Upstream(), Session: j.session, Native: task.ID, Form: task.Form, Tool: j.target.Native, Public: j.target.Public,
	}
	id := j.r.sealer.SealTask(ref, j.c.Principal)
	if id == "" {
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream began a task whose id is empty or too long")
	}
	j.r.tasks.add(heldTask{ref: ref, id: id, who: j.c.Principal.Key(), client: j.c.Client, principal: j.c.Principal,
		token: slices.Clone(wire.ValueOf(j.c.Params).Get("_meta", wire.MetaProgressToken).Raw())})
	res.Raw = j.space.TaskIDs(res.Raw, j.r.taskIDs(ref.Upstream, j.session, j.c.Principal))
	return res, nil
}

// taskIDs gives the public ids of an upstream's tasks, in one session, that are
// this principal's.
func (r *Router) taskIDs(upstream, session string, who *call.Principal) namespace.TaskIDs {
	return func(native string) string {
		if t, ok := r.tasks.find(taskKey{upstream, session, native}); ok && t.who == who.Key() {
			return t.id
		}
		return ""
	}
}

// taskBack is a back channel for what upstreams say of tasks: ids become those
// that the client knows, and what is of tasks that it does not know is left out.
type taskBack struct {
	to      call.BackChannel
	r       *Router
	space   *namespace.Space
	session string
	who     *call.Principal
}

func (b *taskBack) Notify(method string, params wire.Raw) {
	ids := b.r.taskIDs(b.space.Upstream(), b.session, b.who)
	if m := wire.MethodOf(method); m.Kind != wire.KindTaskStatus {
		params = b.related(params)
	} else {
		if ids(wire.ValueOf(params).Get(m.Member).Str()) == "" {
			return
		}
		params = b.space.Task(params, ids)
	}
	b.to.Notify(method, params)
}

// Ask puts a question to the client. The answer says which task it is for, as
// the question did (2025-11-25, basic/utilities/tasks, "Associating Task-Related
// Messages").
func (b *taskBack) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	related := bridge.Related(params)
	if !related.Exists() {
		return b.to.Ask(ctx, method, params)
	}
	answer, err := b.to.Ask(ctx, method, b.related(params))
	if err != nil {
		return nil, err
	}
	return bridge.Relate(answer, related.Raw()), nil
}

// related returns a message with the id that the client knows of the task that
// it belongs to, or without that task if the client knows none.
func (b *taskBack) related(params wire.Raw) wire.Raw {
	task := bridge.Related(params)
	if !task.Exists() {
		return params
	}
	ids := b.r.taskIDs(b.space.Upstream(), b.session, b.who)
	if ids(task.Get("taskId").Str()) == "" {
		return bridge.Unrelated(params)
	}
	return b.space.TaskIDs(params, ids)
}
