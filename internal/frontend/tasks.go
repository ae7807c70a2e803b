package frontend

import (
	"context"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// Tasks deliver changes of tasks. Its methods are called concurrently.
type Tasks interface {
	// WatchTask watches a task until the task or ctx has ended. It reports false if id
	// does not name a task of the caller. deliver is called for each change, with the
	// params of notifications/tasks. It does not block. If it returns false, it has to
	// be called again later with the same params.
	WatchTask(ctx context.Context, c *call.Call, id string, deliver func(params wire.Raw) bool) bool
}

// maxWatchedTasks bounds the tasks that one listen request watches.
const maxWatchedTasks = 100

// watchTasks watches the tasks that a listen request names (2026-07-28,
// extensions/tasks, "Task Status Notifications"). It leaves out ids of tasks that do
// not belong to the client.
func (s *Server) watchTasks(x *exchange, sub *subscription) *wire.Error {
	ids := wire.ValueOf(x.call.Params).Get("notifications", memberTasks)
	if s.options.Tasks == nil || !ids.Exists() {
		return nil
	}
	if !x.call.Client.Can("extensions", wire.ExtensionTasks) {
		data := wire.Raw(`{"requiredCapabilities":{"extensions":{"` + wire.ExtensionTasks + `":{}}}}`)
		return wire.Errorf(wire.CodeMissingCapability, "taskIds need the extension %s, which the client did not declare", wire.ExtensionTasks).WithData(data)
	}
	// The watches end with the subscription, not with the context of the request, which
	// ends earlier on stdio.
	ctx, cancel := context.WithCancel(context.WithoutCancel(&x.scope))
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

// taskChanged tells the client that a task has changed. It returns false before the
// acknowledgement.
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
