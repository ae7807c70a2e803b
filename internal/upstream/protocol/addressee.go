package protocol

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Addressee returns the call that a message belongs to which came in no call's
// stream, nil for none that is certain: what belongs to one client must never be
// shown to another.
//
// A message that says which task it is for goes to who waits for that task or
// holds it (2025-11-25, basic/utilities/tasks, "Related Task Metadata"). Else it
// is that of the calls in flight, see [PendingCalls.owner] and [PendingCalls.hearer], and a question that none
// of them explains goes to whom the session stands for.
func (c *Config) Addressee(t *PendingCalls, m wire.Message) *call.Call {
	if task, ok := taskOf(m.Params); ok {
		if waiting := t.waitingFor(task); waiting != nil {
			return waiting
		}
		if began := c.Owner.Task(task); began != nil {
			return began
		}
	}
	if !m.IsRequest() {
		return t.NotificationOwner(m.Method, m.Params)
	}
	to := c.Owner.Addressee(m.Method, t.Owner())
	if to == nil {
		c.unowned(t, m.Method)
	}
	return to
}

// Progress passes a progress notification to the client whose call it belongs to.
// A task goes on after its call has been answered, and so does its progress, under
// the token of that call (2025-11-25, basic/utilities/tasks, "Task Progress
// Notifications").
func (c *Config) Progress(t *PendingCalls, params wire.Raw) {
	task, ok := taskOf(params)
	if t.Progress(params) || !ok {
		return
	}
	began := c.Owner.Task(task)
	if began == nil {
		return
	}
	if own := wire.ValueOf(began.Params).Get("_meta", wire.MetaProgressToken); own.Exists() {
		notifyProgress(began, params, wire.ValueOf(params).Get(wire.MetaProgressToken), own.Raw())
	}
}

// taskOf returns the id of the task that a message says it belongs to.
func taskOf(params wire.Raw) (id string, ok bool) {
	return wire.ValueOf(params).Get("_meta", wire.MetaRelatedTask, "taskId").Text()
}
