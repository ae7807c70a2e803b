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

// The lifetime of a task and the polling interval for clients, in milliseconds.
const (
	ttl          = 600_000
	pollInterval = 100
)

// question is a question of a task to its client.
type question struct {
	method string
	params object
	answer chan json.RawMessage // receives the only answer
	sent   bool                 // sent as a request, in the legacy form
}

// task is one run of a tool. Its methods may be called by several goroutines.
type task struct {
	id      string
	legacy  bool
	session *session // the creator, in the legacy form
	created time.Time
	cancel  context.CancelFunc

	mu      sync.Mutex
	updated time.Time
	status  string
	text    string // statusMessage
	open    map[string]*question
	result  object
	fault   *fault
	changed chan struct{} // closed and replaced on every change

	notify func(*task) // called after every change, without mu
}

func newTask(tell func(*task)) *task {
	now := time.Now().UTC()
	return &task{
		id: "task-" + rand.Text(), created: now, updated: now, status: working,
		open: make(map[string]*question), changed: make(chan struct{}), notify: tell,
	}
}

// update applies a change. All changes go through it. A task that has ended does not change.
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
	t.notify(t)
}

// ended reports whether the status is final. The caller holds mu.
func (t *task) ended() bool {
	return t.status == completed || t.status == failed || t.status == cancelled
}

// setMessage sets the status message.
func (t *task) setMessage(text string) { t.update(func() { t.text = text }) }

// ask asks the client a question and waits for the answer.
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

// answer delivers the answer to a question. Answers to unknown questions are ignored.
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

// stop cancels the task. It returns false if the task had already ended.
func (t *task) stop() bool {
	t.mu.Lock()
	ended := t.ended()
	t.mu.Unlock()
	t.end(cancelled, nil, nil)
	t.cancel()
	return !ended
}

// next returns the status and a channel that is closed on the next change.
func (t *task) next() (status string, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status, t.changed
}

// outcome returns the tool's result or error. The task must have ended.
func (t *task) outcome() (object, *fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == cancelled {
		return nil, faultf(-32000, "the task was cancelled")
	}
	return maps.Clone(t.result), t.fault
}

// state returns the Task object in the form of the task's era. A detailed modern object contains the members of its status.
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
