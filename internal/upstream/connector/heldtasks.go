package connector

import (
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

const (
	// maxTaskHold bounds how long a task keeps the connection open if no client asks about
	// it.
	maxTaskHold = time.Hour
	// maxHeldTasks bounds the tasks that keep the connection open; further ones do not.
	maxHeldTasks = 16384
)

// heldTasks are the tasks of clients that live at the server: they would be lost with the
// connection. A task is held until its result was fetched, it failed or was cancelled, its
// ttl has passed, or no client has asked about it for maxTaskHold. The zero value is ready
// for use, concurrently.
type heldTasks struct {
	mu   sync.Mutex
	ends map[string]time.Time // by id
}

// observe takes in the answer to a call. It reports whether a task is held no longer.
func (h *heldTasks) observe(c *call.Call, res call.Result, now time.Time) (released bool) {
	m := wire.MethodOf(c.Method)
	if m.Shape == wire.ShapeToolResult {
		if m.Kind == wire.KindTask {
			return h.release(taskID(c)) // the result was fetched
		}
		if task, ok := createdTask(c, res); ok {
			h.hold(task.Get("taskId").Str(), task, now)
		}
		return false
	}
	if m.Kind != wire.KindTask {
		return false
	}
	task := res.Value()
	switch status := task.Get("status").Str(); {
	case status == "failed" || status == "cancelled",
		status == "completed" && res.Revision.Era() == wire.EraModern: // with its result
		return h.release(taskID(c))
	case status != "":
		h.hold(taskID(c), task, now)
	}
	return false
}

func taskID(c *call.Call) string { return wire.ValueOf(c.Params).Get("taskId").Str() }

// createdTask returns the task that the server has made of a call.
func createdTask(c *call.Call, res call.Result) (wire.Value, bool) {
	root := res.Value()
	if res.Revision.Era() == wire.EraModern {
		return root, root.Get("resultType").IsString("task")
	}
	task := root.Get("task")
	return task, task.Kind() == '{' && wire.ValueOf(c.Params).Get("task").Exists()
}

// hold holds a task of which somebody has just asked.
func (h *heldTasks) hold(id string, task wire.Value, now time.Time) {
	ttl := maxTaskHold
	for _, name := range []string{"ttl", "ttlMs"} {
		if ms, ok := task.Get(name).Int(); ok && ms >= 0 {
			ttl = min(ttl, time.Duration(min(ms, maxTaskHold.Milliseconds()))*time.Millisecond)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ends == nil {
		h.ends = make(map[string]time.Time)
	}
	if _, held := h.ends[id]; held || len(h.ends) < maxHeldTasks {
		h.ends[id] = now.Add(ttl)
	}
}

// release reports whether the task was held.
func (h *heldTasks) release(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, held := h.ends[id]
	delete(h.ends, id)
	return held
}

// until returns the end of the last hold, the zero time if there is none.
func (h *heldTasks) until(now time.Time) (last time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, end := range h.ends {
		if !now.Before(end) {
			delete(h.ends, id)
		} else if end.After(last) {
			last = end
		}
	}
	return last
}

// forget forgets all tasks: they ended with the server.
func (h *heldTasks) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.ends)
}
