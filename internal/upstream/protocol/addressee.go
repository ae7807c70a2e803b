package protocol

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Addressee returns the call that a message of the server belongs to which came on no
// call's stream. It returns nil if that is not certain: content for one client must never
// be shown to another.
//
// A message that names a task belongs to the call that waits for the task or holds it
// (2025-11-25, basic/utilities/tasks, "Related Task Metadata"). Any other notification
// belongs to the call that [PendingCalls.NotificationOwner] returns, and any other request
// to the call that the session's owner chooses.
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
		c.logRefused(t, m.Method)
	}
	return to
}

// Progress passes a progress notification to the client whose call it belongs to. A task
// reports progress after its call has ended too, with the token of that call (2025-11-25,
// basic/utilities/tasks, "Task Progress Notifications").
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

// taskOf returns the id of the task that the params of a message name.
func taskOf(params wire.Raw) (id string, ok bool) {
	return wire.ValueOf(params).Get("_meta", wire.MetaRelatedTask, "taskId").Text()
}
