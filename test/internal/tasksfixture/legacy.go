package main

import (
	"context"
	"encoding/json"
)

// legacy answers a request of a legacy session. send writes messages before the response; it must not be called after legacy has returned.
func (s *server) legacy(ctx context.Context, c *session, m *message, send func(object)) (object, *fault) {
	p, f := readParams(m.Params)
	if f != nil {
		return nil, f
	}
	switch m.Method {
	case "initialize":
		return object{
			"protocolVersion": legacyRevision, "serverInfo": serverInfo,
			"capabilities": object{"tools": object{}, "tasks": object{
				"list": object{}, "cancel": object{}, "requests": object{"tools": object{"call": object{}}},
			}},
		}, nil
	case "ping":
		return object{}, nil
	case "tools/list":
		return s.list(true), nil
	case "tools/call":
		return s.legacyCall(ctx, c, p)
	case "tasks/list":
		return s.legacyTasks(c), nil
	case "tasks/get", "tasks/cancel", "tasks/result":
		t, f := s.find(p.TaskID, c)
		if f != nil {
			return nil, f
		}
		switch m.Method {
		case "tasks/result":
			return s.legacyResult(ctx, c, t, send)
		case "tasks/cancel":
			if !t.stop() {
				return nil, faultf(invalidParams, "Cannot cancel task: it has ended")
			}
		}
		return t.state(true), nil
	default:
		return nil, faultf(methodNotFound, "Method not found: %s", m.Method)
	}
}

func (s *server) legacyCall(ctx context.Context, c *session, p *params) (object, *fault) {
	run, ok := tools[p.Name]
	switch {
	case !ok:
		return nil, faultf(invalidParams, "Unknown tool: %s", p.Name)
	case p.Task == nil && run.support == "required", p.Task != nil && run.support == "forbidden":
		return nil, faultf(methodNotFound, "Tool %s: task support is %s", p.Name, run.support)
	case p.Task == nil:
		return run.run(ctx, newTask(func(*task) {}), p.Arguments)
	}
	t := newTask(s.notify)
	t.legacy, t.session = true, c
	state := t.state(true)
	s.start(t, run, p.Arguments)
	return object{"task": state}, nil
}

func (s *server) legacyTasks(c *session) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []any{}
	for _, t := range s.tasks {
		if t.session == c {
			all = append(all, t.state(true))
		}
	}
	return object{"tasks": all}
}

// legacyResult waits for the end of a task. Meanwhile it sends the task's questions.
func (s *server) legacyResult(ctx context.Context, c *session, t *task, send func(object)) (object, *fault) {
	related := object{metaRelated: object{"taskId": t.id}}
	for {
		status, changed := t.next()
		for key, q := range t.unsent() {
			params := object{"_meta": related}
			for name, value := range q.params {
				params[name] = value
			}
			c.ask(send, q.method, params, func(answer json.RawMessage) { t.answer(key, answer) })
		}
		if status == completed || status == failed || status == cancelled {
			result, f := t.outcome()
			if f != nil {
				return nil, f
			}
			result["_meta"] = related
			return result, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, faultf(-32000, "cancelled")
		}
	}
}
