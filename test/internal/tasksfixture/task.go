package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"sync"
	"time"
)

// The statuses of a task.
const (
	working       = "working"
	inputRequired = "input_required"
	completed     = "completed"
	failed        = "failed"
	cancelled     = "cancelled"
)

// How long a task is kept, and how often clients may ask for it, in milliseconds.
const (
	ttl          = 600_000
	pollInterval = 100
)

// question is what a task asks its client.
type question struct {
	method string
	params object
	answer chan json.RawMessage // takes the one answer
	sent   bool                 // as a request, in the legacy form
}

// task is one run of a tool. Its methods may be called by several goroutines.
type task struct {
	id      string
	legacy  bool
	session *session // that made it, in the legacy form
	created time.Time
	cancel  context.CancelFunc

	mu      sync.Mutex
	updated time.Time
	status  string
	text    string // statusMessage
	open    map[string]*question
	result  object
	fault   *fault
	changed chan struct{} // closed and renewed with every change

	tell func(*task) // after every change, without mu
}

func newTask(tell func(*task)) *task {
	now := time.Now().UTC()
	return &task{
		id: "task-" + rand.Text(), created: now, updated: now, status: working,
		open: make(map[string]*question), changed: make(chan struct{}), tell: tell,
	}
}

// update is the one door through which a task changes. A task that has ended stays as it is.
func (t *task) update(change func()) {
	t.mu.Lock()
	if t.ended() {
		t.mu.Unlock()
		return
	}
	change()
	t.updated = time.Now().UTC()
	close(t.changed)
	t.changed = make(chan struct{})
	t.mu.Unlock()
	t.tell(t)
}

// ended reports whether the status is final. The caller holds mu.
func (t *task) ended() bool {
	return t.status == completed || t.status == failed || t.status == cancelled
}

// say sets the status message.
func (t *task) say(text string) { t.update(func() { t.text = text }) }

// ask puts a question to the client and waits for the answer.
func (t *task) ask(ctx context.Context, key, method string, params object) (json.RawMessage, error) {
	q := &question{method: method, params: params, answer: make(chan json.RawMessage, 1)}
	t.update(func() { t.open[key], t.status = q, inputRequired })
	select {
	case a := <-q.answer:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answer takes the answer to a question; one that is not open is ignored.
func (t *task) answer(key string, text json.RawMessage) {
	t.mu.Lock()
	q := t.open[key]
	t.mu.Unlock()
	if q == nil {
		return
	}
	t.update(func() {
		if t.open[key] != q {
			return
		}
		delete(t.open, key)
		if len(t.open) == 0 {
			t.status = working
		}
		q.answer <- text
	})
}

// end gives the task its final status.
func (t *task) end(status string, result object, f *fault) {
	t.update(func() {
		t.status, t.result, t.fault = status, result, f
		clear(t.open)
		if f != nil {
			t.text = f.Message
		}
	})
}

// stop cancels the task. It reports false when the task had ended before.
func (t *task) stop() bool {
	t.mu.Lock()
	ended := t.ended()
	t.mu.Unlock()
	t.end(cancelled, nil, nil)
	t.cancel()
	return !ended
}

// next returns the status, and what is closed with the next change.
func (t *task) next() (status string, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status, t.changed
}

// outcome returns what the tool came to, once the task has ended.
func (t *task) outcome() (object, *fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == cancelled {
		return nil, faultf(-32000, "the task was cancelled")
	}
	return maps.Clone(t.result), t.fault
}

// state is the Task object in the form of the task's era. In the modern one it holds, if detailed, what belongs to the status.
func (t *task) state(detailed bool) object {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := object{
		"taskId": t.id, "status": t.status,
		"createdAt": t.created.Format(time.RFC3339Nano), "lastUpdatedAt": t.updated.Format(time.RFC3339Nano),
	}
	if t.text != "" {
		out["statusMessage"] = t.text
	}
	if t.legacy {
		out["ttl"], out["pollInterval"] = ttl, pollInterval
		return out
	}
	out["ttlMs"], out["pollIntervalMs"] = ttl, pollInterval
	if !detailed {
		return out
	}
	switch t.status {
	case completed:
		out["result"] = t.result
	case failed:
		out["error"] = t.fault
	case inputRequired:
		asks := object{}
		for key, q := range t.open {
			asks[key] = object{"method": q.method, "params": q.params}
		}
		out["inputRequests"] = asks
	}
	return out
}

// unsent returns the open questions that were not sent as requests yet, and marks them as sent.
func (t *task) unsent() map[string]*question {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]*question{}
	for key, q := range t.open {
		if !q.sent {
			q.sent = true
			out[key] = q
		}
	}
	return out
}
