package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// sseScript is a server of revision 2024-11-05. It sends the answers of script on
// the stream. Only one stream can be open.
type sseScript struct {
	*script
	endpoint string        // default /messages?id=1 2
	out      chan string   // messages to the client, made with the stream
	hangUp   chan struct{} // closed by the test to end the stream; may be nil
}

func (s *sseScript) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	endpoint := s.endpoint
	if endpoint == "" {
		endpoint = "/messages?id=1 2" // not valid in a request line
	}
	switch {
	case r.Method == http.MethodGet:
		s.mu.Lock()
		s.seen = append(s.seen, receivedRequest{verb: "GET", header: r.Header.Clone()})
		if s.out == nil {
			s.out = make(chan string, 100)
		}
		s.mu.Unlock()
		send := streaming(w)
		send("event: endpoint\ndata: %s", endpoint)
		for {
			select {
			case m := <-s.out:
				send("event: message\ndata: %s", m)
			case <-s.hangUp:
				return
			case <-r.Context().Done():
				return
			}
		}
	case r.URL.Path != "/messages":
		s.script.ServeHTTP(w, r) // answers with an error
	default:
		rec := httptest.NewRecorder()
		s.script.ServeHTTP(rec, r)
		if rec.Code >= 400 {
			w.WriteHeader(rec.Code)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		if rec.Body.Len() > 0 {
			s.out <- rec.Body.String()
		}
	}
}

func overSSE(o *Options) { o.Transport = transport.SSE }

func TestSSECall(t *testing.T) {
	s := &sseScript{script: &script{}}
	c := converse(t, s, overSSE)
	upstreamtest.Equal(t, "instructions", c.hello.Instructions, "be nice")
	upstreamtest.Equal(t, "result", c.do(t, tool("a", `{"name":"x"}`, nil)), doneResult)
	if h := s.got(wire.MethodToolsCall)[0].header; h.Get(wire.HeaderVersion) != "" || h.Get(wire.HeaderSession) != "" {
		t.Errorf("headers of later revisions: %v", h)
	}
}

func TestSSEMessagesOfTheServer(t *testing.T) {
	release := make(chan struct{})
	s := &sseScript{script: &script{on: map[string]on{
		wire.MethodToolsCall: func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			<-release
			answerJSON(w, m, `{}`)
		},
	}}}
	c := converse(t, s, overSSE)
	back := &client{asked: make(chan string, 1), reply: `{"action":"accept","content":{}}`}
	done := make(chan string)
	go func() { done <- c.do(t, tool("a", `{"name":"x","_meta":{"progressToken":"mine"}}`, back)) }()
	polltest.Until(t, "the call is there", func() bool { return len(s.got(wire.MethodToolsCall)) == 1 })

	id := s.got(wire.MethodToolsCall)[0].id
	s.out <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + id.String() + `,"progress":1}}`
	s.out <- `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"sure?"}}`
	upstreamtest.Equal(t, "ask", <-back.asked, `elicitation/create{"message":"sure?"}`)
	polltest.Until(t, "the answer is there", func() bool { return len(responses(s.script)) == 1 })
	s.out <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	c.in.want(t, "notifications/tools/list_changed")
	upstreamtest.Equal(t, "progress", strings.Join(back.notes, " "), `notifications/progress{"progressToken":"mine","progress":1}`)

	// With pending calls of two clients, the ask belongs to neither.
	other := make(chan string)
	go func() { other <- c.do(t, tool("b", `{"name":"x"}`, nil)) }()
	polltest.Until(t, "the other call is there", func() bool { return len(s.got(wire.MethodToolsCall)) == 2 })
	s.out <- `{"jsonrpc":"2.0","id":"r","method":"elicitation/create","params":{"message":"whose?"}}`
	polltest.Until(t, "the second answer is there", func() bool { return len(responses(s.script)) == 2 })
	answers := responses(s.script)
	upstreamtest.Equal(t, "first answer", string(answers[0].result), `{"action":"accept","content":{}}`)
	upstreamtest.Equal(t, "second answer", string(answers[1].result), `{"action":"cancel"}`)
	close(release)
	upstreamtest.Equal(t, "result", <-done, `{}`)
	upstreamtest.Equal(t, "other result", <-other, `{}`)
}

// responses returns the answers that the server received to its own requests.
func responses(s *script) []receivedRequest {
	var out []receivedRequest
	for _, r := range s.got(http.MethodPost) {
		if r.method == "" {
			out = append(out, r)
		}
	}
	return out
}

func TestSSEStreamEnds(t *testing.T) {
	s := &sseScript{script: &script{on: map[string]on{}}, hangUp: make(chan struct{})}
	began := make(chan struct{})
	s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		w.WriteHeader(http.StatusAccepted)
		close(began)
	}
	c := converse(t, s, overSSE)
	done := make(chan string)
	go func() { done <- c.do(t, tool("a", `{"name":"x"}`, nil)) }()
	<-began
	close(s.hangUp)
	upstreamtest.Equal(t, "call", <-done, "call error: "+protocol.ReasonConnectionLost)
	upstreamtest.Equal(t, "run", c.waitEnd(t).Error(), "the server's stream ended: EOF")
	upstreamtest.Equal(t, "call afterwards", c.do(t, tool("a", `{"name":"x"}`, nil)), "call error: "+protocol.ReasonConnectionLost)
}

func TestSSECancellation(t *testing.T) {
	s := &sseScript{script: &script{on: map[string]on{}}}
	ctx, cancel := context.WithCancel(t.Context())
	s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		w.WriteHeader(http.StatusAccepted)
		cancel()
	}
	c := converse(t, s, overSSE)
	_, err := c.Call(ctx, tool("a", `{"name":"x"}`, nil))
	upstreamtest.Equal(t, "error", err, context.Canceled)
	polltest.Until(t, "the cancellation is there", func() bool { return len(s.got(wire.NoteCancelled)) == 1 })
	upstreamtest.Equal(t, "params", string(s.got(wire.NoteCancelled)[0].params), fmt.Sprintf(`{"requestId":%s}`, s.got(wire.MethodToolsCall)[0].id))
}

func TestSSEErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		endpoint, answer string
		status           int
		err              string
	}{
		"endpoint of another origin": {endpoint: "http://evil.example/messages", err: "the server's endpoint event leads to another origin, where credentials must not go"},
		"endpoint of another port":   {endpoint: "http://127.0.0.1:1/messages", err: "the server's endpoint event leads to another origin, where credentials must not go"},
		"endpoint is no URL":         {endpoint: "http://%zz", err: "the server's endpoint event holds no URL"},
		"POST refused":               {status: 500, err: "call error: the server answered HTTP 500 with no content type"},
		"malformed answer":           {answer: `{"jsonrpc":"1.0","id":%s,"result":{}}`, err: "call error: the server's answer is no valid JSON-RPC message"},
		"error":                      {answer: `{"jsonrpc":"2.0","id":%s,"error":{"code":7,"message":"no","x":1}}`, err: `error: {"code":7,"message":"no","x":1}`},
		"result is no object":        {answer: `{"jsonrpc":"2.0","id":%s,"result":null}`, err: "call error: the result in the server's answer is no object"},
		"batch":                      {answer: `[{"jsonrpc":"2.0","id":%s,"result":{"a":1}}]`, err: `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sseScript{endpoint: tc.endpoint, script: &script{on: map[string]on{
				wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
					if tc.status != 0 {
						w.WriteHeader(tc.status)
						return
					}
					fmt.Fprintf(w, tc.answer, m.ID)
				},
			}}}
			c, err := tryConverse(t, serve(t, s).URL, nil, overSSE)
			if tc.endpoint != "" {
				if err == nil {
					t.Fatal("no error")
				}
				upstreamtest.Equal(t, "error", reasonOf(err), tc.err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"x"}`, nil)), tc.err)
			upstreamtest.Equal(t, "next call", c.do(t, tool("a", `{"name":"x"}`, nil)), tc.err)
		})
	}
}

// An answer over the size limit fails its call only. The server sends it on the stream of all
// calls.
func TestSSELargeAnswer(t *testing.T) {
	const limit = 64 << 10
	release := make(chan struct{})
	s := &sseScript{script: &script{on: map[string]on{wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		if name := wire.ValueOf(m.Params).Get("name").Str(); name == "large" {
			answerJSON(w, m, `{"content":[{"type":"text","text":"`+strings.Repeat("x", limit)+`"}]}`)
			return
		}
		<-release
		answerJSON(w, m, `{}`)
	}}}}
	c := converse(t, s, overSSE, func(o *Options) { o.MaxMessage = limit })
	other := make(chan string)
	go func() { other <- c.do(t, tool("b", `{"name":"small"}`, nil)) }()
	polltest.Until(t, "the other call is there", func() bool { return len(s.got(wire.MethodToolsCall)) == 1 })
	upstreamtest.Equal(t, "large answer", c.do(t, tool("a", `{"name":"large"}`, nil)), fmt.Sprintf("call error: the server's answer is larger than %d bytes", limit))
	close(release)
	upstreamtest.Equal(t, "the call meanwhile", <-other, `{}`)
	upstreamtest.Equal(t, "the next call", c.do(t, tool("a", `{"name":"small"}`, nil)), `{}`)
}

// A web page does not accept a request, whatever its status says. Many servers name HTML as
// the type of nothing.
func TestSSEWebPage(t *testing.T) {
	for body, want := range map[string]string{
		"<!DOCTYPE html><title>Sign in</title>": "call error: the server answered HTTP 200 with content type text/html",
		"":                                      `{}`, "Accepted": `{}`,
	} {
		s := &sseScript{script: &script{}}
		page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(text))
			if m, _ := wire.Parse(text, wire.Limits{}); m.Method != wire.MethodToolsCall {
				s.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, body)
			m, _ := wire.Parse(text, wire.Limits{})
			s.out <- `{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{}}`
		})
		c := converse(t, page, overSSE)
		upstreamtest.Equal(t, "answer to "+body, c.do(t, tool("a", `{"name":"x"}`, nil)), want)
	}
}
