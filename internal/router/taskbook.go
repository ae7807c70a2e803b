package router

import (
	"slices"
	"sync"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// maxTasks bounds how many tasks are remembered, maxOwnTasks those of one
// principal. The oldest go first. A task that is forgotten can still be asked
// for by its id: it only is in no list, and nobody is told of its changes.
const (
	maxTasks    = 16384
	maxOwnTasks = 1024
)

// heldTask is a task that was announced to a client.
type heldTask struct {
	client    *call.Client
	principal *call.Principal
	token     wire.Raw // that the client gave for progress, nil when it gave none
	ref       bridge.TaskRef
	id        string // that the client knows
	who       string // the key of the principal
	seq       int64  // grows from task to task
}

type taskKey struct{ upstream, session, native string }

func keyOf(t bridge.TaskRef) taskKey { return taskKey{t.Upstream, t.Session, t.Native} }

// taskBook remembers whose tasks are whose: what an upstream tells of a task, or
// lists, says only its own id. The zero value is ready for use, by any number of
// goroutines.
type taskBook struct {
	mu    sync.Mutex
	last  int64
	tasks map[taskKey]*heldTask
	order []taskKey // as they came
	own   map[string][]taskKey
}

// add remembers a task.
func (b *taskBook) add(t heldTask) {
	key := keyOf(t.ref)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks == nil {
		b.tasks, b.own = make(map[taskKey]*heldTask), make(map[string][]taskKey)
	}
	b.remove(key)
	if own := b.own[t.who]; len(own) >= maxOwnTasks {
		b.remove(own[0])
	}
	if len(b.order) >= maxTasks {
		b.remove(b.order[0])
	}
	b.last++
	t.seq = b.last
	b.tasks[key] = &t
	b.order = append(b.order, key)
	b.own[t.who] = append(b.own[t.who], key)
}

// remove forgets a task. The caller holds mu.
func (b *taskBook) remove(key taskKey) {
	t := b.tasks[key]
	if t == nil {
		return
	}
	delete(b.tasks, key)
	b.order = without(b.order, key)
	if b.own[t.who] = without(b.own[t.who], key); len(b.own[t.who]) == 0 {
		delete(b.own, t.who)
	}
}

// without takes a key out that is there once. It is mostly the first one.
func without(keys []taskKey, key taskKey) []taskKey {
	at := slices.Index(keys, key)
	return slices.Delete(keys, at, at+1)
}

// drop forgets a task that its upstream does not know any more.
func (b *taskBook) drop(key taskKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(key)
}

// find returns the task that an upstream calls so, and whether one is known.
func (b *taskBook) find(key taskKey) (heldTask, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[key]
	if t == nil {
		return heldTask{}, false
	}
	return *t, true
}

// of returns the tasks of a principal that are younger than after, the oldest
// first.
func (b *taskBook) of(who string, after int64) []heldTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []heldTask
	for _, key := range b.own[who] {
		if t := b.tasks[key]; t.seq > after {
			out = append(out, *t)
		}
	}
	return out
}
