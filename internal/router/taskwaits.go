package router

import (
	"slices"
	"sync"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// What is kept of tasks that nobody is known to wait for: an upstream may tell of
// a task before the answer that announces it is read.
const (
	maxEarly     = 256
	maxEarlySize = 4 << 10
)

// taskWaits are the tasks that the gateway waits for at this moment, for clients
// that cannot carry them. The zero value is ready for use, by any number of
// goroutines.
type taskWaits struct {
	mu    sync.Mutex
	open  map[taskKey]waiting
	early []early // the oldest first
}

// waiting is one wait, and a stand-in for the call that it is for.
type waiting struct {
	call *call.Call
	wait *bridge.TaskWait
}

// early is what was said of a task before anybody waited for it.
type early struct {
	key    taskKey
	params wire.Raw
}

// add notes a wait, and tells it what was said of the task before.
func (w *taskWaits) add(key taskKey, c *call.Call, wait *bridge.TaskWait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = make(map[taskKey]waiting)
	}
	standIn := *c
	standIn.Params, standIn.Back = tokenParams(wire.ValueOf(c.Params).Get("_meta", wire.MetaProgressToken).Raw()), wait
	w.open[key] = waiting{&standIn, wait}
	w.early = slices.DeleteFunc(w.early, func(e early) bool {
		if e.key != key {
			return false
		}
		wait.Told(e.params)
		return true
	})
}

func (w *taskWaits) remove(key taskKey, wait *bridge.TaskWait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[key].wait == wait {
		delete(w.open, key)
	}
}

// tell takes the params of a notification that a task has changed.
func (w *taskWaits) tell(key taskKey, params wire.Raw) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.open[key]; ok {
		at.wait.Told(params)
		return
	}
	if len(params) > maxEarlySize {
		return
	}
	if len(w.early) == maxEarly {
		w.early = slices.Delete(w.early, 0, 1)
	}
	w.early = append(w.early, early{key, slices.Clone(params)})
}

// find returns a stand-in for the call that waits for a task, nil when none does.
// Its back channel is good as long as the wait.
func (w *taskWaits) find(key taskKey) *call.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open[key].call
}

// tokenParams returns params with a copy of a progress token, and nothing else.
func tokenParams(token wire.Raw) wire.Raw {
	if token == nil {
		return wire.Raw(`{}`)
	}
	return wire.SetMember(wire.Raw(`{}`), "_meta", wire.SetMember(wire.Raw(`{}`), wire.MetaProgressToken, token))
}
