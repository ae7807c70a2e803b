package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
)

// server is the state of all clients. Its methods may be called by several goroutines.
type server struct {
	era  string // the only supported era, "" for both
	life context.Context
	end  context.CancelFunc

	mu        sync.Mutex
	tasks     map[string]*task
	sessions  map[string]*session
	listeners map[*listener]bool
	wg        sync.WaitGroup // running tasks
}

func newServer(era string) *server {
	s := &server{era: era, tasks: map[string]*task{}, sessions: map[string]*session{}, listeners: map[*listener]bool{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// close cancels every task and returns when all tasks have ended.
func (s *server) close() {
	s.end()
	s.wg.Wait()
}

// listener is one modern subscription.
type listener struct {
	id    json.RawMessage
	tasks []string
	send  func(object)
}

// session is one legacy session.
type session struct {
	id string

	mu    sync.Mutex
	out   func(object) // receives messages that belong to no request
	last  int          // last id of the server's own requests
	asked map[string]func(json.RawMessage)
}

// newSession begins a session. Messages that belong to no request go to out; a nil out drops them.
func newSession(out func(object)) *session {
	return &session{id: rand.Text(), out: out, asked: map[string]func(json.RawMessage){}}
}

// listen replaces the receiver of messages that belong to no request.
func (c *session) listen(out func(object)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = out
}

func (c *session) send(m object) {
	c.mu.Lock()
	out := c.out
	c.mu.Unlock()
	out(m)
}

// ask sends a request of the server to the client and calls answered with its result.
func (c *session) ask(send func(object), method string, params object, answered func(json.RawMessage)) {
	c.mu.Lock()
	c.last++
	id := c.last
	c.asked[strconv.Itoa(id)] = answered
	c.mu.Unlock()
	send(request(id, method, params))
}

// answered handles a response. An error counts as an empty answer.
func (c *session) answered(m *message) {
	c.mu.Lock()
	f := c.asked[string(m.ID)]
	delete(c.asked, string(m.ID))
	c.mu.Unlock()
	if f == nil {
		return
	}
	if m.Error != nil {
		f(json.RawMessage(`{"action":"cancel"}`))
		return
	}
	f(m.Result)
}

// start begins a task.
func (s *server) start(t *task, run tool, args json.RawMessage) {
	ctx, cancel := context.WithCancel(s.life)
	t.cancel = cancel
	s.mu.Lock()
	s.tasks[t.id] = t
	s.mu.Unlock()
	s.wg.Go(func() {
		defer cancel()
		result, f := run.run(ctx, t, args)
		if f != nil {
			t.end(failed, nil, f)
			return
		}
		t.end(completed, result, nil)
	})
}

// find returns the task with this id and form. A legacy session finds only its own tasks.
func (s *server) find(id string, c *session) (*task, *fault) {
	s.mu.Lock()
	t := s.tasks[id]
	s.mu.Unlock()
	if t == nil || t.legacy != (c != nil) || t.session != c {
		return nil, faultf(invalidParams, "Failed to retrieve task: Task not found")
	}
	return t, nil
}

// notify sends a change of a task to its session or to its subscribers.
func (s *server) notify(t *task) {
	if t.legacy {
		t.session.send(notification("notifications/tasks/status", t.state(true)))
		return
	}
	s.mu.Lock()
	listeners := slices.Collect(maps.Keys(s.listeners))
	s.mu.Unlock()
	for _, l := range listeners {
		if slices.Contains(l.tasks, t.id) {
			state := t.state(true)
			state["_meta"] = object{metaSubscription: l.id}
			l.send(notification("notifications/tasks", state))
		}
	}
}

// list returns the result of tools/list without the members that the eras add.
func (s *server) list(legacy bool) object {
	var all []any
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		item := object{"name": name, "description": tools[name].about, "inputSchema": object{"type": "object"}}
		if legacy {
			item["execution"] = object{"taskSupport": tools[name].support}
		}
		all = append(all, item)
	}
	return object{"tools": all}
}

var serverInfo = object{"name": "tasksfixture", "version": "1"}
