package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// client is a scripted client of one era. Only one goroutine may use it.
type client struct {
	*soak
	revision string
	rand     *rand.Rand
	session  string // session id of a legacy client
	calls    int    // in this session
	gateway  string // the gateway of all requests, "" for the next one with each request
}

// url returns where the next request goes.
func (c *client) url() string {
	if c.gateway != "" {
		return c.gateway
	}
	return c.next()
}

// codeInvalidParams is the error code for a refused request state.
const codeInvalidParams = -32602

// Request ids are unique in the whole run, so that an answer on the wrong stream is detected.
var ids atomic.Int64

func nextID() string { return fmt.Sprint(ids.Add(1)) }

// canAnswer are the capabilities that clients declare.
const canAnswer = `"elicitation":{"form":{}},"sampling":{}`

// send posts one message and returns the response. The caller must close the body.
func (c *client) send(ctx context.Context, method, name, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", c.revision)
	if c.revision == modern {
		r.Header.Set("Mcp-Method", method)
		if name != "" {
			r.Header.Set("Mcp-Name", name)
		}
	} else {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	return c.http.Do(r)
}

// event is one message of an answer, with the id of its event.
type event struct {
	message
	id string
}

// errCut reports an incomplete answer.
var errCut = errors.New("the answer broke off")

// events calls each with every message of an answer until the end or until each returns false. Events without data are passed for their id.
func events(resp *http.Response, each func(event) bool) error {
	switch kind := resp.Header.Get("Content-Type"); {
	case strings.HasPrefix(kind, "application/json"):
		var e event
		if err := json.NewDecoder(resp.Body).Decode(&e.message); err != nil {
			return errors.Join(errCut, err)
		}
		each(e)
		return nil
	case !strings.HasPrefix(kind, "text/event-stream"):
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // only for the error
		return fmt.Errorf("unexpected answer with status %s and type %q: %s", resp.Status, kind, text)
	}
	var e event
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return errors.Join(errCut, err)
		}
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "id: "):
			e.id = line[4:]
		case strings.HasPrefix(line, "data: {"):
			if err := json.Unmarshal([]byte(line[6:]), &e.message); err != nil {
				return fmt.Errorf("an event without a valid message: %w: %s", err, line)
			}
		case line == "":
			if !each(e) {
				return nil
			}
			e = event{}
		}
	}
}

// attempt is one request of a call, with all messages for it.
type attempt struct {
	call     *call
	id       string
	progress int     // number of notifications so far
	lastID   string  // id of the last event
	answers  []event // responses

	mu   sync.Mutex
	said []string // notifications and answers of the client
}

// take handles one message for the request.
func (a *attempt) take(c *client, e event) {
	if e.id != "" {
		a.lastID = e.id
	}
	switch {
	case e.Method == "" && e.ID == nil && e.Error == nil: // an event without data
	case e.isResponse():
		if string(e.ID) != a.id {
			c.violation("call %s (%s) got the response to request %s: %s %v", a.call.token, a.call.to.name, e.ID, e.Result, e.Error)
		}
		a.answers = append(a.answers, e)
	case e.Method == "notifications/progress":
		a.progress++
		var p struct {
			ProgressToken, Message string
			Progress               int
		}
		if err := json.Unmarshal(e.Params, &p); err != nil || p.ProgressToken != a.call.token || p.Message != a.call.token {
			c.violation("call %s got the progress %s (%v)", a.call.token, e.Params, err)
		}
		if p.Progress != a.progress && !a.call.rounds {
			c.violation("call %s (%s, %s) got progress %d, want %d", a.call.token, a.call.to.name, a.call.script, p.Progress, a.progress)
		}
	case e.ID != nil:
		c.reply(a, e)
	case e.Method == "notifications/cancelled" && a.call.disturbed(): // the asking upstream was restarted
	default:
		c.violation("call %s got %s", a.call.token, e.Method)
	}
}

// call is one call of a tool.
type call struct {
	to     *upstream
	token  string
	script string
	rounds bool // the call has several requests, and progress continues in the next one
	job    bool // the call runs as a task
	epoch  int64
	store  int64             // the epoch of the store
	given  map[string]string // the answer's echo by the key of its question
}

func (c *client) newCall(to *upstream, script string) *call {
	c.calls++
	c.count.Add(1)
	k := &call{to: to, token: fmt.Sprintf("c%d", c.tokens.Add(1)), script: script, epoch: to.epoch.Load(), store: c.storeEpoch(), given: make(map[string]string)}
	if k.store%2 == 1 {
		c.apart.Add(1)
	}
	return k
}

// disturbed reports whether the upstream was restarted during the call. Such a call may fail.
func (k *call) disturbed() bool { return k.to.epoch.Load() != k.epoch || k.epoch%2 == 1 }

// arguments returns the arguments of the call, as members of params.
func (k *call) arguments(tool string) string {
	return fmt.Sprintf(`"name":%q,"arguments":{"token":%q,"script":%q}`, k.to.name+"__"+tool, k.token, k.script)
}

// echo returns the answer to a question of the call.
func (k *call) echo(c *client, key string) string {
	k.given[key] = fmt.Sprintf("%s/%s/%x", k.token, key, c.rand.Uint32())
	return k.given[key]
}

// answerTo returns a client's result for a question.
func answerTo(method, echo string) string {
	if method == "sampling/createMessage" {
		return fmt.Sprintf(`{"role":"assistant","model":"m","content":{"type":"text","text":%q}}`, echo)
	}
	return fmt.Sprintf(`{"action":"accept","content":{"echo":%q}}`, echo)
}

// keyOf returns the key of a question in the params of a request. It reports a question that does not belong to this call.
func (k *call) keyOf(c *client, method string, params json.RawMessage) string {
	var p struct {
		Message  string
		Messages []struct{ Content struct{ Text string } }
	}
	if err := json.Unmarshal(params, &p); err != nil {
		c.violation("call %s got the question %s", k.token, params)
		return ""
	}
	text := strings.TrimPrefix(p.Message, k.to.name+": ")
	if method == "sampling/createMessage" && len(p.Messages) == 1 {
		text = p.Messages[0].Content.Text
	}
	var token, key string
	if n, _ := fmt.Sscanf(text, "ask %s %s", &token, &key); n != 2 || token != k.token {
		c.violation("call %s got the question %q", k.token, text)
	}
	return key
}

// judge checks the outcome of a call. It reports whether there is a result.
func (c *client) judge(k *call, a *attempt) bool {
	if len(a.answers) != 1 {
		c.violation("call %s (%s, %s) got %d answers", k.token, k.to.name, k.script, len(a.answers))
		return false
	}
	m := a.answers[0].message
	if m.Error != nil {
		if !k.disturbed() && !(k.needsStore() && c.wasApart(k)) {
			c.violation("call %s (%s, %s) failed: %v", k.token, k.to.name, k.script, m.Error)
		}
		c.excused.Add(1)
		return false
	}
	var r struct {
		Content           []struct{ Text string }
		StructuredContent struct {
			Token  string
			Echoes []string
		}
	}
	if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Content) != 1 || r.Content[0].Text != k.token || r.StructuredContent.Token != k.token {
		c.violation("call %s (%s) got the result %s (%v)", k.token, k.to.name, m.Result, err)
		return false
	}
	c.answered.Add(1)
	c.judgeEchoes(k, r.StructuredContent.Echoes)
	return true
}

// judgeEchoes compares the answers that the server received with the answers to its questions, in the order of the script.
func (c *client) judgeEchoes(k *call, got []string) {
	var want []question
	steps := parseScript(k.script)
	for i := range steps {
		want = append(want, steps.questions(i)...)
	}
	if len(got) != len(want) {
		c.violation("call %s: %d answered questions, want %d", k.token, len(got), len(want))
		return
	}
	for i, q := range want {
		switch {
		case got[i] == unanswered && k.to.ambiguous:
			c.refused.Add(1) // several clients had calls in flight there, so the question's client was ambiguous
		case got[i] != k.given[q.key] || got[i] == "":
			c.violation("call %s (%s, %s): the server got the answer %q to %s, want %q", k.token, k.to.name, k.script, got[i], q.key, k.given[q.key])
		default:
			c.asked.Add(1)
		}
	}
}
