package namespace

import "mcpgateway/internal/wire"

// TaskIDs returns the public id of an upstream's task, "" to keep the native one.
type TaskIDs func(native string) (public string)

// Task rewrites a message about a task for the client: the result of a request about tasks,
// or the params of a notification. The result, the error and the input requests of the
// tools/call that made the task are rewritten as in an answer to that call.
//
//	taskId, _meta related-task.taskId              everywhere
//	result{…} error{data{uri}} inputRequests{…}    of tasks/get and notifications/tasks (2026-07-28)
//	content                                        of tasks/result (2025-11-25)
func (s *Naming) Task(message wire.Raw, public TaskIDs) wire.Raw {
	r := rewriter{naming: s}
	root := wire.ValueOf(message)
	for m := range root.Members() {
		switch {
		case m.Is("taskId"):
			r.task(message, m.Value, public)
		case m.Is("result"):
			r.outcome(message, m.Value, public)
		case m.Is("error"):
			r.uris(message, m.Value.Get("data"), "uri")
		case m.Is("inputRequests"):
			r.inputRequests(message, m.Value)
		}
	}
	r.outcome(message, root, public)
	return r.bytes(message)
}

// TaskIDs rewrites only the ids of tasks, in a message that announces a task or belongs to
// one.
func (s *Naming) TaskIDs(message wire.Raw, public TaskIDs) wire.Raw {
	r := rewriter{naming: s}
	root := wire.ValueOf(message)
	for m := range root.Members() {
		switch {
		case m.Is("taskId"):
			r.task(message, m.Value, public)
		case m.Is("task"):
			r.tasks(message, m.Value, public)
		}
	}
	r.related(message, root, public)
	return r.bytes(message)
}

// outcome rewrites the result of a tools/call.
func (r *rewriter) outcome(doc wire.Raw, result wire.Value, public TaskIDs) {
	for m := range result.Members() {
		if m.Is("content") {
			r.blocks(doc, m.Value)
		}
	}
	r.related(doc, result, public)
}

func (r *rewriter) related(doc wire.Raw, message wire.Value, public TaskIDs) {
	for m := range message.Members() {
		if !m.Is("_meta") {
			continue
		}
		for entry := range m.Value.Members() {
			if entry.Is(wire.MetaRelatedTask) {
				r.tasks(doc, entry.Value, public)
			}
		}
	}
}

// tasks rewrites every task id in obj.
func (r *rewriter) tasks(doc wire.Raw, obj wire.Value, public TaskIDs) {
	for m := range obj.Members() {
		if m.Is("taskId") {
			r.task(doc, m.Value, public)
		}
	}
}

func (r *rewriter) task(doc wire.Raw, at wire.Value, public TaskIDs) {
	native, ok := at.Text()
	if !ok {
		return
	}
	if id := public(native); id != "" && id != native {
		r.replace(doc, at, id)
	}
}
