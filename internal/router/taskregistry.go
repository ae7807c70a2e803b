package router

import (
	"slices"
	"sync"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// maxTasks bounds the registered tasks, maxOwnTasks those of one principal in all profiles. The
// oldest are removed first. A client can still ask for a removed task by its id, but the task is in no
// list, and no client is notified of its changes.
const (
	maxTasks    = 16384
	maxOwnTasks = 1024
)

// knownTask is a task that was announced to a client.
type knownTask struct {
	client    *call.Client
	principal *call.Principal
	token     wire.Raw // the progress token of the client, nil for none
	ref       bridge.TaskRef
	id        string // the public id
	seq       int64  // of the task, in the order of announcement
}

type taskKey struct{ upstream, session, native string }

func keyOf(t bridge.TaskRef) taskKey { return taskKey{t.Upstream, t.Session, t.Native} }

// taskRegistry maps the tasks of upstreams to the clients that began them, because messages of an
// upstream name only its own id. The zero value is ready for use. Its methods may be called
// concurrently.
type taskRegistry struct {
	timed bool // numbers are times, so that they order the tasks of all replicas

	mu         sync.Mutex
	last       int64
	tasks      map[taskKey]*knownTask
	order      []taskKey            // the oldest first
	byIdentity map[string][]taskKey // in all profiles of a principal, the oldest first
}

// add registers a task and returns its number.
func (b *taskRegistry) add(t knownTask) (seq int64) {
	key, identity := keyOf(t.ref), t.principal.Identity()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks == nil {
		b.tasks, b.byIdentity = make(map[taskKey]*knownTask), make(map[string][]taskKey)
	}
	b.remove(key)
	if own := b.byIdentity[identity]; len(own) >= maxOwnTasks {
		b.remove(own[0])
	}
	if len(b.order) >= maxTasks {
		b.remove(b.order[0])
	}
	b.last++
	if b.timed {
		b.last = max(b.last, time.Now().UnixMicro())
	}
	t.seq = b.last
	b.tasks[key] = &t
	b.order = append(b.order, key)
	b.byIdentity[identity] = append(b.byIdentity[identity], key)
	return t.seq
}

// remove removes a task. The caller holds mu.
func (b *taskRegistry) remove(key taskKey) {
	t := b.tasks[key]
	if t == nil {
		return
	}
	delete(b.tasks, key)
	b.order = without(b.order, key)
	identity := t.principal.Identity()
	if b.byIdentity[identity] = without(b.byIdentity[identity], key); len(b.byIdentity[identity]) == 0 {
		delete(b.byIdentity, identity)
	}
}

// without removes a key, which is mostly the first one.
func without(keys []taskKey, key taskKey) []taskKey {
	at := slices.Index(keys, key)
	return slices.Delete(keys, at, at+1)
}

// drop removes a task that its upstream no longer knows.
func (b *taskRegistry) drop(key taskKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(key)
}

// find returns the task with this key, and whether there is one.
func (b *taskRegistry) find(key taskKey) (knownTask, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[key]
	if t == nil {
		return knownTask{}, false
	}
	return *t, true
}

// ofPrincipal returns the tasks of a principal, in its profile, that were announced after the
// task with the number after, the oldest first.
func (b *taskRegistry) ofPrincipal(who *call.Principal, after int64) []knownTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []knownTask
	for _, of := range b.byIdentity[who.Identity()] {
		if t := b.tasks[of]; t.seq > after && t.principal.Same(who) {
			out = append(out, *t)
		}
	}
	return out
}
