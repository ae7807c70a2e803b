package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// askAll asks as a legacy server: by concurrent requests.
func (s *server) askAll(ctx context.Context, token string, questions []question, out func(string)) ([]string, bool, error) {
	echoes := make([]string, len(questions))
	var wg sync.WaitGroup
	for i, q := range questions {
		answers := make(chan message, 1)
		s.mu.Lock()
		s.asked++
		id := `"s` + strconv.Itoa(s.asked) + `"`
		s.asks[id] = answers
		s.mu.Unlock()
		out(request(id, q.method(), q.params(token)))
		wg.Go(func() {
			select {
			case m := <-answers:
				echo, ok := echoOf(q.kind, m.Result)
				switch {
				case m.Error != nil:
					echo = unanswered
				case !ok:
					s.violation("question %s of call %s got the answer %s", q.key, token, m.Result)
				default:
					s.check(token, q, echo)
				}
				echoes[i] = echo
			case <-ctx.Done():
			}
			s.mu.Lock()
			delete(s.asks, id)
			s.mu.Unlock()
		})
	}
	wg.Wait()
	return echoes, true, ctx.Err()
}

func (s *server) answered(m *message) {
	s.mu.Lock()
	answers := s.asks[string(m.ID)]
	delete(s.asks, string(m.ID))
	s.mu.Unlock()
	if answers != nil {
		answers <- *m
	}
}

// job creates a task for a call if the client wants one.
func (s *server) job(p *toolParams) (string, error) {
	_, extension := p.Meta.Capabilities.Extensions[tasksExtension]
	token := p.Arguments.Token
	if s.revision == legacy && p.Task == nil || s.revision == modern && !extension {
		return result(s.revision, token, nil), nil
	}
	id := "task-" + token
	s.mu.Lock()
	s.tasks[id] = task{token, time.Now().Add(3 * time.Millisecond)}
	s.mu.Unlock()
	body := s.task(id, "working", "")
	if s.revision == legacy {
		return `{"task":` + body + `}`, nil
	}
	return `{"resultType":"task",` + body[1:], nil
}

// task returns the task object.
func (s *server) task(id, status, more string) string {
	now := time.Now().UTC().Format(time.RFC3339)
	ttl, poll := "ttlMs", "pollIntervalMs"
	if s.revision == legacy {
		ttl, poll = "ttl", "pollInterval"
	}
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"createdAt":%q,"lastUpdatedAt":%q,%q:60000,%q:10%s}`, id, status, now, now, ttl, poll, more)
}

func (s *server) aboutTask(ctx context.Context, method, id string) (string, error) {
	s.mu.Lock()
	t, ok := s.tasks[id]
	s.mu.Unlock()
	if !ok {
		return "", &fault{Code: -32602, Message: "no such task"}
	}
	ended := !time.Now().Before(t.ends)
	kind := ""
	if s.revision == modern {
		kind = `,"resultType":"complete"`
	}
	switch {
	case method == "tasks/cancel":
		s.mu.Lock()
		delete(s.tasks, id)
		s.mu.Unlock()
		return s.task(id, "cancelled", kind), nil
	case method == "tasks/result":
		if !sleep(ctx, time.Until(t.ends)) {
			return "", ctx.Err()
		}
		body := result(s.revision, t.token, nil)
		return body[:len(body)-1] + `,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":` + strconv.Quote(id) + `}}}`, nil
	case ended && s.revision == modern:
		return s.task(id, "completed", kind+`,"result":`+result(s.revision, t.token, nil)), nil
	case ended:
		return s.task(id, "completed", kind), nil
	default:
		return s.task(id, "working", kind), nil
	}
}

// listen serves a subscription of a modern client until it is cancelled.
func (s *server) listen(ctx context.Context, m *message, p *toolParams, out func(string)) (string, error) {
	l := &listen{uris: make(map[string]bool), out: out}
	for _, uri := range p.Notifications.ResourceSubscriptions {
		l.uris[uri] = true
	}
	list, _ := json.Marshal(append([]string{}, p.Notifications.ResourceSubscriptions...)) // encoding strings cannot fail
	meta := `"_meta":{"` + metaSubscription + `":` + string(m.ID) + `}`
	out(notification("notifications/subscriptions/acknowledged", `{"notifications":{"resourceSubscriptions":`+string(list)+`},`+meta+`}`))
	s.mu.Lock()
	s.listens[l] = string(m.ID)
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	delete(s.listens, l)
	s.mu.Unlock()
	return `{"resultType":"complete",` + meta + `}`, nil
}

// touch notifies the subscribers of a changed resource.
func (s *server) touch(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session, send := range s.aside {
		if s.wanted[session][uri] {
			send(notification("notifications/resources/updated", fmt.Sprintf(`{"uri":%q}`, uri)))
		}
	}
	for l, id := range s.listens {
		if l.uris[uri] {
			l.out(notification("notifications/resources/updated", fmt.Sprintf(`{"uri":%q,"_meta":{%q:%s}}`, uri, metaSubscription, id)))
		}
	}
}
