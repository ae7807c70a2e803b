package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

// testTime bounds each wait of a test. Only a failing test waits this long.
const testTime = time.Minute

// receivedRequest is one HTTP request that a script received.
type receivedRequest struct {
	verb   string
	method string // of the JSON-RPC message
	params wire.Raw
	result wire.Raw // of a response
	err    *wire.Error
	id     wire.ID
	header http.Header
}

// script is an HTTP server whose behavior a test configures. Its zero value answers
// as a plain server does.
type script struct {
	modern   bool
	revision string // of initialize; default 2025-11-25
	caps     string // capabilities; default {"tools":{"listChanged":true}}
	stateful bool   // opens sessions and requires them
	stream   http.HandlerFunc
	// on replaces the default answers, by method.
	on map[string]func(w http.ResponseWriter, r *http.Request, m wire.Message)

	mu       sync.Mutex
	seen     []receivedRequest
	sessions int    // number of opened sessions
	session  string // id of the current session
}

// forget makes the server forget its session.
func (s *script) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = "forgotten"
}

// got returns the requests that have this JSON-RPC or HTTP method.
func (s *script) got(what string) []receivedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []receivedRequest
	for _, r := range s.seen {
		if r.method == what || r.verb == what {
			out = append(out, r)
		}
	}
	return out
}

// trace lists the received requests in order.
func (s *script) trace() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.seen {
		name := r.method
		if name == "" {
			name = r.verb
		}
		out = append(out, name)
	}
	return out
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m wire.Message
	if r.Method == http.MethodPost {
		var err error
		if m, err = wire.Parse(body, wire.Limits{}); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	s.mu.Lock()
	s.seen = append(s.seen, receivedRequest{r.Method, m.Method, m.Params, m.Result, m.Error, m.ID, r.Header.Clone()})
	session := s.session
	s.mu.Unlock()
	overSSE := r.URL.Path == "/messages" // see sseScript; the checks below are about streamable HTTP
	if on := s.on[m.Method]; on != nil && m.Method != "" && !(overSSE && m.Method == wire.MethodInitialize) {
		on(w, r, m)
		return
	}
	if s.stateful && m.Method != wire.MethodInitialize && m.Method != wire.MethodDiscover && r.Header.Get(wire.HeaderSession) != session {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	switch {
	case r.Method == http.MethodDelete:
	case r.Method == http.MethodGet && s.stream != nil:
		s.stream(w, r)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.Method == wire.MethodInitialize && !s.modern:
		revision := cmp.Or(s.revision, "2025-11-25")
		if overSSE {
			revision = "2024-11-05"
		}
		s.initialize(w, m, revision)
	case m.Method == wire.MethodDiscover && s.modern:
		answerJSON(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+s.capabilities()+
			`,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"script","version":"1"}}}`)
	case m.Method == wire.MethodDiscover:
		http.Error(w, "no session", http.StatusBadRequest)
	case !m.IsRequest():
		w.WriteHeader(http.StatusAccepted)
	default:
		answerJSON(w, m, `{"content":[{"type":"text","text":"done"}]}`)
	}
}

func (s *script) initialize(w http.ResponseWriter, m wire.Message, revision string) {
	s.mu.Lock()
	s.sessions++
	if s.stateful {
		s.session = fmt.Sprintf("session-%d", s.sessions)
		w.Header().Set(wire.HeaderSession, s.session)
	}
	s.mu.Unlock()
	answerJSON(w, m, `{"protocolVersion":"`+revision+`","capabilities":`+s.capabilities()+`,"serverInfo":{"name":"script","version":"1"},"instructions":"be nice"}`)
}

func (s *script) capabilities() string {
	if s.caps == "" {
		return `{"tools":{"listChanged":true}}`
	}
	return s.caps
}

func answerJSON(w http.ResponseWriter, m wire.Message, result string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func answerError(w http.ResponseWriter, status int, id string, e string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, e)
}

// streaming begins an event stream and returns a function that writes one event at
// once.
func streaming(w http.ResponseWriter) func(format string, args ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	return func(format string, args ...any) {
		fmt.Fprintf(w, format+"\n\n", args...)
		w.(http.Flusher).Flush()
	}
}

// recordedNotifications records the notifications outside of calls.
type recordedNotifications chan string

func (i recordedNotifications) Notified(method string, params wire.Raw) { i <- method + string(params) }

func (i recordedNotifications) Renewed() { i <- "renewed" }

func (i recordedNotifications) Missed() { i <- "missed" }

// want receives notifications until all of notes have arrived, in any order. It
// fails on any other notification.
func (i recordedNotifications) want(t *testing.T, notes ...string) {
	t.Helper()
	for len(notes) > 0 {
		select {
		case got := <-i:
			at := slices.Index(notes, got)
			if at < 0 {
				t.Fatalf("notification %s, want one of %q", got, notes)
			}
			notes = slices.Delete(notes, at, at+1)
		case <-time.After(testTime):
			t.Fatalf("no notification, want %q", notes)
		}
	}
}

// conversation is a connection under test.
type conversation struct {
	protocol.Conn
	hello protocol.Hello
	in    recordedNotifications
	ended chan error         // receives the result of Run
	stop  context.CancelFunc // ends Run
}

// testOptions returns the options of a test against the server at this URL.
func testOptions(t *testing.T, to string, change ...func(*Options)) *Options {
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Name: "test", Server: Server{HTTP: &httpconn.Config{URL: u}, MaxMessage: 1 << 20}, Info: protocol.Info{Name: "gateway", Version: "1"}, Logger: zaptest.NewLogger(t)}
	for _, c := range change {
		c(&o)
	}
	return o.withDefaults()
}

// serve starts the handler.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// converse dials the server and runs the connection until the test ends.
func converse(t *testing.T, h http.Handler, change ...func(*Options)) *conversation {
	t.Helper()
	s := serve(t, h)
	c, err := tryConverse(t, s.URL, nil, change...)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	return c
}

func tryConverse(t *testing.T, to string, tools httpconn.ToolHeaders, change ...func(*Options)) (*conversation, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	c := &conversation{in: make(recordedNotifications, 100), ended: make(chan error, 1)}
	var err error
	c.Conn, c.hello, err = dialerOf(t, testOptions(t, to, change...), tools).Dial(ctx, c.in)
	if err != nil {
		return nil, err
	}
	ctx, c.stop = context.WithCancel(context.Background())
	go func() { c.ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		c.stop()
		c.waitEnd(t)
	})
	return c, nil
}

// dialerOf returns the dialer of the configured transport.
func dialerOf(t testing.TB, o *Options, tools httpconn.ToolHeaders) protocol.Dialer {
	t.Helper()
	d, err := o.dialer(tools)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// waitEnd returns the result of Run.
func (c *conversation) waitEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.ended:
		c.ended <- err
		return err
	case <-time.After(testTime):
		t.Fatal("Run does not return")
		return nil
	}
}

// client is a back channel that records notifications and answers asks.
type client struct {
	mu    sync.Mutex
	notes []string
	asked chan string
	reply string
}

func (c *client) Notify(method string, params wire.Raw) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, method+string(params))
}

func (c *client) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	c.asked <- method + string(params)
	if c.reply == "" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return wire.Raw(c.reply), nil
}

// tool returns a tool call of the client with this key.
func tool(key, params string, back call.BackChannel) *call.Call {
	if back == nil {
		back = protocol.NoClient{}
	}
	return &call.Call{
		Method: wire.MethodToolsCall, Params: wire.Raw(params), Back: back,
		Client: &call.Client{Key: key, Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"elicitation":{}}`)},
	}
}

// do makes a call and returns its result or its error as text: a server's error as
// JSON, an error of the connection as its reason.
func (c *conversation) do(t *testing.T, cl *call.Call) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	r, err := c.Call(ctx, cl)
	return outcome(r, err)
}

func outcome(r call.Result, err error) string {
	if f, ok := errors.AsType[*protocol.CallError](err); ok {
		return "call error: " + f.Reason
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return "error: " + string(e.Append(nil))
	}
	if err != nil {
		return err.Error()
	}
	return string(r.Raw)
}

const doneResult = `{"content":[{"type":"text","text":"done"}]}`

func contains(t *testing.T, what, got, part string) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s: %q does not contain %q", what, got, part)
	}
}
