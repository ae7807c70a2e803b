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
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// errNoTask is all that a client learns of a task id that is refused: one that
// nobody has, that another principal has, or that was changed on the way.
var errNoTask = wire.Errorf(wire.CodeInvalidParams, "unknown task: it was not begun by this principal, or is gone")

// task answers a request about tasks.
func (r *Router) task(ctx context.Context, c *call.Call, n *noted) (call.Result, string, error) {
	if fault := knowsTasks(c, r.Routes().view(c.Principal, c.Client)); fault != nil {
		return call.Result{}, "", fault
	}
	if c.Method == wire.MethodTasksList {
		res, err := r.taskList(ctx, c)
		return res, "", err
	}
	place := wire.ValueOf(c.Params).Get("taskId")
	id, ok := place.Text()
	if !ok {
		return call.Result{}, "", wire.Errorf(wire.CodeInvalidParams, "%s: params.taskId must be a string", c.Method)
	}
	ref, part, err := r.openTask(c, id, n)
	if err != nil {
		return call.Result{}, "", err
	}
	e := wire.NewEdit(c.Params)
	e.ReplaceString(place, ref.Native)
	res, err := r.askTask(ctx, c, part, heldTask{ref: ref, id: id}, e.Bytes())
	return res, ref.Upstream, err
}

// knowsTasks returns why the client cannot make such a request, nil when it can.
// The two forms of tasks have methods of their own beside the common ones. Where
// no upstream begins tasks there are no such methods, as with a server that does
// not know the extension.
func knowsTasks(c *call.Call, view *catalog.View) *wire.Error {
	modern := c.Client.Era() == wire.EraModern
	switch {
	case !wire.MethodOf(c.Method).KnownTo(c.Client.Revision):
		return wire.Errorf(wire.CodeMethodNotFound, "method %s is not known to revision %s", c.Method, c.Client.Revision)
	case !beginsTasks(view, c.Client.Era()):
		return wire.Errorf(wire.CodeMethodNotFound, "method %s is not known here: no upstream begins tasks", c.Method)
	case modern && !c.Client.Can("extensions", wire.ExtensionTasks):
		return missing(wire.Raw(`{"extensions":{"` + wire.ExtensionTasks + `":{}}}`))
	}
	return nil
}

// openTask returns what a public task id stands for, and the upstream that has
// the task, if this caller may ask for it now. The error is what the caller gets;
// the log says more.
func (r *Router) openTask(c *call.Call, id string, n *noted) (bridge.TaskRef, *catalog.Part, error) {
	ref, err := r.sealer.OpenTask(id, c.Principal)
	var part *catalog.Part
	if err == nil {
		routes := r.Routes()
		view := routes.view(c.Principal, c.Client)
		part = view.Part(ref.Upstream)
		switch {
		case ref.Form != c.Client.Era():
			err = errors.New("the task was begun in the other era")
		case part == nil:
			err = errors.New("the upstream is not there any more")
		default:
			it := auditedItem{call.Tool, ref.Public, ref.Upstream, ref.Tool, true}
			d, unaudited := r.decide(auditDecision, c, it, view.Judge(call.Tool, part, ref.Public, ref.Tool), n)
			if unaudited != nil {
				return ref, nil, unaudited
			}
			if d.Effect == policy.Deny {
				err = errors.New("the tool that began the task is refused")
			}
		}
	}
	if err != nil {
		r.ratelog.Warn("task id refused", zap.String("request", c.ID), zap.String("principal", c.Principal.Subject),
			zap.String("method", c.Method), zap.NamedError("reason", err))
		return ref, nil, errNoTask
	}
	return ref, part, nil
}

// askTask sends a request about one task, with the params that the upstream
// shall see, and returns what the client gets.
func (r *Router) askTask(ctx context.Context, c *call.Call, part *catalog.Part, t heldTask, params wire.Raw) (call.Result, error) {
	space := part.Space()
	down := c.With(params)
	down.Session = t.ref.Session
	down.Back = &taskBack{&backChannel{r, c.Back, part, t.ref.Session, c.Principal, c.Client, nil}, r, space, t.ref.Session, c.Principal}
	to := r.Routes().Upstreams[t.ref.Upstream]
	if to == nil { // since the task was opened
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream of the task is not configured any more")
	}
	do := to.Do
	if c.Method == wire.MethodTasksResult {
		do = bridge.Patient(do)
	}
	res, err := do(ctx, down)
	if err != nil {
		var rpc *wire.Error
		if errors.As(err, &rpc) {
			if rpc.Raw != nil && rpc.Code == wire.CodeInvalidParams && c.Method == wire.MethodTasksGet {
				r.tasks.drop(keyOf(t.ref))
			}
			err = r.cleanError(part, space.Error(r.shownURLs(part, t.ref.Session, c.Client, rpc), namespace.Asked{}))
		}
		return call.Result{}, err
	}
	if res.Raw, err = r.showTask(c, part, t, res.Raw); err != nil {
		return call.Result{}, err
	}
	if res.Raw, err = r.conformTask(c, part, t, res); err != nil {
		return call.Result{}, err
	}
	raw, tally := downlevel.Result(c.Client.Revision, c.Method, r.enrichTask(c.Method, r.cleanResult(part, res.Raw)))
	r.metrics.lowered(tally)
	res.Raw = raw
	return res, nil
}

// showTask returns what an upstream says of a task under public names and ids.
func (r *Router) showTask(c *call.Call, part *catalog.Part, t heldTask, message wire.Raw) (wire.Raw, error) {
	others := r.taskIDs(t.ref.Upstream, t.ref.Session, c.Principal)
	message = part.Space().Task(message, func(native string) string {
		if native == t.ref.Native {
			return t.id
		}
		return others(native)
	})
	e := wire.NewEdit(message)
	uncounted := func(_, _ string) {} // the client looks at the same questions again and again
	for m := range e.Root().Members() {
		if !m.Is("inputRequests") {
			continue
		}
		if fault := r.showQuestions(e, m.Value, part, t.ref.Session, c.Client, uncounted); fault != nil {
			return nil, fault
		}
	}
	return e.Bytes(), nil
}

// taskPage is how many tasks one page of tasks/list has.
const taskPage = 50

// taskList lists the tasks that this principal began through this gateway and
// that can still be asked for. Upstreams are not asked for their own lists: those
// hold everybody's tasks.
func (r *Router) taskList(ctx context.Context, c *call.Call) (call.Result, error) {
	var after int64
	if cursor := wire.ValueOf(c.Params).Get("cursor"); cursor.Exists() && cursor.Kind() != 'n' {
		var err error
		if after, err = strconv.ParseInt(cursor.Str(), 10, 64); err != nil {
			return call.Result{}, wire.Errorf(wire.CodeInvalidParams, "invalid params: cursor must be the nextCursor of the page before")
		}
	}
	own := r.tasks.of(c.Principal.Key(), after)
	page := own[:min(taskPage, len(own))]
	out := []byte(`{"tasks":[`)
	first := true
	silent := make(map[taskKey]bool) // sessions of upstreams that could not be asked: each is waited for once
	for _, t := range page {
		session := taskKey{t.ref.Upstream, t.ref.Session, ""}
		if silent[session] {
			continue
		}
		raw, err := r.listed(ctx, c, t)
		own, _ := errors.AsType[*wire.Error](err)
		switch {
		case ctx.Err() != nil:
			return call.Result{}, ctx.Err()
		case errors.Is(err, errUnaudited):
			return call.Result{}, err
		case err != nil: // it is not for this caller any more, or gone
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

// listed returns a task as tasks/list has it. The error is that of tasks/get.
func (r *Router) listed(ctx context.Context, c *call.Call, t heldTask) (wire.Raw, error) {
	_, part, err := r.openTask(c, t.id, nil)
	if err != nil {
		return nil, err
	}
	get := *c
	get.Method = wire.MethodTasksGet
	res, err := r.askTask(ctx, &get, part, t, wire.SetMember(wire.Raw(`{}`), "taskId", wire.String(t.ref.Native)))
	if err != nil {
		return nil, err
	}
	return bridge.Unrelated(res.Raw), nil
}

// TaskStatus takes an upstream's notifications/tasks/status that belongs to no
// call, in the session with this name. Where the gateway waits for the task it goes
// there. Else TaskStatus returns the key of the client that began the task and the
// params under its own id, and false when it is for nobody.
func (r *Router) TaskStatus(upstream, session string, params wire.Raw) (client string, own wire.Raw, ok bool) {
	key := taskKey{upstream, session, wire.ValueOf(params).Get("taskId").Str()}
	t, ok := r.tasks.find(key)
	if !ok {
		r.waits.tell(key, params)
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
	part := r.partOf(&t)
	if part == nil {
		return "", nil, false
	}
	return t.client.Key, part.Space().Task(params, ids), true
}

// partOf returns the part of the table that a task is of, nil when its client may
// not see the task's tool any more.
func (r *Router) partOf(t *heldTask) *catalog.Part {
	view := r.Routes().view(t.principal, t.client)
	part := view.Part(t.ref.Upstream)
	if part == nil || !view.Judge(call.Tool, part, t.ref.Public, t.ref.Tool).Listed().Visible() {
		return nil
	}
	return part
}

// TaskOwner returns a stand-in for a call of whoever waits for an upstream's task,
// in the session with this name, or holds it, nil when that is nobody. outside
// gives the back channel that leads to a client between its calls.
func (r *Router) TaskOwner(upstream, session, native string, outside func(*call.Client) call.BackChannel) *call.Call {
	key := taskKey{upstream, session, native}
	if c := r.waits.find(key); c != nil {
		return c
	}
	t, ok := r.tasks.find(key)
	if !ok || t.ref.Form != wire.EraLegacy {
		return nil
	}
	part := r.partOf(&t)
	if part == nil {
		return nil
	}
	space := part.Space()
	to := outside(t.client)
	return &call.Call{
		Params: tokenParams(t.token),
		Client: t.client, Principal: t.principal, Session: session,
		Back: &taskBack{&backChannel{r, to, part, session, t.principal, t.client, nil}, r, space, session, t.principal},
	}
}

// declareTasks adds to the capabilities what the client can have of tasks. A
// legacy client is told of them also while an upstream is not known yet: it
// cannot be told later, and learns from each tool whether it can be run as one.
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

// beginsTasks reports whether an upstream in the view begins tasks that clients
// of an era can carry. One that has not been seen yet may do so.
func beginsTasks(view *catalog.View, era wire.Era) bool {
	return slices.ContainsFunc(view.Parts(), func(p *catalog.Part) bool {
		c := p.Capabilities()
		return c == nil || era == wire.EraLegacy && runsTasks(c) || era == wire.EraModern && extendsToTasks(c)
	})
}
