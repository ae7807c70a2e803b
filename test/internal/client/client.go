package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	// runWithin bounds one run of a client, whatever it does.
	runWithin = 5 * time.Minute
	// progressWithin bounds the wait for updates that have not been handled yet when their call's result is.
	progressWithin = 30 * time.Second
)

// Target is the server to connect to. One of URL, SSE and Command is set.
type Target struct {
	URL     string            `json:"url,omitempty"`     // streamable HTTP
	OAuth   bool              `json:"oauth,omitempty"`   // beside URL: get a token of the server's authorization server (V2 and GoSDK)
	SSE     string            `json:"sse,omitempty"`     // HTTP+SSE, by the URL of the event stream
	Command []string          `json:"command,omitempty"` // stdio
	Env     map[string]string `json:"env,omitempty"`     // for Command
}

// Step is one request: a JSON-RPC method with its params. Methods that list follow every page. The inspector knows the first two members only.
type Step struct {
	Method   string         `json:"method"`
	Params   map[string]any `json:"params,omitempty"`
	Loose    bool           `json:"loose,omitempty"`    // of the TypeScript clients: send it as it stands, whatever the method, and take any object for a result
	Progress int            `json:"progress,omitempty"` // ask for progress, and wait a bounded time for so many updates
	Cancel   bool           `json:"cancel,omitempty"`   // ask for progress, and cancel the request at the first update
	During   *Step          `json:"during,omitempty"`   // sent while this one runs; an error of it is an error of this step
	Await    []Want         `json:"await,omitempty"`    // of a client that answers: wait for these events
	Until    *Want          `json:"until,omitempty"`    // as Await: repeat the request after each event with that method until its result has that text
	Within   int            `json:"within,omitempty"`   // milliseconds that events are waited for at most; 0 for long
}

// Want is an event that a step waits for: with that method, and with that text in the JSON of its params.
type Want struct {
	Method string `json:"method"`
	Has    string `json:"has,omitempty"`
}

// Event is something that a client was asked or told.
type Event struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Is reports whether the event is the wanted one.
func (e Event) Is(w Want) bool {
	return e.Method == w.Method && strings.Contains(string(e.Params), w.Has)
}

// Error is what the client reported instead of a result. Code is 0 when the client did not pass one on.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Outcome is what came of one step: a result or an error. A list's result is a List.
type Outcome struct {
	Method   string            `json:"method"`
	Result   json.RawMessage   `json:"result"`
	Error    *Error            `json:"error"`
	Progress []json.RawMessage `json:"progress"` // params of the updates; the inspector shows none
	Events   []Event           `json:"events"`   // of a client that answers: what it was asked and told since the step before, but for progress
}

// List is the result of a step that lists.
type List struct {
	Items []map[string]any `json:"items"`
	Pages int              `json:"pages"` // 0 when the client does not say
}

// Transcript is what came of a whole run: an outcome for each step, in the order of the steps.
type Transcript struct {
	Connect *Outcome // what the client learned of the server; nil when the client does not say
	Steps   []Outcome
}

// Era of the connection that a client makes, as the gateway's configuration spells it.
const (
	Legacy = "legacy"
	Modern = "modern"
)

// Client is one real MCP client in one mode.
type Client interface {
	Name() string
	Era() string
	// Can reports whether the client has a function for the method.
	Can(method string) bool
	// Run connects to the target, carries out the steps one after another and closes. It fails the test when the client cannot connect or
	// does not come to its end; errors of single steps are outcomes.
	Run(t testing.TB, target Target, steps []Step) Transcript
}

// All are the clients that work over streamable HTTP, in every mode that has an era of its own.
func All() []Client {
	return []Client{
		V1(), V2(Legacy), V2(Modern), Inspector(Legacy), Inspector(Modern), GoSDK(Legacy), GoSDK(Modern),
	}
}

// Answering returns the client with a user, a model and a file system behind it: it declares that it can be asked everything, answers it, listens to
// changes of the lists, and records what it was asked and told. Its user is called Ann and likes blue, its model uses the tool that it is offered and
// knows the capital of France, its one root is file:///home/ann. There is no such inspector.
func Answering(c Client) Client {
	switch c := c.(type) {
	case node:
		c.answers = true
		return c
	case goSDK:
		c.answers = true
		return c
	}
	panic(fmt.Sprintf("%s has nobody to ask", c.Name()))
}

// Declining returns what [Answering] does, with a user who says no to every question.
func Declining(c Client) Client {
	switch c := Answering(c).(type) {
	case node:
		c.declines = true
		return c
	case goSDK:
		c.declines = true
		return c
	}
	return nil // Answering knows no others
}

// Decode reads the result of an outcome into a value of type T and fails the test when there is none.
func Decode[T any](t testing.TB, outcome Outcome) T {
	t.Helper()
	var value T
	if outcome.Error != nil {
		t.Fatalf("%s: error %d: %s %s", outcome.Method, outcome.Error.Code, outcome.Error.Message, outcome.Error.Data)
	}
	if err := json.Unmarshal(outcome.Result, &value); err != nil {
		t.Fatalf("%s: result %s: %v", outcome.Method, outcome.Result, err)
	}
	return value
}

// known are the methods that a plan may name.
var known = map[string]bool{
	"tools/list": true, "resources/list": true, "resources/templates/list": true, "prompts/list": true, "tools/call": true,
	"resources/read": true, "prompts/get": true, "completion/complete": true, "logging/setLevel": true, "ping": true,
	"resources/subscribe": true, "resources/unsubscribe": true,
}

// can is what a full client has functions for. The modern era has neither ping nor logging/setLevel.
func can(method, era string) bool {
	return known[method] && (era == Legacy || method != "ping" && method != "logging/setLevel")
}

func mustJSON(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("a plan and a client's result are made of JSON: %v", err))
	}
	return text
}
