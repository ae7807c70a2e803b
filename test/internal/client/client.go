package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	// runWithin bounds one run of a client.
	runWithin = 5 * time.Minute
	// progressWithin bounds the wait for progress updates that are handled after the result of their call.
	progressWithin = 30 * time.Second
)

// Target is the server to connect to. Exactly one of URL, SSE and Command is set.
type Target struct {
	URL     string            `json:"url,omitempty"`     // streamable HTTP
	OAuth   bool              `json:"oauth,omitempty"`   // with URL: get a token from the server's authorization server (V2 and GoSDK)
	Headers map[string]string `json:"headers,omitempty"` // with URL: sent with each request (V1, V2 and GoSDK)
	Restart bool              `json:"-"`                 // with URL: the server may restart, so GoSDK opens broken streams again, as the other clients always do
	SSE     string            `json:"sse,omitempty"`     // HTTP+SSE: the URL of the event stream
	Command []string          `json:"command,omitempty"` // stdio
	Env     map[string]string `json:"env,omitempty"`     // for Command
}

// Step is one request: a JSON-RPC method with its params. A method that lists follows every page. The inspector supports the first two members only.
type Step struct {
	Method   string         `json:"method"`
	Params   map[string]any `json:"params,omitempty"`
	Untyped  bool           `json:"untyped,omitempty"`  // TypeScript clients: send any method with unchanged params, and accept any object as the result
	Progress int            `json:"progress,omitempty"` // ask for progress, and wait a bounded time for this number of updates
	Cancel   int            `json:"cancel,omitempty"`   // ask for progress, and cancel the request at the update with this number, from 1
	During   *Step          `json:"during,omitempty"`   // sent while this step runs; its error is an error of this step
	Await    []Want         `json:"await,omitempty"`    // answering clients: wait for these events
	Until    *Want          `json:"until,omitempty"`    // answering clients: repeat the request after each event with this method until the result contains the text
	Within   int            `json:"within,omitempty"`   // timeout of Await and Until in milliseconds; 0 for the default
}

// Want is an event that a step waits for: its method, and a text in the JSON of its params.
type Want struct {
	Method string `json:"method"`
	Has    string `json:"has,omitempty"`
}

// Event is a request or notification that the client received.
type Event struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Is reports whether the event matches w.
func (e Event) Is(w Want) bool {
	return e.Method == w.Method && strings.Contains(string(e.Params), w.Has)
}

// Error is the error that the client reported. Code is 0 if the client did not report one.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Outcome is the outcome of one step: a result or an error. The result of a list is a List.
type Outcome struct {
	Method   string            `json:"method"`
	Result   json.RawMessage   `json:"result"`
	Error    *Error            `json:"error"`
	Progress []json.RawMessage `json:"progress"` // params of the updates; the inspector shows none
	Events   []Event           `json:"events"`   // answering clients: requests and notifications since the previous step, without progress
}

// List is the result of a step that lists.
type List struct {
	Items []map[string]any `json:"items"`
	Pages int              `json:"pages"` // 0 if the client does not report them
}

// Transcript is the outcome of a run: an outcome for each step, in the order of the steps.
type Transcript struct {
	Connect *Outcome // the client's description of the server; nil if the client does not report one
	Steps   []Outcome
}

// Era of the client's connection, spelled as in the gateway's configuration.
const (
	Legacy = "legacy"
	Modern = "modern"
)

// Client is a real MCP client in one mode.
type Client interface {
	Name() string
	Era() string
	// Can reports whether the client has a function for the method.
	Can(method string) bool
	// Run connects to the target, carries out the steps one after another and closes the connection. It fails the test if the client cannot
	// connect or does not finish. Errors of single steps are outcomes.
	Run(t testing.TB, target Target, steps []Step) Transcript
}

// Auto returns the TypeScript SDK's second-generation client that speaks both eras and falls back.
func Auto() Client { return node{name: "v2 auto", script: "clients/v2.mjs", mode: "auto"} }

// All returns the clients for streamable HTTP, one for every mode with a fixed era.
func All() []Client {
	return []Client{
		V1(), V2(Legacy), V2(Modern), Inspector(Legacy), Inspector(Modern), GoSDK(Legacy), GoSDK(Modern),
	}
}

// Answering returns the client with a user, a model and a file system. It declares every client capability, answers every request, listens to
// changes of the lists, and records the requests and notifications that it receives. Its user is called Ann and likes blue. Its model uses the
// offered tool and knows the capital of France. Its only root is file:///home/ann. The inspector cannot answer.
func Answering(c Client) Client {
	switch c := c.(type) {
	case node:
		c.answers = true
		return c
	case goSDK:
		c.answers = true
		return c
	}
	panic(fmt.Sprintf("%s cannot answer", c.Name()))
}

// Declining returns an answering client whose user declines every question.
func Declining(c Client) Client {
	switch c := Answering(c).(type) {
	case node:
		c.declines = true
		return c
	case goSDK:
		c.declines = true
		return c
	}
	return nil // Answering supports no others
}

// Decode decodes the result of an outcome as a T. It fails the test if there is no such result.
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

// known are the methods of a plan.
var known = map[string]bool{
	"tools/list": true, "resources/list": true, "resources/templates/list": true, "prompts/list": true, "tools/call": true,
	"resources/read": true, "prompts/get": true, "completion/complete": true, "logging/setLevel": true, "ping": true,
	"resources/subscribe": true, "resources/unsubscribe": true,
}

// can reports whether a full client has a function for the method. The modern era has neither ping nor logging/setLevel.
func can(method, era string) bool {
	return known[method] && (era == Legacy || method != "ping" && method != "logging/setLevel")
}

func mustJSON(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("cannot encode a plan or a result: %v", err))
	}
	return text
}
