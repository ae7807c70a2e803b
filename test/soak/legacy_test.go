package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// open opens a session.
func (c *client) open(ctx context.Context) {
	c.session, c.calls = "", 0
	resp, err := c.send(ctx, "initialize", "", request("0", "initialize",
		`{"protocolVersion":"`+legacy+`","capabilities":{`+canAnswer+`},"clientInfo":{"name":"soak","version":"1"}}`))
	if err != nil {
		c.violation("initialize: %v", err)
		return
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body) // the result does not matter here
	if c.session = resp.Header.Get("Mcp-Session-Id"); c.session == "" {
		c.violation("initialize: %s", resp.Status)
	}
	c.notify(ctx, notification("notifications/initialized", `{}`))
}

// say sends a notification or an answer that belongs to a request.
func (c *client) say(a *attempt, text string) {
	a.mu.Lock()
	a.said = append(a.said, text)
	a.mu.Unlock()
	c.notify(context.Background(), text)
}

// notify sends a notification.
func (c *client) notify(ctx context.Context, text string) {
	resp, err := c.send(ctx, "", "", text)
	if err != nil {
		c.violation("%s: %v", text, err)
		return
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body) // the body is empty
	if resp.StatusCode != http.StatusAccepted {
		c.violation("%s: %s", text, resp.Status)
	}
}

// leave closes the session, or abandons it.
func (c *client) leave() {
	if c.rand.IntN(4) > 0 {
		c.close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, c.session)
}

// close closes the session.
func (c *client) close() {
	if c.store != nil {
		c.store.closed(c.session)
	}
	resp, err := c.get(context.Background(), http.MethodDelete, "")
	if err != nil {
		c.violation("DELETE: %v", err)
		return
	}
	resp.Body.Close()
}

func (c *client) get(ctx context.Context, verb, lastEvent string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, verb, c.url(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", c.session)
	r.Header.Set("MCP-Protocol-Version", c.revision)
	if lastEvent != "" {
		r.Header.Set("Last-Event-ID", lastEvent)
	}
	return c.http.Do(r)
}

// reply answers a question from the stream of a call.
func (c *client) reply(a *attempt, e event) {
	if c.revision == modern {
		c.violation("call %s: a modern client got the request %s", a.call.token, e.Method)
		return
	}
	key := a.call.keyOf(c, e.Method, e.Params)
	c.say(a, `{"jsonrpc":"2.0","id":`+string(e.ID)+`,"result":`+answerTo(e.Method, a.call.echo(c, key))+`}`)
}

// legacyParams returns the params of a call, with a progress token.
func (k *call) legacyParams() string {
	return fmt.Sprintf(`{%s,"_meta":{"progressToken":%q}}`, k.arguments("run"), k.token)
}

// legacyCall makes one call and answers its questions.
func (c *client) legacyCall(to *upstream, script string) {
	release := to.enter(script)
	defer release()
	k := c.newCall(to, script)
	a := &attempt{call: k, id: nextID()}
	resp, err := c.send(context.Background(), "tools/call", "", request(a.id, "tools/call", k.legacyParams()))
	if err != nil {
		c.violation("call %s: %v", k.token, err)
		return
	}
	defer resp.Body.Close()
	defer c.insist(a)()
	if err := events(resp, func(e event) bool { a.take(c, e); return true }); err != nil {
		c.violation("call %s (%s, %s): %v", k.token, to.name, script, err)
		return
	}
	if c.judge(k, a) && a.progress != parseScript(script).progresses() {
		c.violation("call %s (%s, %s) got %d progress notifications", k.token, to.name, script, a.progress)
	}
}

// legacyCancel makes a call that waits, and cancels it.
func (c *client) legacyCancel(to *upstream) {
	release := to.enter("")
	defer release()
	k := c.newCall(to, "p1 h")
	a := &attempt{call: k, id: nextID()}
	resp, err := c.send(context.Background(), "tools/call", "", request(a.id, "tools/call", k.legacyParams()))
	if err != nil {
		c.violation("call %s: %v", k.token, err)
		return
	}
	defer resp.Body.Close()
	defer c.insist(a)()
	cancelled := false
	err = events(resp, func(e event) bool {
		a.take(c, e)
		if !cancelled && e.Method != "" {
			cancelled = true
			c.say(a, notification("notifications/cancelled", `{"requestId":`+a.id+`}`))
		}
		return true
	})
	c.cancelled.Add(1)
	switch {
	case err != nil:
		c.violation("the cancelled call %s: %v", k.token, err)
	case len(a.answers) > 1:
		c.violation("the cancelled call %s got %d answers", k.token, len(a.answers))
	case len(a.answers) == 1 && a.answers[0].Error == nil:
		c.violation("the cancelled call %s got the result %s", k.token, a.answers[0].Result)
	case len(a.answers) == 1 && !k.disturbed():
		c.violation("the cancelled call %s failed: %v", k.token, a.answers[0].Error)
	}
}

// legacyResume makes a call, loses the connection once or more, and resumes the stream.
func (c *client) legacyResume(to *upstream) {
	release := to.enter("")
	defer release()
	script := []string{"p1 w2 p1 w2 p2", "p3", "p1 w1 p1"}[c.rand.IntN(3)]
	k := c.newCall(to, script)
	a := &attempt{call: k, id: nextID()}
	post, lose := context.WithCancel(context.Background())
	defer lose()
	resp, err := c.send(post, "tools/call", "", request(a.id, "tools/call", k.legacyParams()))
	if err != nil {
		c.violation("call %s: %v", k.token, err)
		return
	}
	for tries := 0; ; tries++ {
		if resp.StatusCode == http.StatusNoContent { // the stream is complete
			resp.Body.Close()
			break
		}
		left := c.rand.IntN(3) + 1 // events until the connection is lost
		err := events(resp, func(e event) bool {
			a.take(c, e)
			left--
			return left > 0 || tries > 8
		})
		lose()
		resp.Body.Close()
		if err != nil {
			c.violation("call %s, connection %d: %v", k.token, tries, err)
			return
		}
		if a.lastID == "" || tries > 8 {
			break // the response was not a stream
		}
		if c.rand.IntN(4) == 0 {
			time.Sleep(time.Duration(c.rand.IntN(4)) * time.Millisecond) // a slow client
		}
		if resp, err = c.resume(k, a.lastID); err != nil {
			c.violation("call %s, connection %d: %v", k.token, tries, err)
			return
		}
		c.resumed.Add(1)
	}
	if c.judge(k, a) && a.progress != parseScript(script).progresses() {
		c.violation("call %s (%s, %s) got %d progress notifications over its connections", k.token, to.name, script, a.progress)
	}
}

// ask sends one request and returns its result.
func (c *client) ask(ctx context.Context, method, name, params string) (json.RawMessage, error) {
	resp, err := c.send(ctx, method, name, request(nextID(), method, params))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var got *message
	if err := events(resp, func(e event) bool {
		if e.isResponse() && e.ID != nil {
			got = &e.message
		}
		return true
	}); err != nil {
		return nil, err
	}
	switch {
	case got == nil:
		return nil, errCut
	case got.Error != nil:
		return nil, got.Error
	}
	return got.Result, nil
}

// legacyTask runs a call as a task and fetches its result.
func (c *client) legacyTask(to *upstream) {
	release := to.enter("")
	defer release()
	k := c.newCall(to, "")
	k.job = true
	raw, err := c.ask(context.Background(), "tools/call", "", `{`+k.arguments("job")+`,"task":{"ttl":60000}}`)
	var made struct{ Task struct{ TaskID string } }
	if err == nil {
		err = json.Unmarshal(raw, &made)
	}
	if err == nil && made.Task.TaskID != "" {
		raw, err = c.ask(context.Background(), "tasks/result", "", fmt.Sprintf(`{"taskId":%q}`, made.Task.TaskID))
	} else if err == nil && to.revision == legacy {
		c.violation("task %s of %s was not created: %s", k.token, to.name, raw)
	}
	c.judgeTask(k, raw, err)
}

// judgeTask checks the result of a call that ran as a task.
func (c *client) judgeTask(k *call, raw json.RawMessage, err error) {
	a := &attempt{call: k, answers: []event{{message: message{Result: raw}}}}
	if err != nil {
		a.answers[0].Error = &fault{Message: err.Error()}
	}
	if c.judge(k, a) {
		c.tasked.Add(1)
	}
}
