package router

import (
	"slices"
	"sync"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Bounds of the notifications of tasks that no call waits for yet: an upstream may send one
// before the gateway has read the answer that announces the task.
const (
	maxEarlyNotifications = 256
	maxEarlySize          = 4 << 10
)

// taskWaiters are the calls that wait for a task, because their clients cannot carry one. The
// zero value is ready for use. Its methods may be called concurrently.
type taskWaiters struct {
	mu    sync.Mutex
	open  map[taskKey]taskWaiter
	early []earlyNotification // the oldest first
}

// taskWaiter is one wait, and a stand-in for the call that waits.
type taskWaiter struct {
	call *call.Call
	wait *bridge.TaskWait
}

// earlyNotification is a notification of a task that no call waited for yet.
type earlyNotification struct {
	key    taskKey
	params wire.Raw
}

// add adds a wait, and passes it the notifications that came before.
func (w *taskWaiters) add(key taskKey, c *call.Call, wait *bridge.TaskWait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = make(map[taskKey]taskWaiter)
	}
	standIn := *c
	standIn.Params, standIn.Back = tokenParams(wire.ValueOf(c.Params).Get("_meta", wire.MetaProgressToken).Raw()), wait
	w.open[key] = taskWaiter{&standIn, wait}
	w.early = slices.DeleteFunc(w.early, func(e earlyNotification) bool {
		if e.key != key {
			return false
		}
		wait.Notified(e.params)
		return true
	})
}

func (w *taskWaiters) remove(key taskKey, wait *bridge.TaskWait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[key].wait == wait {
		delete(w.open, key)
	}
}

// notify takes the params of a notification that a task has changed.
func (w *taskWaiters) notify(key taskKey, params wire.Raw) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.open[key]; ok {
		at.wait.Notified(params)
		return
	}
	if len(params) > maxEarlySize {
		return
	}
	if len(w.early) == maxEarlyNotifications {
		w.early = slices.Delete(w.early, 0, 1)
	}
	w.early = append(w.early, earlyNotification{key, slices.Clone(params)})
}

// find returns a stand-in for the call that waits for a task, nil for none. Its back channel
// is valid as long as the wait.
func (w *taskWaiters) find(key taskKey) *call.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open[key].call
}

// tokenParams returns params with a copy of a progress token only.
func tokenParams(token wire.Raw) wire.Raw {
	if token == nil {
		return wire.Raw(`{}`)
	}
	return wire.SetMember(wire.Raw(`{}`), "_meta", wire.SetMember(wire.Raw(`{}`), wire.MetaProgressToken, token))
}
