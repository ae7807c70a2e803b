package bridge

import (
	"strconv"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Task is what an upstream says of a task, in the form of 2025-11-25
// (basic/utilities/tasks) or of the extension of 2026-07-28.
type Task struct {
	// Form is the era whose form it has.
	Form    wire.Era
	ID      string
	Status  string
	Message string        // statusMessage
	Poll    time.Duration // the interval that the upstream wants, 0 when it names none
	// Body is the object that holds all of this.
	Body wire.Value
}

// The statuses of a task, which both forms have.
const (
	taskInput     = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// Ended reports whether the status is final.
func (t *Task) Ended() bool {
	return t.Status == taskCompleted || t.Status == taskFailed || t.Status == taskCancelled
}

// CreatedTask returns the task that a result announces in the place of the
// result that was asked for, and whether it does. asked says that the request
// asked for a task in the way of 2025-11-25; without that, a member "task" of a
// result is none of ours.
func CreatedTask(res call.Result, asked bool) (Task, bool) {
	root := wire.ValueOf(res.Raw)
	switch {
	case res.Revision.Era() == wire.EraModern && isTask(root):
		return readTask(root, wire.EraModern), true
	case res.Revision.Era() == wire.EraLegacy && asked && root.Get("task").Kind() == '{':
		return readTask(root.Get("task"), wire.EraLegacy), true
	}
	return Task{}, false
}

// isTask reports whether a result says that it is a task. Where the member
// stands twice one such value is enough, as in [IsInputRequired].
func isTask(result wire.Value) bool {
	for m := range result.Members() {
		if m.Is("resultType") && m.Value.IsString("task") {
			return true
		}
	}
	return false
}

// TaskState returns the task that the result of tasks/get tells of.
func TaskState(result wire.Raw, form wire.Era) Task { return readTask(wire.ValueOf(result), form) }

func readTask(v wire.Value, form wire.Era) Task {
	poll := "pollIntervalMs"
	if form == wire.EraLegacy {
		poll = "pollInterval"
	}
	t := Task{Form: form, ID: v.Get("taskId").Str(), Status: v.Get("status").Str(), Message: v.Get("statusMessage").Str(), Body: v}
	if ms, ok := v.Get(poll).Int(); ok && ms > 0 {
		t.Poll = time.Duration(min(ms, longestPoll.Milliseconds())) * time.Millisecond
	}
	return t
}

// AsTask returns the params of a request so that a 2025-11-25 upstream runs it
// as a task, which it keeps for at least as long as [TaskWait] may wait.
func AsTask(params wire.Raw) wire.Raw {
	ttl := strconv.FormatInt(longestTask.Milliseconds(), 10)
	return wire.SetMember(params, "task", wire.Raw(`{"ttl":`+ttl+`}`))
}

// WithTasks returns the client as one that declared the tasks extension.
func WithTasks(c *call.Client) *call.Client {
	if c.Can("extensions", wire.ExtensionTasks) {
		return c
	}
	declared := wire.Raw(`{}`)
	if wire.ValueOf(c.Capabilities).Kind() == '{' {
		declared = c.Capabilities
	}
	extensions := wire.Raw(`{}`)
	if v := wire.ValueOf(declared).Get("extensions"); v.Kind() == '{' {
		extensions = v.Raw()
	}
	d := *c
	d.Capabilities = wire.SetMember(declared, "extensions", wire.SetMember(extensions, wire.ExtensionTasks, wire.Raw(`{}`)))
	return &d
}

// WithoutTasks returns the client as one that did not declare the extension.
// Legacy revisions do not know it (2026-07-28, extensions/tasks, "Backward
// Compatibility").
func WithoutTasks(c *call.Client) *call.Client {
	extensions := wire.ValueOf(c.Capabilities).Get("extensions")
	if !extensions.Get(wire.ExtensionTasks).Exists() {
		return c
	}
	e := wire.NewEdit(c.Capabilities)
	e.Remove(extensions, wire.ExtensionTasks)
	d := *c
	d.Capabilities = e.Bytes()
	return &d
}

// WantsTasks reports whether a modern upstream refuses a request because the
// client did not declare the tasks extension.
func WantsTasks(err *wire.Error) bool {
	return err.Code == wire.CodeMissingCapability &&
		wire.ValueOf(err.Data).Get("requiredCapabilities", "extensions", wire.ExtensionTasks).Exists()
}

// Related returns the place of the task that a message says it belongs to, and
// the absent value when it names none (2025-11-25, basic/utilities/tasks,
// "Related Task Metadata").
func Related(message wire.Raw) wire.Value {
	return wire.ValueOf(message).Get("_meta", wire.MetaRelatedTask)
}

// Unrelated returns a message that names no task.
func Unrelated(message wire.Raw) wire.Raw {
	e := wire.NewEdit(message)
	meta := e.Root().Get("_meta")
	switch {
	case !meta.Get(wire.MetaRelatedTask).Exists():
		return message
	case count(meta) == 1:
		e.Remove(e.Root(), "_meta")
	default:
		e.Remove(meta, wire.MetaRelatedTask)
	}
	return e.Bytes()
}

// Relate returns the answer to a question of a task with what the question said
// of the task.
func Relate(answer, related wire.Raw) wire.Raw {
	meta := wire.ValueOf(answer).Get("_meta")
	if meta.Kind() != '{' {
		return wire.SetMember(answer, "_meta", wire.SetMember(wire.Raw(`{}`), wire.MetaRelatedTask, related))
	}
	e := wire.NewEdit(answer)
	e.Set(meta, wire.MetaRelatedTask, related)
	return e.Bytes()
}
