package frontend

import (
	"context"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// Tasks tell of changes of tasks. WatchTask is called by many goroutines at
// once. It reports false for an id that is not one of the caller's; else deliver
// gets the task with each change, as the params of notifications/tasks, until
// the task has ended or ctx does. deliver does not block, and returns false when
// it is to be called again with the same news, later.
type Tasks interface {
	WatchTask(ctx context.Context, c *call.Call, id string, deliver func(params wire.Raw) bool) bool
}

// maxWatched bounds the tasks that one listen request watches.
const maxWatchedTasks = 100

// watch has the client told of the tasks that a listen request names (2026-07-28,
// extensions/tasks, "Task Status Notifications"). Ids that are none of the
// client's are left out.
func (s *Server) watchTasks(x *exchange, sub *subscription) *wire.Error {
	ids := wire.ValueOf(x.call.Params).Get("notifications", "taskIds")
	if s.options.Tasks == nil || !ids.Exists() {
		return nil
	}
	if !x.call.Client.Can("extensions", wire.ExtensionTasks) {
		data := wire.Raw(`{"requiredCapabilities":{"extensions":{"` + wire.ExtensionTasks + `":{}}}}`)
		return wire.Errorf(wire.CodeMissingCapability, "taskIds need the extension %s, which the client did not declare", wire.ExtensionTasks).WithData(data)
	}
	// The subscription ends the watching, not the request: on stdio that is over
	// before.
	ctx, cancel := context.WithCancel(context.WithoutCancel(x.ctx))
	sub.cancels = append(sub.cancels, cancel)
	seen := make(map[string]bool)
	for el := range ids.Elements() {
		id, ok := el.Text()
		if !ok || seen[id] || len(sub.tasks) >= maxWatchedTasks {
			continue
		}
		seen[id] = true
		if s.options.Tasks.WatchTask(ctx, &x.call, id, sub.taskChanged) {
			sub.tasks = append(sub.tasks, id)
		}
	}
	return nil
}

// taskChanged tells the client of a task. Before the acknowledgement that has to
// wait.
func (sub *subscription) taskChanged(params wire.Raw) bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	switch sub.state {
	case unacknowledged:
		return false
	case open:
		m := wire.Message{Method: wire.NoteTasks, Params: stream.WithSubscription(params, sub.id)}
		sub.stream.Send(m.Append(nil))
	}
	return true
}

// stringArray returns texts as a JSON array.
func stringArray(texts []string) wire.Raw {
	out := wire.Raw{'['}
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = wire.AppendString(out, text)
	}
	return append(out, ']')
}
