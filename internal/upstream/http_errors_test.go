package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// The next call works in the same session after any answer to one call.
func TestInvalidAnswers(t *testing.T) {
	huge := strings.Repeat("x", 2<<20)
	for name, tc := range map[string]struct {
		on   on
		want string
	}{
		"HTML":                  {content("text/html; charset=utf-8", "<h1>secret</h1>"), "call error: the server answered HTTP 200 with content type text/html"},
		"odd content type":      {content("a b\"c", "secret"), "call error: the server answered HTTP 200 with an odd content type"},
		"500":                   {status(500), "call error: the server answered HTTP 500 with content type text/plain"},
		"500 with an error":     {refuse(500, `{"code":-32603,"message":"boom"}`), `error: {"code":-32603,"message":"boom"}`},
		"500 with bad JSON":     {func(w http.ResponseWriter, _ *http.Request, _ wire.Message) { answerError(w, 500, "1", `{`) }, "call error: the server answered HTTP 500 with content type application/json"},
		"401":                   {status(401), "call error: the server refuses the gateway's credentials (HTTP 401)"},
		"429":                   {status(429), "call error: the server is overloaded (HTTP 429)"},
		"202":                   {status(202), "call error: the server took the request as if it wanted no answer (HTTP 202)"},
		"no JSON":               {content(httpconn.TypeJSON, "{"), "call error: the server's answer is no valid JSON-RPC message"},
		"empty":                 {content(httpconn.TypeJSON, ""), "call error: the server's answer is no valid JSON-RPC message"},
		"no JSON-RPC":           {content(httpconn.TypeJSON, `{"ok":true}`), "call error: the server's answer is no valid JSON-RPC message"},
		"result is no object":   {func(w http.ResponseWriter, _ *http.Request, m wire.Message) { answerJSON(w, m, `[{}]`) }, "call error: the result in the server's answer is no object"},
		"bad upstreamtest.F-8":  {content(httpconn.TypeJSON, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}"), "call error: the server's answer is no valid JSON-RPC message"},
		"wrong id":              {content(httpconn.TypeJSON, `{"jsonrpc":"2.0","id":"other","result":{}}`), "call error: the server answered with the id of another request"},
		"wrong id, on a stream": {content(httpconn.TypeStream, "data: {\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{}}\n\n"), "call error: the server answered with the id of another request"},
		"no id":                 {refuse(200, `{"code":-32700,"message":"what?"}`), `error: {"code":-32700,"message":"what?"}`},
		"too large":             {content(httpconn.TypeJSON, huge), "call error: the server's answer is larger than 1048576 bytes"},
		"too large, in chunks": {func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
			w.Header().Set("Content-Type", httpconn.TypeJSON)
			w.(http.Flusher).Flush()
			io.WriteString(w, huge)
		}, "call error: the server's answer is larger than 1048576 bytes"},
		"too large, on a stream": {content(httpconn.TypeStream, "data: "+huge), "call error: the server's answer is larger than 1048576 bytes"},
		"connection closed": {func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
			w.Header().Set("Content-Type", httpconn.TypeJSON)
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"jsonrpc":`)
			panic(http.ErrAbortHandler)
		}, "call error: the connection to the server broke before it answered"},
		"stream closed": {func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
			streaming(w)("data: {")
			panic(http.ErrAbortHandler)
		}, "call error: the server's answer is no valid JSON-RPC message"},
		"no response in the batch": {content(httpconn.TypeJSON, `[{"jsonrpc":"2.0","method":"notifications/message"}]`), "call error: the server's answer holds no response"},
		"batch": {func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
			w.Header().Set("Content-Type", httpconn.TypeJSON)
			fmt.Fprintf(w, ` [{"jsonrpc":"2.0","method":"notifications/message"},{"jsonrpc":"2.0","id":%s,"result":{"a":1}}]`, m.ID)
		}, `{"a":1}`},
		"redirect to another host":    {leadTo(307, "http://evil.example/mcp"), "call error: the server redirects: the location is of another origin, where credentials must not go; configure the URL that it leads to"},
		"redirect to another scheme":  {leadTo(308, "https://127.0.0.1/mcp"), "call error: the server redirects: the location is of another origin, where credentials must not go; configure the URL that it leads to"},
		"redirect to a GET":           {leadTo(303, "/else"), "call error: the server redirects: status 303 would turn a POST into a GET"},
		"redirect without a location": {leadTo(302, ""), "call error: the server redirects: the location is no URL"},
		"redirect loop":               {leadTo(302, "/mcp"), "call error: the server redirects: more than 3 redirects"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{stateful: true, on: map[string]on{wire.MethodToolsCall: tc.on}}
			c := converse(t, s, legacyEra)
			upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"x"}`, nil)), tc.want)
			cl := tool("a", `{"name":"x"}`, nil)
			cl.Method = wire.MethodPromptsGet
			upstreamtest.Equal(t, "next call", c.do(t, cl), doneResult)
			upstreamtest.Equal(t, "sessions", s.sessions, 1)
			if strings.Contains(tc.want, "redirect") {
				return
			}
			upstreamtest.Equal(t, "calls", len(s.got(wire.MethodToolsCall)), 1)
		})
	}
}

// The error of a GET says whether the gateway was connected, as the errors of other
// requests do.
func TestStreamNeverConnected(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			_, err := tryConverse(t, scheme+"://127.0.0.1:1/sse", nil, overSSE)
			f, ok := errors.AsType[*protocol.CallError](err)
			if !ok || f.Reason != "cannot connect to the server" || !f.NotSent || !f.ConnectionLost {
				t.Errorf("%+v", err)
			}
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("the error does not wrap its cause: %v", err)
			}
		})
	}
}

func leadTo(code int, location string) on {
	return func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
		if location != "" {
			w.Header().Set("Location", location)
		}
		w.WriteHeader(code)
	}
}

func TestRedirectWithinTheOrigin(t *testing.T) {
	for code, remembered := range map[int]bool{301: true, 302: false, 307: false, 308: true} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			s := &script{}
			old := 0
			mux := http.NewServeMux()
			mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					old++
				}
				w.Header().Set("Location", "/new/?a b") // not valid in a request line
				w.WriteHeader(code)
			})
			mux.Handle("/new/", s)
			c, err := tryConverse(t, serve(t, mux).URL+"/", nil, legacyEra)
			if err != nil {
				t.Fatal(err)
			}
			upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"x"}`, nil)), doneResult)
			upstreamtest.Equal(t, "body", string(s.got(wire.MethodToolsCall)[0].params), `{"name":"x"}`)
			upstreamtest.Equal(t, "remembered", old == 1, remembered)
		})
	}
}

func TestSlowHeaders(t *testing.T) {
	for name, change := range map[string]func(*Options){"legacy": legacyEra, "modern": func(o *Options) { o.Era = wire.EraModern }} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := &script{modern: name == "modern", caps: `{}`, on: map[string]on{}}
			s.on[wire.MethodToolsCall] = func(_ http.ResponseWriter, r *http.Request, _ wire.Message) {
				cancel()
				<-r.Context().Done()
			}
			c := converse(t, s, change)
			_, err := c.Call(ctx, tool("a", `{"name":"x"}`, nil))
			upstreamtest.Equal(t, "error", err, context.Canceled)
			upstreamtest.Equal(t, "next call", c.do(t, modernCall(wire.MethodPromptsGet, `{"name":"x"}`)), doneResult)
		})
	}
}

// The number of background tasks, such as cancellations, is bounded when the server
// does not read them. Finish waits for the tasks that wait, too.
func TestBackgroundTasksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e protocol.BackgroundTasks
		var begun, ended atomic.Int32
		for range 2 {
			for range 2 * (protocol.MaxBackgroundTasks + protocol.MaxWaitingTasks) {
				e.Start(func(ctx context.Context) {
					begun.Add(1)
					<-ctx.Done()
					ended.Add(1)
				})
			}
			for range protocol.MaxWaitingTasks/protocol.MaxBackgroundTasks + 1 {
				synctest.Wait()
				upstreamtest.Equal(t, "running tasks", begun.Swap(0), protocol.MaxBackgroundTasks)
				time.Sleep(protocol.BackgroundTimeout)
			}
			synctest.Wait()
			upstreamtest.Equal(t, "tasks that began after those that waited", begun.Swap(0), 0)
			upstreamtest.Equal(t, "ended tasks", ended.Swap(0), protocol.MaxBackgroundTasks+protocol.MaxWaitingTasks)
		}
		for range 2 * protocol.MaxBackgroundTasks {
			e.Start(func(ctx context.Context) {
				<-ctx.Done()
				ended.Add(1)
			})
		}
		e.Finish()
		upstreamtest.Equal(t, "ended tasks", ended.Load(), 2*protocol.MaxBackgroundTasks)
		e.StartIf(func() bool { t.Error("admitted after Finish"); return true }, nil)
	})
}

// A slow answer does not extend a call: the call ends at its timeout even if more
// bytes follow.
func TestDrippingAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"head":   "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 100),
		"1xx":    strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 50),
		"body":   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n" + strings.Repeat(" ", 500),
		"chunks": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\n \r\n", 100),
		"stream": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + strings.Repeat(": alive\n\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{on: map[string]on{
					wire.MethodToolsList: lists[wire.MethodToolsList],
					wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
						c, _, err := w.(http.Hijacker).Hijack()
						if err != nil {
							t.Error(err)
							return
						}
						defer c.Close()
						for i := range answer {
							if _, err := io.WriteString(c, answer[i:i+1]); err != nil {
								return
							}
							time.Sleep(time.Second)
						}
					},
				}}
				r := start(t, Options{Server: Server{HTTP: serveInMemory(t, s), Era: wire.EraLegacy}, Limits: connector.Limits{Timeout: time.Minute}})
				r.watch.wait(t, isReady)
				began := time.Now()
				got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{})))
				if !strings.Contains(got, "did not answer within 1m0s") || time.Since(began) != time.Minute {
					t.Errorf("after %s: %s", time.Since(began), got)
				}
				time.Sleep(2 * time.Second) // the server notices the closed connection
			})
		})
	}
}
