package router

import (
	"context"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// taskBackChannel is a back channel for messages about tasks. It translates the ids to those that
// the client knows, and drops messages about tasks that the client does not know.
type taskBackChannel struct {
	to        call.BackChannel
	router    *Router
	space     *namespace.Naming
	session   string
	principal *call.Principal
	task      *knownTask // that the request is about, nil for a call; it may have begun at another replica
}

// ids maps the ids of the upstream's tasks to those that the client knows.
func (b *taskBackChannel) ids() namespace.TaskIDs {
	others := b.router.taskIDs(b.space.Upstream(), b.session, b.principal)
	return func(native string) string {
		if b.task != nil && native == b.task.ref.Native && b.task.principal.Same(b.principal) {
			return b.task.id
		}
		return others(native)
	}
}

func (b *taskBackChannel) Notify(method string, params wire.Raw) {
	ids := b.ids()
	if m := wire.MethodOf(method); m.Kind != wire.KindTaskStatus {
		params = b.related(params)
	} else {
		if ids(wire.ValueOf(params).Get(m.Member).Str()) == "" {
			return
		}
		params = b.space.Task(params, ids)
	}
	b.to.Notify(method, params)
}

// Ask puts a question to the client. The answer names the same task as the question (2025-11-25, basic/utilities/tasks, "Associating Task-Related
// Messages").
func (b *taskBackChannel) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	related := bridge.RelatedTask(params)
	if !related.Exists() {
		return b.to.Ask(ctx, method, params)
	}
	answer, err := b.to.Ask(ctx, method, b.related(params))
	if err != nil {
		return nil, err
	}
	return bridge.WithRelatedTask(answer, related.Raw()), nil
}

// related returns a message with the public id of the task that it belongs to, or without the task
// if the client does not know it.
func (b *taskBackChannel) related(params wire.Raw) wire.Raw {
	task := bridge.RelatedTask(params)
	if !task.Exists() {
		return params
	}
	ids := b.ids()
	if ids(task.Get("taskId").Str()) == "" {
		return bridge.WithoutRelatedTask(params)
	}
	return b.space.TaskIDs(params, ids)
}
