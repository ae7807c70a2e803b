package upstream

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// addressee returns the call that a message belongs to which came in no call's
// stream, nil for none that is certain: what belongs to one client must never be
// shown to another.
//
// A message that says which task it is for goes to who waits for that task or
// holds it (2025-11-25, basic/utilities/tasks, "Related Task Metadata"). Else it
// is that of the calls in flight, see [PendingCalls.owner] and [PendingCalls.hearer], and a question that none
// of them explains goes to whom the session stands for.
func (o *Options) addressee(t *PendingCalls, m wire.Message) *call.Call {
	if task, ok := taskOf(m.Params); ok {
		if c := t.waitingFor(task); c != nil {
			return c
		}
		if o.Outside != nil {
			if c := o.Outside.Task(o.origin(), task); c != nil {
				return c
			}
		}
	}
	if !m.IsRequest() {
		return t.hearer(m.Method, m.Params)
	}
	c := t.owner()
	if o.persona != nil {
		c = o.persona.host(m.Method, c)
	}
	if c == nil {
		o.unowned(t, m.Method)
	}
	return c
}

// progress passes a progress notification to the client whose call it belongs to.
// A task goes on after its call has been answered, and so does its progress, under
// the token of that call (2025-11-25, basic/utilities/tasks, "Task Progress
// Notifications").
func (o *Options) progress(t *PendingCalls, params wire.Raw) {
	task, ok := taskOf(params)
	if t.progress(params) || !ok || o.Outside == nil {
		return
	}
	c := o.Outside.Task(o.origin(), task)
	if c == nil {
		return
	}
	if own := wire.ValueOf(c.Params).Get("_meta", wire.MetaProgressToken); own.Exists() {
		notifyProgress(c, params, wire.ValueOf(params).Get(wire.MetaProgressToken), own.Raw())
	}
}

// taskOf returns the id of the task that a message says it belongs to.
func taskOf(params wire.Raw) (id string, ok bool) {
	return wire.ValueOf(params).Get("_meta", wire.MetaRelatedTask, "taskId").Text()
}
