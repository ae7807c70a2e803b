package soak

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"

	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	tasksExtension   = "io.modelcontextprotocol/tasks"
)

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *fault          `json:"error"`

	session string // of the request, over HTTP
}

func (m *message) isResponse() bool { return m.Method == "" }

type fault struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (f *fault) Error() string { return fmt.Sprintf("%d: %s %s", f.Code, f.Message, f.Data) }

func request(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}

func notification(method, params string) string {
	return `{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`
}

func response(id json.RawMessage, result string, err error) string {
	if f, ok := err.(*fault); ok {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, f.Code, f.Message)
	}
	if err != nil {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%q}}`, id, err)
	}
	return `{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`
}

// server is the state of a scripted server of one era, over any transport. Its methods may be called by many goroutines.
type server struct {
	revision string

	mu        sync.Mutex
	begun     map[string]bool               // calls that were received, by token
	events    map[string]int                // numbers of events
	journal   *os.File                      // on stdio: the events and the received calls
	asked     int                           // number of questions of a legacy server
	asks      map[string]chan message       // open questions by id
	running   map[string]context.CancelFunc // running requests by session and id
	tasks     map[string]task
	wanted    map[string]map[string]bool    // resources that a legacy client subscribed to, by session
	listens   map[*listen]string            // subscriptions of modern clients, with the ids of their requests
	aside     map[string]func(text string)  // receivers of a legacy server's messages outside of requests, by session
	violation func(format string, a ...any) // reports a violation
}

type listen struct {
	uris map[string]bool
	out  func(text string)
}

type task struct {
	token string
	ends  time.Time
}

func newServer(revision string, wrong func(string, ...any)) *server {
	s := &server{revision: revision, begun: make(map[string]bool), events: make(map[string]int), violation: wrong}
	s.forget()
	return s
}

// forget is the effect of a restart: the server loses its state, except for the record of received calls.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.running {
		cancel()
	}
	s.asks, s.running, s.tasks = make(map[string]chan message), make(map[string]context.CancelFunc), make(map[string]task)
	s.wanted, s.listens, s.aside = make(map[string]map[string]bool), make(map[*listen]string), make(map[string]func(string))
}

// toolParams are the params of tools/call, and of requests about tasks and resources.
type toolParams struct {
	Name      string
	Arguments struct{ Token, Script, URI string }
	Meta      struct {
		ProgressToken json.RawMessage `json:"progressToken"`
		Capabilities  struct {
			Extensions map[string]json.RawMessage
		} `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
	Task           json.RawMessage
	TaskID         string
	URI            string
	RequestID      json.RawMessage
	RequestState   string
	InputResponses map[string]json.RawMessage
	Notifications  struct{ ResourceSubscriptions []string }
}

// take serves one message. It sends preceding messages to out and returns the answer, "" if there is none.
func (s *server) take(ctx context.Context, m *message, out func(text string)) string {
	var p toolParams
	if len(m.Params) > 0 {
		if err := json.Unmarshal(m.Params, &p); err != nil {
			s.violation("invalid params: %v: %s", err, m.Params)
		}
	}
	switch {
	case m.isResponse():
		s.answered(m)
		return ""
	case m.Method == "notifications/cancelled":
		s.mu.Lock()
		cancel := s.running[m.session+string(p.RequestID)]
		s.mu.Unlock()
		if cancel != nil {
			cancel()
		}
		return ""
	case m.ID == nil:
		return ""
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.running[m.session+string(m.ID)] = cancel
	s.mu.Unlock()
	result, err := s.serve(ctx, m, &p, out)
	s.mu.Lock()
	delete(s.running, m.session+string(m.ID))
	s.mu.Unlock()
	if ctx.Err() != nil && m.Method != "subscriptions/listen" {
		return "" // a cancelled request gets no answer
	}
	return response(m.ID, result, err)
}

func (s *server) serve(ctx context.Context, m *message, p *toolParams, out func(string)) (string, error) {
	const capabilities = `"tools":{},"resources":{"subscribe":true}`
	const tools = `"tools":[{"name":"run","inputSchema":{"type":"object"}},{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},` +
		`{"name":"touch","inputSchema":{"type":"object"}},{"name":"die","inputSchema":{"type":"object"}}]`
	const resources = `"resources":[{"uri":"mem://r/0","name":"r0"},{"uri":"mem://r/1","name":"r1"},{"uri":"mem://r/2","name":"r2"}]`
	complete := `{`
	if s.revision == modern {
		complete = `{"resultType":"complete","ttlMs":1000,"cacheScope":"public",`
	}
	switch m.Method {
	case "initialize":
		return `{"protocolVersion":"` + legacy + `","serverInfo":{"name":"s","version":"1"},"capabilities":{` + capabilities +
			`,"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}}`, nil
	case "server/discover":
		if s.revision == legacy {
			return "", &fault{Code: -32601, Message: "method not found"}
		}
		return complete + `"supportedVersions":["` + modern + `"],"capabilities":{` + capabilities + `,"extensions":{"` + tasksExtension + `":{}}}}`, nil
	case "ping", "logging/setLevel":
		return `{}`, nil
	case "tools/list":
		return complete + tools + `}`, nil
	case "resources/list":
		return complete + resources + `}`, nil
	case "resources/templates/list":
		return complete + `"resourceTemplates":[]}`, nil
	case "resources/subscribe", "resources/unsubscribe":
		s.mu.Lock()
		if s.wanted[m.session] == nil {
			s.wanted[m.session] = make(map[string]bool)
		}
		s.wanted[m.session][p.URI] = m.Method == "resources/subscribe"
		s.mu.Unlock()
		return `{}`, nil
	case "subscriptions/listen":
		return s.listen(ctx, m, p, out)
	case "tasks/get", "tasks/result", "tasks/cancel":
		return s.aboutTask(ctx, m.Method, p.TaskID)
	case "tools/call":
		switch p.Name {
		case "run":
			return s.run(ctx, p, out)
		case "job":
			return s.job(p)
		case "touch":
			s.touch(p.Arguments.URI)
			return result(s.revision, p.Arguments.Token, nil), nil
		case "die":
			os.Exit(3)
		}
	}
	return "", &fault{Code: -32601, Message: "method not found: " + m.Method}
}

// result returns the result of a call: its token, and the answers to its questions.
func result(revision, token string, echoes []string) string {
	kind := ""
	if revision == modern {
		kind = `"resultType":"complete",`
	}
	list, _ := json.Marshal(append([]string{}, echoes...)) // encoding strings cannot fail
	return fmt.Sprintf(`{%s"content":[{"type":"text","text":%q}],"structuredContent":{"token":%q,"echoes":%s}}`, kind, token, token, list)
}

// state is the content of a modern server's requestState.
type state struct {
	Token  string
	Step   int
	Echoes []string
}

// run performs the script of a call.
func (s *server) run(ctx context.Context, p *toolParams, out func(string)) (string, error) {
	token, steps := p.Arguments.Token, parseScript(p.Arguments.Script)
	progress := func(n int) {
		if p.Meta.ProgressToken != nil {
			out(notification("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":%q}`, p.Meta.ProgressToken, n, token)))
		}
	}
	at := state{Token: token}
	ask := func(ctx context.Context, questions []question) ([]string, bool, error) {
		return s.askAll(ctx, token, questions, out)
	}
	if s.revision == modern {
		if p.RequestState != "" {
			text, err := base64.StdEncoding.DecodeString(p.RequestState)
			if err == nil {
				err = json.Unmarshal(text, &at)
			}
			if err != nil || at.Token != token {
				s.violation("call %s has the state %q of call %q", token, p.RequestState, at.Token)
			}
		}
		ask = func(_ context.Context, questions []question) ([]string, bool, error) {
			echoes, ok := s.given(token, questions, p.InputResponses)
			p.InputResponses = nil // they are valid for one step
			return echoes, ok, nil
		}
	}
	if p.RequestState == "" {
		s.begin(token)
	}
	step, echoes, err := steps.perform(ctx, at.Step, progress, ask)
	echoes = append(at.Echoes, echoes...)
	switch {
	case err != nil:
		return "", err
	case step == len(steps):
		return result(s.revision, token, echoes), nil
	}
	text, _ := json.Marshal(state{token, step, echoes}) // encoding it cannot fail
	var requests []string
	for _, q := range steps.questions(step) {
		requests = append(requests, fmt.Sprintf(`%q:{"method":%q,"params":%s}`, q.key, q.method(), q.params(token)))
	}
	return fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%s},"requestState":%q}`,
		strings.Join(requests, ","), base64.StdEncoding.EncodeToString(text)), nil
}

// given returns the answers of a retry. It returns false if one of them is missing or invalid: then all questions are asked again.
func (s *server) given(token string, questions []question, responses map[string]json.RawMessage) ([]string, bool) {
	var echoes []string
	for _, q := range questions {
		echo, ok := echoOf(q.kind, responses[q.key])
		if !ok {
			return nil, false
		}
		s.check(token, q, echo)
		echoes = append(echoes, echo)
	}
	return echoes, true
}

// check reports an answer that does not belong to the question.
func (s *server) check(token string, q question, echo string) {
	if echo != unanswered && !strings.HasPrefix(echo, token+"/"+q.key+"/") {
		s.violation("question %s of call %s got the answer %q", q.key, token, echo)
	}
}

// unanswered is the echo of a question that the gateway answered for the client.
const unanswered = "-"

// echoOf returns the echo in a client's answer, false if the answer is invalid.
func echoOf(kind byte, answer json.RawMessage) (string, bool) {
	var a struct {
		Action  string
		Role    string
		Content struct{ Echo, Text string }
	}
	if json.Unmarshal(answer, &a) != nil {
		return "", false
	}
	switch {
	case kind == 'e' && a.Action == "accept":
		return a.Content.Echo, true
	case kind == 'e' && a.Action == "cancel":
		return unanswered, true
	case kind == 's' && a.Role == "assistant":
		return a.Content.Text, true
	}
	return "", false
}
