package frontend

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// sseClient is a client over HTTP+SSE.
type sseClient struct {
	s      *Server
	stream *stalledWriter
	post   string // the URL of messages
	from   string // the address of the client, "" for any
	end    func() // closes the stream, and waits until it has ended
}

// openSSEClient opens a stream. It must be called in a synctest bubble.
func openSSEClient(t *testing.T, s *Server) *sseClient {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gateway.test/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newStalledWriter()
	go func() {
		defer close(w.done)
		s.ServeSSE(w, r)
	}()
	synctest.Wait()
	endpoint := regexp.MustCompile(`data: (\S+)`).FindStringSubmatch(w.written())
	if endpoint == nil {
		t.Fatalf("status %d, and no endpoint: %s", w.code(), w.written())
	}
	return &sseClient{s: s, stream: w, post: "http://gateway.test" + endpoint[1], end: func() { leave(); <-w.done }}
}

// send posts a body.
func (c *sseClient) send(t *testing.T, body io.Reader) *httptest.ResponseRecorder {
	r := request(t, body)
	u, err := r.URL.Parse(c.post)
	if err != nil {
		t.Error(err)
	}
	r.URL, r.RemoteAddr = u, c.from
	w := httptest.NewRecorder()
	c.s.ServeSSE(w, r)
	return w
}

const initializeBody = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`

// No session begins after its stream has ended, even if the initialize arrives late.
func TestSessionDoesNotOutliveItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
		c := openSSEClient(t, s)
		body, rest := io.Pipe()
		answered := make(chan *httptest.ResponseRecorder)
		go func() { answered <- c.send(t, body) }()
		io.WriteString(rest, initializeBody[:20])
		synctest.Wait()
		c.end()
		io.WriteString(rest, initializeBody[20:])
		rest.Close()
		if w := <-answered; w.Code != http.StatusServiceUnavailable && w.Code != http.StatusNotFound {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		if n := len(s.sessions.Of(call.Anonymous.Key())); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

// A client over its share and a client of a full gateway get different statuses, both
// with Retry-After.
func TestBoundsOverSSE(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLoadServer(t, Options{Limits: Limits{MaxCalls: 4}})
		greedy, late := openSSEClient(t, c.s), openSSEClient(t, c.s)
		defer greedy.end()
		defer late.end()
		greedy.from, late.from = c.address(0), c.address(1)
		for _, talk := range []*sseClient{greedy, late} {
			if w := talk.send(t, strings.NewReader(initializeBody)); w.Code != http.StatusAccepted {
				t.Fatalf("initialize: status %d", w.Code)
			}
		}
		call := func(talk *sseClient, id int) *httptest.ResponseRecorder {
			return talk.send(t, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait","arguments":{"for":"x"}}}`, id)))
		}
		for i, tt := range []struct {
			talk   *sseClient
			status int
		}{
			{greedy, http.StatusAccepted}, {greedy, http.StatusAccepted}, {greedy, http.StatusTooManyRequests},
			{late, http.StatusAccepted}, {late, http.StatusServiceUnavailable},
		} {
			w := call(tt.talk, i)
			if w.Code != tt.status {
				t.Errorf("request %d: status %d, want %d: %s", i, w.Code, tt.status, w.Body)
			}
			if again := w.Header().Get("Retry-After"); (again != "") != (tt.status != http.StatusAccepted) {
				t.Errorf("request %d: status %d, Retry-After %q", i, w.Code, again)
			}
			if id := fmt.Sprintf(`"id":%d,"error":{"code":-32603,`, i); w.Code != http.StatusAccepted && !strings.Contains(w.Body.String(), id) {
				t.Errorf("request %d: the answer is %s", i, w.Body)
			}
		}
	})
}

// Sessions over HTTP+SSE end when the credentials with which they began expire sooner. Requests that run then are
// answered, others learn the cause. Sessions of other principals continue.
func TestEndStreamsOverSSE(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := newScriptHandler()
		s := New(Options{Handler: handler, Info: wire.Raw(`{}`)})
		c := openSSEClient(t, s)
		defer c.end()
		if w := c.send(t, strings.NewReader(initializeBody)); w.Code != http.StatusAccepted {
			t.Fatalf("initialize: status %d", w.Code)
		}
		const wait = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{"for":"x"}}}`
		if w := c.send(t, strings.NewReader(wait)); w.Code != http.StatusAccepted {
			t.Fatalf("a call: status %d", w.Code)
		}
		nobody, everybody := func(*call.Principal) bool { return false }, func(*call.Principal) bool { return true }
		s.EndStreams(nobody, nobody)
		ping := func(id int) *httptest.ResponseRecorder {
			return c.send(t, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id)))
		}
		if w := ping(3); w.Code != http.StatusAccepted {
			t.Errorf("a request in a session that continues: status %d: %s", w.Code, w.Body)
		}
		s.EndStreams(everybody, everybody)
		const want = `"id":4,"error":{"code":-32600,"message":"this session ends because its credentials expire sooner than before: begin a new one"`
		if w := ping(4); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), want) {
			t.Errorf("a request after that: status %d: %s", w.Code, w.Body)
		}
		s.Drain() // it does not change why this session ends
		if w := ping(4); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), want) {
			t.Errorf("a request after Drain: status %d: %s", w.Code, w.Body)
		}
		close(handler.release("x"))
		<-c.stream.done
		if got := c.stream.written(); !strings.Contains(got, `{"jsonrpc":"2.0","id":2,"result"`) {
			t.Errorf("the call that ran has no result: %s", got)
		}
	})
}
