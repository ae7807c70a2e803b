package router

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// errNoTask is the answer to every task id that is refused: one that does not exist, belongs to
// another principal, or was changed.
var errNoTask = wire.Errorf(wire.CodeInvalidParams, "unknown task: it was not begun by this principal, or is gone")

// aboutTask answers a request about tasks.
func (r *Router) aboutTask(ctx context.Context, c *call.Call) (call.Result, logFields, error) {
	routes := r.Routes()
	if refusal := knowsTasks(c, routes.view(c.Principal, c.Client)); refusal != nil {
		return call.Result{}, logFields{}, refusal
	}
	if wire.MethodOf(c.Method).Member == "" {
		res, err := r.taskList(ctx, c, routes)
		return res, logFields{}, err
	}
	id, ok := wire.ValueOf(c.Params).Get("taskId").Text()
	if !ok {
		return call.Result{}, logFields{}, wire.Errorf(wire.CodeInvalidParams, "%s: params.taskId must be a string", c.Method)
	}
	f := r.newTaskForwarding(c, routes, knownTask{id: id, principal: c.Principal})
	res, err := f.run(ctx, taskStages)
	return res, f.log, err
}

// newTaskForwarding returns the forwarding of a request about one task.
func (r *Router) newTaskForwarding(c *call.Call, routes *Routes, t knownTask) *forwarding {
	f := r.newForwarding(c)
	f.routes, f.task = routes, &t
	f.view = routes.view(c.Principal, c.Client)
	return f
}

// knowsTasks returns why the client cannot make a request about tasks, nil if it can. Each of the
// two forms of tasks has methods that the other lacks. If no upstream begins tasks the methods do
// not exist, as at a server that does not know the extension.
func knowsTasks(c *call.Call, view *catalog.View) *wire.Error {
	modern := c.Client.Era() == wire.EraModern
	switch {
	case !wire.MethodOf(c.Method).KnownTo(c.Client.Revision):
		return wire.Errorf(wire.CodeMethodNotFound, "method %s is not known to revision %s", c.Method, c.Client.Revision)
	case !beginsTasks(view, c.Client.Era()):
		return wire.Errorf(wire.CodeMethodNotFound, "method %s is not known here: no upstream begins tasks", c.Method)
	case modern && !c.Client.Can("extensions", wire.ExtensionTasks):
		return missingCapability(wire.Raw(`{"extensions":{"` + wire.ExtensionTasks + `":{}}}`))
	}
	return nil
}

// openTask resolves the public task id. The error is the one that the caller gets; the log says
// more.
func (f *forwarding) openTask(context.Context) (bool, error) {
	ref, err := f.router.sealer.OpenTask(f.task.id, f.call.Principal)
	if err != nil {
		return false, f.refuseTask(err)
	}
	f.task.ref = ref
	part := f.view.Part(ref.Upstream)
	switch {
	case ref.Form != f.call.Client.Era():
		return false, f.refuseTask(errors.New("the task was begun in the other era"))
	case part == nil:
		return false, f.refuseTask(errors.New("the upstream no longer exists"))
	}
	f.resolveTask(part)
	return false, nil
}

// resolveTask makes the tool that began the task the target.
func (f *forwarding) resolveTask(part *catalog.Part) {
	ref := &f.task.ref
	f.target = f.view.TargetFor(call.Tool, part, ref.Public, ref.Tool)
	f.log.upstream = ref.Upstream
	f.upstream = f.routes.Upstreams[ref.Upstream]
}

// refuseTask logs why a task id is refused, and returns the error for the caller.
func (f *forwarding) refuseTask(reason error) error {
	f.log.reason = reason.Error()
	f.router.ratelog.Warn("task id refused", zap.String("request", f.call.ID), zap.String("principal", f.call.Principal.Subject), ratelog.Profile(f.call.Principal.Profile),
		zap.String("method", f.call.Method), zap.NamedError("reason", reason))
	return errNoTask
}

// rewriteTaskRequest puts the upstream's own id in the place of the public one.
func (f *forwarding) rewriteTaskRequest(context.Context) (bool, error) {
	e := wire.NewEdit(f.call.Params)
	e.ReplaceString(e.Root().Get("taskId"), f.task.ref.Native)
	f.down = f.call.With(e.Bytes())
	return false, nil
}

// sendTaskRequest sends the request to the upstream that has the task.
func (f *forwarding) sendTaskRequest(ctx context.Context) (bool, error) {
	session := f.task.ref.Session
	f.down.Session = session
	f.down.Back = &taskBackChannel{f.openBackChannel(session), f.router, f.space(), session, f.call.Principal, f.task}
	do := f.doTask()
	if f.method.Shape == wire.ShapeToolResult {
		do = bridge.RetryTaskResult(do)
	}
	f.sent = true
	var err error
	f.result, err = do(ctx, f.down)
	if f.method.Shape == wire.ShapeTask && IsUnknownTask(err) {
		f.dropTask()
	}
	return false, err
}

// taskPage is how many tasks one page of tasks/list has.
const taskPage = 50

// taskList lists the tasks that this principal began through this gateway and that its upstreams
// still know. It does not ask upstreams for their lists, which have the tasks of all principals.
func (r *Router) taskList(ctx context.Context, c *call.Call, routes *Routes) (call.Result, error) {
	var after int64
	if cursor := wire.ValueOf(c.Params).Get("cursor"); cursor.Exists() && cursor.Kind() != 'n' {
		var err error
		if after, err = strconv.ParseInt(cursor.Str(), 10, 64); err != nil {
			return call.Result{}, wire.Errorf(wire.CodeInvalidParams, "invalid params: cursor must be the nextCursor of the page before")
		}
	}
	own, err := r.tasksOf(ctx, c, after)
	if err != nil {
		return call.Result{}, err
	}
	page := pageOf(own)
	out := []byte(`{"tasks":[`)
	first := true
	silent := make(map[taskKey]bool) // sessions of upstreams that could not be asked: each is waited for once
	for _, t := range page {
		session := taskKey{t.ref.Upstream, t.ref.Session, t.ref.Replica}
		if silent[session] {
			continue
		}
		raw, err := r.listedTask(ctx, c, routes, t)
		own, _ := errors.AsType[*wire.Error](err)
		switch {
		case ctx.Err() != nil:
			return call.Result{}, ctx.Err()
		case errors.Is(err, errUnaudited):
			return call.Result{}, err
		case err != nil: // the caller may no longer see it, or it is gone
			silent[session] = own != nil && own.Raw == nil && own.Code == wire.CodeInternal
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(out, raw...)
	}
	out = append(out, ']')
	if len(page) < len(own) {
		last := page[len(page)-1].seq
		out = wire.AppendString(append(out, `,"nextCursor":`...), strconv.FormatInt(last, 10))
	}
	return call.Result{Raw: append(out, '}')}, nil
}

// listedTask returns a task as tasks/list has it. The error is that of tasks/get.
func (r *Router) listedTask(ctx context.Context, c *call.Call, routes *Routes, t knownTask) (wire.Raw, error) {
	get := c.With(wire.SetMember(wire.Raw(`{}`), "taskId", wire.String(t.id)))
	get.Method = wire.MethodTasksGet
	res, err := r.newTaskForwarding(get, routes, t).run(ctx, taskStages)
	if err != nil {
		return nil, err
	}
	return bridge.WithoutRelatedTask(res.Raw), nil
}

// TaskStatus takes an upstream's notifications/tasks/status that belongs to no call, in the session
// with this name. If a call waits for the task, it gets the notification. Otherwise TaskStatus
// returns the key of the client that began the task and the params under its public id, and false
// if no client did.
func (r *Router) TaskStatus(upstream, session string, params wire.Raw) (client string, own wire.Raw, ok bool) {
	key := taskKey{upstream, session, wire.ValueOf(params).Get("taskId").Str()}
	t, ok := r.tasks.find(key)
	if !ok {
		r.waits.notify(key, params)
		return "", nil, false
	}
	if t.ref.Form != wire.EraLegacy {
		return "", nil, false
	}
	ids := func(native string) string {
		if native == t.ref.Native {
			return t.id
		}
		return ""
	}
	_, part := r.visiblePart(&t)
	if part == nil {
		return "", nil, false
	}
	return t.client.Key, part.Naming().Task(params, ids), true
}

// visiblePart returns the part of the current table that a task belongs to, and the routes. The part
// is nil if the task's client may no longer see its tool.
func (r *Router) visiblePart(t *knownTask) (*Routes, *catalog.Part) {
	routes := r.Routes()
	view := routes.view(r.latest(t.principal), t.client)
	part := view.Part(t.ref.Upstream)
	if part == nil || !view.PolicyFor(call.Tool, part, t.ref.Public, t.ref.Tool).Listed().Visible() {
		return routes, nil
	}
	return routes, part
}

// TaskCall returns a stand-in for the call that waits for an upstream's task, in the session with
// this name, or else for the client that began the task, nil for neither. outside returns the back
// channel to a client between its calls.
func (r *Router) TaskCall(upstream, session, native string, outside func(*call.Client) call.BackChannel) *call.Call {
	key := taskKey{upstream, session, native}
	if c := r.waits.find(key); c != nil {
		return c
	}
	t, ok := r.tasks.find(key)
	if !ok || t.ref.Form != wire.EraLegacy {
		return nil
	}
	routes, part := r.visiblePart(&t)
	if part == nil {
		return nil
	}
	back := &backChannel{asker: asker{r, routes, part, session, t.client}, to: outside(t.client), principal: t.principal}
	return &call.Call{
		Params: tokenParams(t.token),
		Client: t.client, Principal: t.principal, Session: session,
		Back: &taskBackChannel{back, r, part.Naming(), session, t.principal, nil},
	}
}

// declareTasks adds the support of tasks to the capabilities. For a legacy client it does so also
// while an upstream is not known yet, because the client cannot be notified later, and sees from each
// tool whether it can be run as a task.
func declareTasks(c *call.Call, view *catalog.View, capabilities wire.Raw) wire.Raw {
	if c.Client.Era() == wire.EraModern {
		return capabilities // the extension is among those that upstreams declare
	}
	if extensions := wire.ValueOf(capabilities).Get("extensions"); extensions.Get(wire.ExtensionTasks).Exists() {
		e := wire.NewEdit(capabilities)
		e.Remove(extensions, wire.ExtensionTasks) // legacy revisions do not know it
		capabilities = e.Bytes()
	}
	if c.Client.Revision != wire.Rev20251125 {
		return capabilities
	}
	if beginsTasks(view, wire.EraLegacy) {
		return wire.SetMember(capabilities, "tasks", wire.Raw(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`))
	}
	return capabilities
}

// beginsTasks reports whether an upstream in the view begins tasks that clients of an era can carry.
// An upstream that was never connected may do so.
func beginsTasks(view *catalog.View, era wire.Era) bool {
	return slices.ContainsFunc(view.Parts(), func(p *catalog.Part) bool {
		c := p.Capabilities()
		return c == nil || era == wire.EraLegacy && runsTasks(c) || era == wire.EraModern && extendsToTasks(c)
	})
}
