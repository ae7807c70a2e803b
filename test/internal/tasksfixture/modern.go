package main

import (
	"context"
	"encoding/json"
)

// modern answers a request of 2026-07-28 other than subscriptions/listen.
func (s *server) modern(ctx context.Context, m *message, p *params) (object, *fault) {
	switch m.Method {
	case "server/discover":
		return cacheable(complete(object{
			"supportedVersions": []string{modernRevision},
			"capabilities":      object{"tools": object{}, "extensions": object{extension: object{}}},
		})), nil
	case "tools/list":
		return cacheable(complete(s.list(false))), nil
	case "tools/call":
		return s.modernCall(ctx, p)
	case "tasks/get", "tasks/update", "tasks/cancel":
		if !p.takesTasks() {
			return nil, lacksExtension()
		}
		t, f := s.find(p.TaskID, nil)
		if f != nil {
			return nil, f
		}
		switch m.Method {
		case "tasks/get":
			return complete(t.state(true)), nil
		case "tasks/cancel":
			t.stop()
		case "tasks/update":
			for key, answer := range p.InputResponses {
				t.answer(key, answer)
			}
		}
		return complete(object{}), nil
	default:
		return nil, faultf(methodNotFound, "Method not found: %s", m.Method)
	}
}

func (s *server) modernCall(ctx context.Context, p *params) (object, *fault) {
	run, ok := tools[p.Name]
	switch {
	case !ok:
		return nil, faultf(invalidParams, "Unknown tool: %s", p.Name)
	case run.support == "required" && !p.takesTasks():
		return nil, lacksExtension()
	case run.support == "forbidden" || !p.takesTasks():
		result, f := run.run(ctx, newTask(func(*task) {}), p.Arguments)
		if f != nil {
			return nil, f
		}
		return complete(result), nil
	}
	args := p.Arguments
	if run.rounds {
		answer, answered := p.InputResponses["user_name"]
		if !answered || p.RequestState != roundState {
			return object{
				"resultType": "input_required", "requestState": roundState, "_meta": object{metaServerInfo: serverInfo},
				"inputRequests": object{"user_name": object{"method": "elicitation/create", "params": askName}},
			}, nil
		}
		args, _ = json.Marshal(object{"answered": elicited(answer)}) // encoding a string cannot fail
	}
	t := newTask(s.notify)
	out := t.state(false)
	s.start(t, run, args)
	out["resultType"], out["_meta"] = "task", object{metaServerInfo: serverInfo}
	return out, nil
}

// roundState is the requestState of the tool that asks before it becomes a task.
const roundState = "asked for a name"

// lacksExtension returns the error for clients that did not declare the required extension.
func lacksExtension() *fault {
	f := faultf(missingCapability, "Missing required client capability")
	f.Data = object{"requiredCapabilities": object{"extensions": object{extension: object{}}}}
	return f
}

// complete adds the members that every complete result has.
func complete(result object) object {
	result["resultType"] = "complete"
	if result["_meta"] == nil {
		result["_meta"] = object{metaServerInfo: serverInfo}
	}
	return result
}

func cacheable(result object) object {
	result["ttlMs"], result["cacheScope"] = 0, "private"
	return result
}

// listen opens a subscription. The first message on send is the acknowledgement; end closes the subscription.
func (s *server) listen(m *message, p *params, send func(object)) (end func(), f *fault) {
	if len(p.Notifications.TaskIDs) > 0 && !p.takesTasks() {
		return nil, lacksExtension()
	}
	l := &listener{id: m.ID, send: send}
	for _, id := range p.Notifications.TaskIDs {
		if _, unknown := s.find(id, nil); unknown == nil {
			l.tasks = append(l.tasks, id)
		}
	}
	honored := object{}
	if len(l.tasks) > 0 {
		honored["taskIds"] = l.tasks
	}
	send(notification("notifications/subscriptions/acknowledged", object{
		"notifications": honored, "_meta": object{metaSubscription: m.ID},
	}))
	s.mu.Lock()
	s.listeners[l] = true
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}, nil
}
