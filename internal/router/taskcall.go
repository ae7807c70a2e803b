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

// callTool sends a tool call. A task that the upstream makes of it goes to a client that
// can carry it; for any other client the gateway waits for its result.
func (f *forwarding) callTool(ctx context.Context, down *call.Call) (call.Result, error) {
	carries := f.withTask(down)
	res, err := f.exchange(ctx, down)
	if f.wantsTask(err) && f.waits() {
		down.Client = bridge.WithTasksExtension(down.Client)
		carries = false
		res, err = f.exchange(ctx, down)
	}
	if err != nil {
		return res, err
	}
	asked := wire.ValueOf(down.Params).Get("task").Exists()
	task, made := bridge.CreatedTask(res, asked)
	switch {
	case !made:
		return res, nil
	case carries && task.Form == f.call.Client.Era():
		return f.announce(res, task)
	case task.Form == wire.EraModern:
		down.Client = bridge.WithTasksExtension(down.Client)
	}
	wait := bridge.NewTaskWait(down, task, f.upstream.Do)
	key := taskKey{f.upstreamName(), f.session(), task.ID}
	f.router.waits.add(key, down, wait)
	defer f.router.waits.remove(key, wait)
	res, err = wait.Run(ctx)
	return f.conclude(ctx, down, res, err)
}

// withTask changes the call to the form that its upstream expects, and reports whether the client
// can carry a task that the upstream makes of it.
//
// A client of 2025-11-25 says with each call whether it wants a task; a modern one declares with
// the extension that it can carry one. In other revisions the member "task" has no meaning, so it
// is not sent to a legacy upstream that knows tasks. A tool that can only be called as a task is
// called as one.
func (f *forwarding) withTask(down *call.Call) (carries bool) {
	client, capabilities := f.call.Client, f.target.Part.Capabilities()
	wants := wire.ValueOf(down.Params).Get("task").Exists()
	if client.Era() == wire.EraModern {
		carries = client.Can("extensions", wire.ExtensionTasks)
	} else {
		carries = wants && client.Revision == wire.Rev20251125
		down.Client = bridge.WithoutTasksExtension(client)
	}
	legacy := runsTasks(capabilities)
	if legacy || extendsToTasks(capabilities) {
		down.Back = &taskBackChannel{down.Back, f.router, f.space(), f.session(), f.call.Principal, nil}
	}
	if !legacy {
		return carries
	}
	if wants && client.Revision != wire.Rev20251125 {
		e := wire.NewEdit(down.Params)
		e.Remove(e.Root(), "task")
		down.Params, wants = e.Bytes(), false
	}
	if !wants && f.target.Entry != nil && wire.ValueOf(f.target.Entry.Raw).Get("execution", "taskSupport").IsString("required") {
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

// wantsTask reports whether the upstream serves the call only to clients that declare the tasks
// extension, and this client did not.
func (f *forwarding) wantsTask(err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	return ok && bridge.RequiresTasksExtension(rpc) &&
		(f.call.Client.Era() != wire.EraModern || !f.call.Client.Can("extensions", wire.ExtensionTasks))
}

// waits reports whether the gateway waits for a task in the place of a client that did not declare
// the extension. A legacy client cannot declare it. A modern client can, and the error tells it to;
// but a modern client that asks for progress expects a long call, and sees the progress.
func (f *forwarding) waits() bool {
	return f.call.Client.Era() != wire.EraModern ||
		wire.ValueOf(f.call.Params).Get("_meta", wire.MetaProgressToken).Exists()
}

// announce returns a result that announces a task under an id of this principal, and registers the
// task.
func (f *forwarding) announce(res call.Result, task bridge.Task) (call.Result, error) {
	ref := bridge.TaskRef{
		Upstream: f.upstreamName(), Session: f.session(), Native: task.ID, Form: task.Form, Tool: f.target.Native, Public: f.target.OrdinaryName(),
		Replica: f.router.replica(),
	}
	id := f.router.sealer.SealTask(ref, f.call.Principal)
	if id == "" {
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream began a task whose id is empty or too long")
	}
	f.addTask(knownTask{ref: ref, id: id, client: f.call.Client, principal: f.call.Principal,
		token: slices.Clone(wire.ValueOf(f.call.Params).Get("_meta", wire.MetaProgressToken).Raw())}, task.TTL())
	res.Raw = f.space().TaskIDs(res.Raw, f.router.taskIDs(ref.Upstream, f.session(), f.call.Principal))
	return res, nil
}

// taskIDs maps the ids of an upstream's tasks, in one session, to the public ids of this
// principal.
func (r *Router) taskIDs(upstream, session string, who *call.Principal) namespace.TaskIDs {
	return func(native string) string {
		if t, ok := r.tasks.find(taskKey{upstream, session, native}); ok && t.principal.Same(who) {
			return t.id
		}
		return ""
	}
}
