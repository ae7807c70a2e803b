package bridge

import (
	"strconv"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Task is the state of a task as an upstream reports it, in the form of 2025-11-25
// (basic/utilities/tasks) or of the extension of 2026-07-28.
type Task struct {
	// Form is the era of the form.
	Form    wire.Era
	ID      string
	Status  string
	Message string        // statusMessage
	Poll    time.Duration // the poll interval that the upstream wants, 0 for none
	// Body is the object that was parsed.
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

// TTL returns how long the upstream keeps the task, 0 if it does not say.
func (t *Task) TTL() time.Duration {
	name := "ttlMs"
	if t.Form == wire.EraLegacy {
		name = "ttl"
	}
	ms, _ := t.Body.Get(name).Int()
	return time.Duration(min(max(ms, 0), maxTTL.Milliseconds())) * time.Millisecond
}

// maxTTL bounds what TTL returns.
const maxTTL = 365 * 24 * time.Hour

// CreatedTask returns the task that a result announces, and whether it announces one. asked says
// that the request asked for a task in the form of 2025-11-25; otherwise a member "task" of a
// legacy result has another meaning.
func CreatedTask(res call.Result, asked bool) (Task, bool) {
	root := res.Value()
	switch {
	case res.Complete:
		return Task{}, false
	case res.Revision.Era() == wire.EraModern && isTask(root):
		return readTask(root, wire.EraModern), true
	case res.Revision.Era() == wire.EraLegacy && asked && root.Get("task").Kind() == '{':
		return readTask(root.Get("task"), wire.EraLegacy), true
	}
	return Task{}, false
}

// isTask reports whether a result says that it is a task. If the member occurs twice one such
// value is enough, as in [IsInputRequired].
func isTask(result wire.Value) bool {
	for m := range result.Members() {
		if m.Is("resultType") && m.Value.IsString("task") {
			return true
		}
	}
	return false
}

// ParseTask returns the task that the result of tasks/get describes.
func ParseTask(result wire.Raw, form wire.Era) Task { return readTask(wire.ValueOf(result), form) }

func readTask(v wire.Value, form wire.Era) Task {
	poll := "pollIntervalMs"
	if form == wire.EraLegacy {
		poll = "pollInterval"
	}
	t := Task{Form: form, ID: v.Get("taskId").Str(), Status: v.Get("status").Str(), Message: v.Get("statusMessage").Str(), Body: v}
	if ms, ok := v.Get(poll).Int(); ok && ms > 0 {
		t.Poll = time.Duration(min(ms, maxPoll.Milliseconds())) * time.Millisecond
	}
	return t
}

// AsTask returns the params of a request with which a 2025-11-25 upstream runs it as a task, and
// keeps the task at least as long as a [TaskWait] may wait.
func AsTask(params wire.Raw) wire.Raw {
	ttl := strconv.FormatInt(maxTaskWait.Milliseconds(), 10)
	return wire.SetMember(params, "task", wire.Raw(`{"ttl":`+ttl+`}`))
}

// WithTasksExtension returns the client as one that declared the tasks extension.
func WithTasksExtension(c *call.Client) *call.Client {
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

// WithoutTasksExtension returns the client as one that did not declare the extension, which
// legacy revisions do not know (2026-07-28, extensions/tasks, "Backward Compatibility").
func WithoutTasksExtension(c *call.Client) *call.Client {
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

// RequiresTasksExtension reports whether a modern upstream refuses a request because the client
// did not declare the tasks extension.
func RequiresTasksExtension(err *wire.Error) bool {
	return err.Code == wire.CodeMissingCapability &&
		wire.ValueOf(err.Data).Get("requiredCapabilities", "extensions", wire.ExtensionTasks).Exists()
}

// RelatedTask returns the member with which a message names the task that it belongs to, the
// absent value for none (2025-11-25, basic/utilities/tasks, "Related Task Metadata").
func RelatedTask(message wire.Raw) wire.Value {
	return wire.ValueOf(message).Get("_meta", wire.MetaRelatedTask)
}

// WithoutRelatedTask returns a message without the member that names its task.
func WithoutRelatedTask(message wire.Raw) wire.Raw {
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

// WithRelatedTask returns the answer to a question of a task with the member that names the
// task.
func WithRelatedTask(answer, related wire.Raw) wire.Raw {
	meta := wire.ValueOf(answer).Get("_meta")
	if meta.Kind() != '{' {
		return wire.SetMember(answer, "_meta", wire.SetMember(wire.Raw(`{}`), wire.MetaRelatedTask, related))
	}
	e := wire.NewEdit(answer)
	e.Set(meta, wire.MetaRelatedTask, related)
	return e.Bytes()
}
