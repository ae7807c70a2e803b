package upstream

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// A call whose connection breaks is sent to a remote server once more if the tool
// may be called again and the call is small. A large call may be the cause of the
// failure.
func TestRepeatsOnce(t *testing.T) {
	for name, test := range map[string]struct {
		tool      string
		size      int
		breaks    int // number of broken connections
		sent      int
		retryable string // retryable in the error data, "" if the call succeeds
	}{
		"no hint":                 {"echo", 0, 1, 1, "false"},
		"read-only":               {"read", 0, 1, 2, ""},
		"read-only, breaks twice": {"read", 0, 2, 2, "true"},
		"read-only, large":        {"read", 2 << 20, 1, 1, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := 0
			s := &script{on: map[string]func(http.ResponseWriter, *http.Request, wire.Message){
				wire.MethodToolsList: func(w http.ResponseWriter, _ *http.Request, m wire.Message) { answerJSON(w, m, upstreamtest.TwoTools) },
				wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
					if broken++; broken <= test.breaks {
						panic(http.ErrAbortHandler)
					}
					answerJSON(w, m, `{"done":1}`)
				},
			}}
			at, err := url.Parse(serve(t, s).URL)
			if err != nil {
				t.Fatal(err)
			}
			metrics := connector.NewMetrics()
			r := start(t, Options{Server: Server{HTTP: &httpconn.Config{URL: at}, Era: wire.EraLegacy}, Metrics: metrics})
			r.watch.wait(t, isReady)
			c := upstreamtest.ToolCall(test.tool, "a", &upstreamtest.Peer{})
			c.Params = wire.SetMember(c.Params, "padding", wire.String(strings.Repeat("x", test.size)))
			result, err := r.Do(t.Context(), c)
			if test.retryable == "" {
				if err != nil || string(result.Raw) != `{"done":1}` {
					t.Errorf("outcome %s, %v", result.Raw, err)
				}
			} else if got := upstreamtest.DataOf(t, err); !strings.Contains(got, `"retryable":`+test.retryable) {
				t.Errorf("data %s, want retryable %s", got, test.retryable)
			}
			if got := len(s.got(wire.MethodToolsCall)); got != test.sent {
				t.Errorf("sent %d times, want %d", got, test.sent)
			}
			if got := metric(t, metrics, "mcp_gateway_upstream_resends_total"); int(got) != test.sent-1 {
				t.Errorf("resends %v, want %d", got, test.sent-1)
			}
		})
	}
}

// An answer over the limit is as large the next time, also that of a tool that may be called again.
func TestLargeAnswerIsNotRetryable(t *testing.T) {
	s := &script{on: map[string]on{
		wire.MethodToolsList: func(w http.ResponseWriter, _ *http.Request, m wire.Message) { answerJSON(w, m, upstreamtest.TwoTools) },
		wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
			answerJSON(w, m, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 4096)+`"}]}`)
		},
	}}
	at, err := url.Parse(serve(t, s).URL)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, Options{Server: Server{HTTP: &httpconn.Config{URL: at}, Era: wire.EraLegacy, MaxMessage: 4096}})
	r.watch.wait(t, isReady)
	_, err = r.Do(t.Context(), upstreamtest.ToolCall("read", "a", &upstreamtest.Peer{}))
	data := upstreamtest.DataOf(t, err)
	contains(t, "data", data, `"reason":"the server's answer is larger than 4096 bytes"`)
	contains(t, "data", data, `"retryable":false`)
}

// If a call breaks with its server, and nothing listens when it is sent again, the error is that of the first attempt: the
// server had the call.
func TestRepeatThatReachesNobody(t *testing.T) {
	var srv *httptest.Server
	s := &script{on: map[string]func(http.ResponseWriter, *http.Request, wire.Message){
		wire.MethodToolsList: func(w http.ResponseWriter, _ *http.Request, m wire.Message) { answerJSON(w, m, upstreamtest.TwoTools) },
		wire.MethodToolsCall: func(http.ResponseWriter, *http.Request, wire.Message) {
			_ = srv.Listener.Close()
			panic(http.ErrAbortHandler)
		},
	}}
	srv = serve(t, s)
	at, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, Options{Server: Server{HTTP: &httpconn.Config{URL: at}, Era: wire.EraLegacy}})
	r.watch.wait(t, isReady)
	_, err = r.Do(t.Context(), upstreamtest.ToolCall("read", "a", &upstreamtest.Peer{}))
	contains(t, "data", upstreamtest.DataOf(t, err), `"reason":"`+protocol.ReasonConnectionBroken+`"`)
}

// The gateway does not repeat a call at once when the server is overloaded.
func TestOverloadedServerGetsNoRepeat(t *testing.T) {
	s := &script{on: map[string]on{
		wire.MethodToolsList: func(w http.ResponseWriter, _ *http.Request, m wire.Message) { answerJSON(w, m, upstreamtest.TwoTools) },
		wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	}}
	at, err := url.Parse(serve(t, s).URL)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, Options{Server: Server{HTTP: &httpconn.Config{URL: at}, Era: wire.EraLegacy}})
	r.watch.wait(t, isReady)
	_, err = r.Do(t.Context(), upstreamtest.ToolCall("read", "a", &upstreamtest.Peer{}))
	contains(t, "data", upstreamtest.DataOf(t, err), `"retryable":true,"retryAfter":7`)
	upstreamtest.Equal(t, "calls", len(s.got(wire.MethodToolsCall)), 1)
}

// A call that the gateway ends with its connection to the server is not sent again. Its client may
// repeat it if the server says that the tool may be called twice.
func TestCallEndsWithTheConnector(t *testing.T) {
	for _, name := range []string{"echo", "read"} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{})
			s := &script{on: map[string]on{
				wire.MethodToolsList: func(w http.ResponseWriter, _ *http.Request, m wire.Message) { answerJSON(w, m, upstreamtest.TwoTools) },
				wire.MethodToolsCall: func(_ http.ResponseWriter, r *http.Request, _ wire.Message) {
					close(begun)
					<-r.Context().Done()
				},
			}}
			at, err := url.Parse(serve(t, s).URL)
			if err != nil {
				t.Fatal(err)
			}
			core, logs := observer.New(zap.InfoLevel)
			o := Options{Server: Server{HTTP: &httpconn.Config{URL: at}, Era: wire.EraLegacy}, Logger: zap.New(core)}
			watch := newWatcher()
			o.Name, o.Observer = "files", watch
			c := newConnector(o)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended, done := make(chan error, 1), make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			watch.wait(t, isReady)
			go func() {
				_, err := c.Do(t.Context(), upstreamtest.ToolCall(name, "a", &upstreamtest.Peer{}))
				done <- err
			}()
			<-begun
			upstreamtest.Equal(t, "running", c.Running(), 1)
			cancel()
			data := upstreamtest.DataOf(t, <-done)
			contains(t, "data", data, `"reason":"`+connector.ReasonEnded+`"`)
			contains(t, "data", data, fmt.Sprintf(`"retryable":%t`, name == "read"))
			if err := <-ended; err != nil {
				t.Error(err)
			}
			upstreamtest.Equal(t, "running", c.Running(), 0)
			upstreamtest.Equal(t, "calls", len(s.got(wire.MethodToolsCall)), 1)
			upstreamtest.Equal(t, "lines that say it is sent again", logs.FilterMessage("a call is sent again").Len(), 0)
		})
	}
}

// A call whose stream breaks, at a server that is gone when the gateway takes up the stream, was
// sent: it is not sent again, and its client learns that the server may have executed it.
func TestCallWhoseStreamCannotBeResumed(t *testing.T) {
	var gone func()
	s := &script{on: map[string]on{
		wire.MethodToolsList: func(w http.ResponseWriter, _ *http.Request, m wire.Message) { answerJSON(w, m, upstreamtest.TwoTools) },
		wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("id: a1\nretry: 3000\ndata:\n\n"))
			w.(http.Flusher).Flush()
			gone()
			panic(http.ErrAbortHandler)
		},
	}}
	server := serve(t, s)
	gone = func() { server.Listener.Close() }
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Server: Server{HTTP: &httpconn.Config{URL: at}, Era: wire.EraLegacy}}
	o.Limits.StartupWait = time.Second
	r := start(t, o)
	r.watch.wait(t, isReady)
	_, err = r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
	data := upstreamtest.DataOf(t, err)
	contains(t, "data", data, `"reason":"`+protocol.ReasonConnectionLost+`"`)
	contains(t, "data", data, `"retryable":false`)
}
