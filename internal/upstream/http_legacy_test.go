package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

func legacyEra(o *Options) { o.Era = wire.EraLegacy }

func TestLegacyHeaders(t *testing.T) {
	for revision, version := range map[string]string{"2025-03-26": "", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			s := &script{stateful: true, revision: revision}
			c := converse(t, s, legacyEra, func(o *Options) {
				o.HTTP.Headers = map[string]string{
					"authorization": "Bearer secret", "X-Team": "a", "mcp-session-id": "mine", "Accept": "text/html",
					"MCP-Protocol-Version": "1", "Mcp-Param-X": "1", "Idempotency-Key": "1", "Content-Type": "text/plain", "Accept-Encoding": "br",
				}
			})
			upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"x"}`, nil)), doneResult)
			first, call := s.got(wire.MethodInitialize)[0].header, s.got(wire.MethodToolsCall)[0].header
			upstreamtest.Equal(t, "session at initialize", first.Get(wire.HeaderSession), "")
			upstreamtest.Equal(t, "version at initialize", first.Get(wire.HeaderVersion), "")
			for name, want := range map[string]string{
				wire.HeaderSession: "session-1", wire.HeaderVersion: version, "Accept": "application/json, text/event-stream", "Content-Type": "application/json",
				"Authorization": "Bearer secret", "X-Team": "a", "Mcp-Param-X": "", "Idempotency-Key": "", "Accept-Encoding": "gzip",
			} {
				upstreamtest.Equal(t, name, strings.Join(call.Values(name), " | "), want)
			}
		})
	}
}

func TestCredentialsInURL(t *testing.T) {
	s := &script{}
	h := serve(t, s)
	c, err := tryConverse(t, strings.Replace(h.URL, "http://", "http://me:secret@", 1), nil, legacyEra)
	if err != nil {
		t.Fatal(err)
	}
	c.do(t, tool("a", `{}`, nil))
	upstreamtest.Equal(t, "header", s.got(wire.MethodToolsCall)[0].header.Get("Authorization"), "Basic bWU6c2VjcmV0")
}

func TestSessionEndsAtServer(t *testing.T) {
	s := &script{stateful: true}
	c := converse(t, s, legacyEra)
	c.stop()
	upstreamtest.Equal(t, "run", c.waitEnd(t), context.Canceled)
	deleted := s.got(http.MethodDelete)
	if len(deleted) != 1 || deleted[0].header.Get(wire.HeaderSession) != "session-1" {
		t.Errorf("requests to delete the session: %v", deleted)
	}
	upstreamtest.Equal(t, "call afterwards", c.do(t, tool("a", `{}`, nil)), "call error: "+protocol.ReasonConnectionLost)
}

func TestNoSessionNoDelete(t *testing.T) {
	s := &script{}
	c := converse(t, s, legacyEra)
	c.stop()
	c.waitEnd(t)
	upstreamtest.Equal(t, "deletes", len(s.got(http.MethodDelete)), 0)
}

func TestExpiredSession(t *testing.T) {
	for name, code := range map[string]int{"404": 404, "400": 400} {
		t.Run(name, func(t *testing.T) {
			s := &script{stateful: true, caps: `{"tools":{},"resources":{}}`, on: map[string]on{}}
			s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
				if r.Header.Get(wire.HeaderSession) == "session-1" {
					answerError(w, code, "null", `{"code":-32001,"message":"Session not found"}`)
					return
				}
				answerJSON(w, m, doneResult)
			}
			c := converse(t, s, legacyEra)
			var calls sync.WaitGroup
			for range 8 {
				calls.Go(func() { upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"x"}`, nil)), doneResult) })
			}
			calls.Wait()
			upstreamtest.Equal(t, "sessions", s.sessions, 2)
			c.in.want(t, "renewed", wire.NoteToolsChanged, wire.NoteResourcesChanged)
		})
	}
}

func TestSessionExpiresTwice(t *testing.T) {
	s := &script{stateful: true, on: map[string]on{wire.MethodToolsCall: status(404)}}
	c := converse(t, s, legacyEra)
	upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"x"}`, nil)), "call error: the server answered HTTP 404 with content type text/plain")
	upstreamtest.Equal(t, "calls", len(s.got(wire.MethodToolsCall)), 2)
	upstreamtest.Equal(t, "sessions", s.sessions, 2)
}

func TestErrorsThatKeepTheSession(t *testing.T) {
	for name, tc := range map[string]struct {
		on   on
		want string
	}{
		"unknown method": {refuse(404, `{"code":-32601,"message":"?"}`), `error: {"code":-32601,"message":"?"}`},
		"invalid params": {refuse(400, `{"code":-32602,"message":"?"}`), `error: {"code":-32602,"message":"?"}`},
		"modern error":   {refuse(400, `{"code":-32020,"message":"?"}`), `error: {"code":-32020,"message":"?"}`},
		"500":            {status(500), "call error: the server answered HTTP 500 with content type text/plain"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{stateful: true, on: map[string]on{wire.MethodToolsCall: tc.on}}
			c := converse(t, s, legacyEra)
			upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"x"}`, nil)), tc.want)
			upstreamtest.Equal(t, "sessions", s.sessions, 1)
		})
	}
}

func TestLegacyCancellation(t *testing.T) {
	s := &script{on: map[string]on{}}
	ctx, cancel := context.WithCancel(t.Context())
	s.on[wire.MethodToolsCall] = func(_ http.ResponseWriter, r *http.Request, _ wire.Message) {
		cancel()
		<-r.Context().Done()
	}
	c := converse(t, s, legacyEra)
	_, err := c.Call(ctx, tool("a", `{"name":"x"}`, nil))
	upstreamtest.Equal(t, "error", err, context.Canceled)
	polltest.Until(t, "the cancellation is there", func() bool { return len(s.got(wire.NoteCancelled)) == 1 })
	upstreamtest.Equal(t, "params", string(s.got(wire.NoteCancelled)[0].params), fmt.Sprintf(`{"requestId":%s}`, s.got(wire.MethodToolsCall)[0].id))
}

func TestStreamOfACall(t *testing.T) {
	s := &script{on: map[string]on{}}
	answered := make(chan struct{})
	s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		send := streaming(w)
		token := wire.ValueOf(m.Params).Get("_meta", "progressToken").Raw()
		send(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":%s}}`, token)
		send(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":"other"}}`)
		send(`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}`)
		send(`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		send(`event: odd` + "\n" + `data: whatever`)
		send(`data: {"jsonrpc":"2.0","id":"e1","method":"elicitation/create","params":{"message":"sure?"}}`)
		send(`data: {"jsonrpc":"2.0","id":2,"method":"ping"}`)
		<-answered
		send(`data: {"jsonrpc":"2.0","id":%s,"result":{"a":1}}`, m.ID)
	}
	c := converse(t, s, legacyEra)
	back := &client{asked: make(chan string, 1), reply: `{"action":"accept"}`}
	done := make(chan string)
	go func() { done <- c.do(t, tool("a", `{"name":"x","_meta":{"progressToken":"mine","k":1}}`, back)) }()
	upstreamtest.Equal(t, "ask", <-back.asked, `elicitation/create{"message":"sure?"}`)
	polltest.Until(t, "the answers are there", func() bool { return len(responses(s)) == 2 })
	close(answered)
	upstreamtest.Equal(t, "result", <-done, `{"a":1}`)
	c.in.want(t, wire.NoteToolsChanged)
	upstreamtest.Equal(t, "notes", strings.Join(back.notes, "\n"), `notifications/progress{"progress":1,"progressToken":"mine"}
notifications/message{"level":"info"}`)
	var answers []string
	for _, r := range responses(s) {
		answers = append(answers, r.id.String()+string(r.result))
	}
	slices.Sort(answers)
	upstreamtest.Equal(t, "answers", strings.Join(answers, " "), `"e1"{"action":"accept"} 2{}`)
}

func TestAskCancelledByServer(t *testing.T) {
	s := &script{on: map[string]on{}}
	asked := make(chan struct{})
	s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		send := streaming(w)
		send(`data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"sure?"}}`)
		<-asked
		send(`data: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		send(`data: {"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}
	c := converse(t, s, legacyEra)
	back := &client{asked: make(chan string, 1)} // does not answer asks
	done := make(chan string)
	go func() { done <- c.do(t, tool("a", `{"name":"x"}`, back)) }()
	<-back.asked
	close(asked)
	upstreamtest.Equal(t, "result", <-done, `{}`)
	upstreamtest.Equal(t, "answers", len(responses(s)), 0)
}

func TestStreamIsResumed(t *testing.T) {
	for name, tc := range map[string]struct {
		begin string   // first bytes of the POST's stream
		gets  []string // bytes of the streams of the GETs
		want  string
		last  []string // Last-Event-ID headers of the GETs
	}{
		"after an event":        {begin: "id: a1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}", gets: []string{"id: a2\ndata: ANSWER"}, want: `{"a":1}`, last: []string{"a1"}},
		"polling after priming": {begin: "id: a1\nretry: 1\ndata:", gets: []string{"id: a2\ndata:", "data: ANSWER"}, want: `{"a":1}`, last: []string{"a1", "a2"}},
		"no event":              {begin: ": nothing", want: "call error: the stream broke off before the server answered"},
		"malformed":             {begin: "data: {\"jsonrpc\":", want: "call error: the server's answer is no valid JSON-RPC message"},
		"resumption gets 404":   {begin: "id: a1\ndata:", gets: []string{"404"}, last: []string{"a1"}, want: "call error: the connection broke while the server was at work, and its answer cannot be taken up again"},
		"resumption gets 503":   {begin: "id: a1\nretry: 1\ndata:", gets: []string{"503", "data: ANSWER"}, last: []string{"a1", "a1"}, want: `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{stateful: true, on: map[string]on{}}
			var id wire.ID
			var mu sync.Mutex
			var last []string
			s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
				mu.Lock()
				id = m.ID
				mu.Unlock()
				streaming(w)(tc.begin)
			}
			s.stream = func(w http.ResponseWriter, r *http.Request) {
				event := r.Header.Get(wire.HeaderLastEvent)
				if event == "" {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				what := tc.gets[len(last)]
				last = append(last, event)
				if code, _, ok := strings.Cut(what, " "); !ok && len(code) == 3 {
					var n int
					fmt.Sscan(code, &n)
					w.WriteHeader(n)
					return
				}
				streaming(w)(strings.Replace(what, "ANSWER", `{"jsonrpc":"2.0","id":`+id.String()+`,"result":{"a":1}}`, 1))
			}
			c := converse(t, s, legacyEra)
			upstreamtest.Equal(t, "outcome", c.do(t, callWithID(tool("a", `{"name":"x"}`, nil), "one")), tc.want)
			for _, r := range s.got(http.MethodGet) {
				if event := r.header.Get(wire.HeaderLastEvent); event != "" {
					upstreamtest.Equal(t, "request id of a resumption", r.header.Get(requestid.Header), "one")
				}
			}
			upstreamtest.Equal(t, "Last-Event-ID", strings.Join(last, " "), strings.Join(tc.last, " "))
			upstreamtest.Equal(t, "calls", len(s.got(wire.MethodToolsCall)), 1)
			upstreamtest.Equal(t, "sessions", s.sessions, 1)
		})
	}
}

func TestStreamOfTheSession(t *testing.T) {
	s := &script{stateful: true, on: map[string]on{}}
	streams := make(chan string, 10)
	release := make(chan struct{})
	events := make(chan string)
	s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		<-release
		answerJSON(w, m, `{}`)
	}
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		streams <- r.Header.Get(wire.HeaderSession) + "|" + r.Header.Get(wire.HeaderLastEvent) + "|" + r.Header.Get("Accept") + "|" + r.Header.Get("Content-Type")
		send := streaming(w)
		for {
			select {
			case e := <-events:
				if e == "" {
					return
				}
				send("%s", e)
			case <-r.Context().Done():
				return
			}
		}
	}
	c := converse(t, s, legacyEra)
	upstreamtest.Equal(t, "stream", <-streams, "session-1||text/event-stream|")
	events <- `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	events <- `data: this is no message`
	events <- `data: {"jsonrpc":"2.0","id":99,"result":{}}`
	events <- "id: e1\nretry: 1\n" + `data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}`
	c.in.want(t, wire.NoteToolsChanged, wire.NoteResourceUpdated+`{"uri":"a:b"}`)

	back := &client{asked: make(chan string, 2), reply: `{"action":"accept"}`}
	calls := make(chan string, 2)
	go func() { calls <- c.do(t, tool("a", `{"name":"x","_meta":{"progressToken":7}}`, back)) }()
	polltest.Until(t, "the call is there", func() bool { return len(s.got(wire.MethodToolsCall)) == 1 })
	events <- `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + s.got(wire.MethodToolsCall)[0].id.String() + `,"progress":1}}`
	events <- `data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
	<-back.asked
	polltest.Until(t, "the answer is there", func() bool { return len(responses(s)) == 1 })
	upstreamtest.Equal(t, "notes", strings.Join(back.notes, " "), `notifications/progress{"progressToken":7,"progress":1}`)
	go func() { calls <- c.do(t, tool("b", `{"name":"x"}`, back)) }()
	polltest.Until(t, "the other call is there", func() bool { return len(s.got(wire.MethodToolsCall)) == 2 })
	events <- `data: {"jsonrpc":"2.0","id":"r","method":"elicitation/create","params":{}}`
	polltest.Until(t, "the other answer is there", func() bool { return len(responses(s)) == 2 })
	upstreamtest.Equal(t, "answer to an ask of an unknown call", string(responses(s)[1].result), `{"action":"cancel"}`)
	close(release)
	<-calls
	<-calls

	events <- "" // the stream ends and is resumed
	upstreamtest.Equal(t, "second stream", <-streams, "session-1|e1|text/event-stream|")
	events <- `data: {"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`
	c.in.want(t, wire.NotePromptsChanged)
}

func TestStreamOfAnExpiredSession(t *testing.T) {
	s := &script{stateful: true}
	first := make(chan struct{})
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		send := streaming(w)
		send("retry: 1\ndata:")
		if r.Header.Get(wire.HeaderSession) == "session-1" {
			<-first
			return
		}
		send(`data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
		<-r.Context().Done()
	}
	c := converse(t, s, legacyEra)
	s.forget()
	close(first)
	c.in.want(t, "renewed", wire.NoteToolsChanged, "missed", wire.NoteMessage+`{}`)
	upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"x"}`, nil)), doneResult)
	upstreamtest.Equal(t, "sessions", s.sessions, 2)
}

// The gateway finds list changes that the server made while no stream was open:
// before the first stream opens, and after a stream breaks that cannot be resumed.
func TestChangesWithoutAStream(t *testing.T) {
	s := &script{stateful: true, on: map[string]on{}, caps: `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`}
	var tools atomic.Int32
	tools.Store(1)
	asked := make(chan struct{}, 10)
	s.on[wire.MethodToolsList] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		var list []string
		for i := range tools.Load() {
			list = append(list, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
		}
		answerJSON(w, m, `{"tools":[`+strings.Join(list, ",")+`]}`)
		asked <- struct{}{}
	}
	streams := make(chan struct{}, 10)
	end := make(chan struct{})
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		streams <- struct{}{}
		if len(streams) == 1 {
			<-asked // lists do not wait for a slow stream
		}
		tools.Add(1) // without a notification
		send := streaming(w)
		send("retry: 1\ndata:")
		if len(streams) > 1 {
			<-r.Context().Done()
			return
		}
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}
	received := make(updates, 10)
	c := newConnector(*testOptions(t, serve(t, s).URL, legacyEra, func(o *Options) { o.Observer = received }))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	listed := func(n int) func() bool { return func() bool { return len(c.Snapshot().Catalog.Tools) == n } }
	polltest.Until(t, "what changed before the first stream was open", listed(2))
	if err := c.Subscribe(ctx, "a:b"); err != nil {
		t.Fatal(err)
	}
	close(end)
	polltest.Until(t, "what changed between two streams", listed(3))
	upstreamtest.Equal(t, "update that may have been lost", <-received, `{"uri":"a:b"}`)
}

func TestServerGoesAway(t *testing.T) {
	s := &script{stateful: true}
	h := serve(t, s)
	c, err := tryConverse(t, h.URL, nil, legacyEra)
	if err != nil {
		t.Fatal(err)
	}
	h.CloseClientConnections()
	h.Close()
	// The first call may use a connection that is about to break.
	polltest.Until(t, "it is certain that the call was not sent", func() bool {
		_, err := c.Call(t.Context(), tool("a", `{"name":"x"}`, nil))
		f, ok := errors.AsType[*protocol.CallError](err)
		return ok && f.ConnectionLost && f.NotSent
	})
	contains(t, "run", c.waitEnd(t).Error(), "the server cannot be reached: ")
}

// A server that keeps the answer to a notification open does not delay other
// requests.
func TestNotificationAnsweredWithStream(t *testing.T) {
	s := &script{on: map[string]on{wire.NoteInitialized: func(w http.ResponseWriter, r *http.Request, _ wire.Message) {
		streaming(w)(": open")
		<-r.Context().Done()
	}}}
	c := converse(t, s, legacyEra)
	upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"x"}`, nil)), doneResult)
}

// The connection of an answered call is reused, for JSON and for stream answers.
func TestConnectionsAreReused(t *testing.T) {
	for name, stream := range map[string]bool{"JSON": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			from := map[string]bool{}
			inner := &script{on: map[string]on{}}
			if stream {
				inner.on[wire.MethodToolsCall] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
					w.Header().Set("Content-Type", httpconn.TypeStream)
					w.Header().Set("Transfer-Encoding", "chunked") // so that the answer is sent with its end
					fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", m.ID)
				}
			}
			c := converse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				from[r.RemoteAddr] = true
				mu.Unlock()
				inner.ServeHTTP(w, r)
			}), legacyEra)
			for range 50 {
				c.do(t, tool("a", `{"name":"x"}`, nil))
			}
			mu.Lock()
			defer mu.Unlock()
			if n := len(from); n > 3 { // the notification and the session stream may have their own
				t.Errorf("50 calls used %d connections", n)
			}
		})
	}
}

// An ask on the stream of a call goes to the client of that call, independent of
// other pending calls.
func TestAskAmongCallsOfManyClients(t *testing.T) {
	s := &script{on: map[string]on{}}
	release := make(chan struct{})
	s.on[wire.MethodPromptsGet] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		<-release
		answerJSON(w, m, `{}`)
	}
	s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		send := streaming(w)
		send(`data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`)
		<-release
		send(`data: {"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}
	c := converse(t, s, legacyEra)
	done := make(chan string, 2)
	go func() {
		other := tool("b", `{"name":"x"}`, nil)
		other.Method = wire.MethodPromptsGet
		done <- c.do(t, other)
	}()
	polltest.Until(t, "the other call is there", func() bool { return len(s.got(wire.MethodPromptsGet)) == 1 })
	back := &client{asked: make(chan string, 1), reply: `{"action":"accept"}`}
	go func() { done <- c.do(t, tool("a", `{"name":"x"}`, back)) }()
	polltest.Until(t, "the answer is there", func() bool { return len(responses(s)) == 1 })
	upstreamtest.Equal(t, "answer", string(responses(s)[0].result), `{"action":"accept"}`)
	close(release)
	<-done
	<-done
}

func TestCallsEndWithTheConnection(t *testing.T) {
	for name, era := range map[string]wire.Era{"legacy": wire.EraLegacy, "modern": wire.EraModern} {
		t.Run(name, func(t *testing.T) {
			began := make(chan struct{})
			s := &script{modern: era == wire.EraModern, caps: `{}`, on: map[string]on{}}
			s.on[wire.MethodToolsCall] = func(_ http.ResponseWriter, r *http.Request, _ wire.Message) {
				close(began)
				<-r.Context().Done()
			}
			c := converse(t, s, func(o *Options) { o.Era = era })
			done := make(chan string)
			go func() { done <- c.do(t, tool("a", `{"name":"x"}`, nil)) }()
			<-began
			c.stop()
			c.waitEnd(t)
			upstreamtest.Equal(t, "outcome", <-done, "call error: "+protocol.ReasonConnectionLost)
		})
	}
}
