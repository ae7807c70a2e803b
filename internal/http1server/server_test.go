package http1server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/polltest"
)

// serverUnderTest is what http.Server and Server share.
type serverUnderTest interface {
	Serve(net.Listener) error
	SetKeepAlivesEnabled(bool)
	Shutdown(context.Context) error
	Close() error
}

// serve serves a handler on loopback, or on l if it is not nil, and returns the address.
func serve(t testing.TB, s serverUnderTest, l net.Listener) string {
	t.Helper()
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
	return l.Addr().String()
}

func quietServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
}

// exchange sends bytes on a new connection and returns all answers until its end, in a form
// that does not depend on the order of headers and the time. If ends, the client sends no
// more.
func exchange(t *testing.T, address, send string, ends bool) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() {
		io.WriteString(c, send)
		if ends {
			c.(*net.TCPConn).CloseWrite()
		}
	}()
	in := bufio.NewReader(c)
	var out strings.Builder
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			fmt.Fprintf(&out, "end: %v\n", err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF))
			return out.String()
		}
		if resp.Header.Get("Date") == "" {
			out.WriteString("no Date\n")
		}
		resp.Header.Del("Date")
		body, err := io.ReadAll(resp.Body)
		if len(body) > 100 {
			body = fmt.Appendf(nil, "%d bytes that end with %q", len(body), body[len(body)-20:])
		}
		fmt.Fprintf(&out, "%s close=%v coding=%v length=%d %v %q %v\n", resp.Status, resp.Close, resp.TransferEncoding, resp.ContentLength, resp.Header, body, err)
	}
}

// The handlers of TestAnswersLikeNetHTTP, by path.
var handlers = map[string]http.HandlerFunc{
	"/nothing": func(http.ResponseWriter, *http.Request) {},
	"/status":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
	"/odd":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) },
	"/none": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		io.WriteString(w, "x")
	},
	"/unchanged": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(http.StatusNotModified)
	},
	"/small": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>"); io.WriteString(w, "small") },
	"/length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		w.Header().Set("Content-Type", "text/plain")
		n, err := io.WriteString(w, "small")
		if _, over := io.WriteString(w, "er"); n != 5 || err != nil || over != http.ErrContentLength {
			panic("length")
		}
	},
	"/short": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "50")
		io.WriteString(w, "small")
	},
	"/large": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		w.Write(bytes.Repeat([]byte("0123456789"), 10000))
	},
	"/pieces": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100004")
		writePieces(w, []byte("<"), nil, bytes.Repeat([]byte("0123456789"), 10000), []byte("/>"))
		writePieces(w, nil)
		writePieces(w, []byte("!"), nil)
	},
	"/pieces/chunked": func(w http.ResponseWriter, _ *http.Request) {
		writePieces(w, []byte("small "), []byte("pieces"))
		writePieces(w, bytes.Repeat([]byte("x"), 20000), []byte("/>"))
	},
	"/chunked": func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			io.WriteString(w, strings.Repeat("x", 977))
		}
	},
	"/huge": func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "begin")
		io.WriteString(w, strings.Repeat("x", 100_000))
	},
	"/events": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		rc.Flush()
		for range 3 {
			rc.SetWriteDeadline(time.Now().Add(time.Minute))
			io.WriteString(w, "data: x\n\n")
			if err := rc.Flush(); err != nil {
				panic(err)
			}
		}
	},
	"/flush": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x"); w.(http.Flusher).Flush() },
	"/inject": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-A"] = []string{"a\r\nX-B: b", ""}
		w.Header()["Bad Name"] = []string{"x"}
		w.Header()["X-Date"] = []string{"x"}
		w.Header()["Date"] = []string{"today"}
		w.WriteHeader(http.StatusOK)
		w.Header().Set("X-Late", "x")
	},
	"/close": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") },
	"/twice": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); w.WriteHeader(500) },
	"/panic": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x"); panic("on purpose") },
	"/abort": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"/echo": func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %d %v %q %v", r.Method, r.Host, r.RequestURI, r.ContentLength, r.Header, body, err)
	},
	"/ignores": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ignored") },
	"/closes":  func(w http.ResponseWriter, r *http.Request) { r.Body.Close(); io.WriteString(w, "closed") },
}

// writePieces writes pieces together if w can.
func writePieces(w http.ResponseWriter, pieces ...[]byte) {
	if together, ok := w.(interface{ WritePieces(...[]byte) error }); ok {
		if err := together.WritePieces(pieces...); err != nil {
			panic(err)
		}
		return
	}
	for _, p := range pieces {
		w.Write(p)
	}
}

func serveHandlers(w http.ResponseWriter, r *http.Request) {
	if h := handlers[r.URL.Path]; h != nil {
		h(w, r)
	}
}

func TestAnswersLikeNetHTTP(t *testing.T) {
	ours := serve(t, New(quietServer(http.HandlerFunc(serveHandlers))), nil)
	theirs := serve(t, quietServer(http.HandlerFunc(serveHandlers)), nil)
	post := func(path, headers, body string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: gateway:8080\r\n" + headers + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	last := post("/echo", "Connection: close\r\n", "last")
	cases := map[string]string{
		"an echo":                   post("/echo", "X-a: 1\r\nx-A:\t2 \r\nmcp-session-id: s\r\n", "{}"),
		"a body of a megabyte":      post("/echo", "", strings.Repeat("0123456789", 100_000)),
		"GET":                       "GET /echo HTTP/1.1\r\nHost: g\r\nConnection: Keep-Alive\r\n\r\n",
		"DELETE":                    "DELETE /echo HTTP/1.1\r\nHost: g\r\n\r\n",
		"a GET with a body":         "GET /echo HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\n\r\nx",
		"pipelined requests":        post("/echo", "", "1") + post("/small", "", "") + post("/large", "", "3") + post("/echo", "", "4"),
		"pieces":                    post("/pieces", "", ""),
		"pieces in chunks":          post("/pieces/chunked", "", ""),
		"an unread body":            post("/ignores", "", strings.Repeat("x", 10_000)),
		"a large unread body":       post("/ignores", "", strings.Repeat("x", 300_000)),
		"a head of 12 KiB":          post("/echo", "X-Long: "+strings.Repeat("x", 12<<10)+"\r\n", "x"),
		"a head of 40 KiB":          post("/echo", "X-Long: "+strings.Repeat("x", 40<<10)+"\r\n", "x"),
		"a short body":              "POST /echo HTTP/1.1\r\nHost: g\r\nContent-Length: 100\r\n\r\nx",
		"HEAD":                      "HEAD /echo HTTP/1.1\r\nHost: g\r\n\r\n",
		"PUT":                       "PUT /echo HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\n\r\nx",
		"a query":                   "GET /echo?a=b HTTP/1.1\r\nHost: g\r\n\r\n",
		"an escape":                 "GET /%65cho HTTP/1.1\r\nHost: g\r\n\r\n",
		"an absolute target":        "GET http://h/echo HTTP/1.1\r\nHost: g\r\n\r\n",
		"HTTP/1.0":                  "GET /echo HTTP/1.0\r\nHost: g\r\n\r\n",
		"a chunked body":            "POST /echo HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"a length and chunks":       "POST /echo HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"Expect":                    "POST /echo HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
		"no Host":                   "GET /echo HTTP/1.1\r\n\r\n",
		"two Hosts":                 "GET /echo HTTP/1.1\r\nHost: g\r\nHost: h\r\n\r\n",
		"two lengths":               "POST /echo HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
		"the same length twice":     "POST /echo HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"a signed length":           "POST /echo HTTP/1.1\r\nHost: g\r\nContent-Length: +1\r\n\r\nx",
		"a list of lengths":         "POST /echo HTTP/1.1\r\nHost: g\r\nContent-Length: 1, 1\r\n\r\nx",
		"bare LF":                   "GET /echo HTTP/1.1\nHost: g\n\n",
		"a bare LF in a header":     "GET /echo HTTP/1.1\r\nHost: g\r\nX-A: a\nX-B: b\r\n\r\n",
		"a bare CR in a header":     "GET /echo HTTP/1.1\r\nHost: g\r\nX-A: a\rX-B: b\r\n\r\n",
		"a folded header":           "GET /echo HTTP/1.1\r\nHost: g\r\nX-A: a\r\n b\r\n\r\n",
		"a space before the colon":  "POST /echo HTTP/1.1\r\nHost: g\r\nContent-Length : 1\r\n\r\nx",
		"a line without a colon":    "GET /echo HTTP/1.1\r\nHost: g\r\nX-A\r\n\r\n",
		"an empty name":             "GET /echo HTTP/1.1\r\nHost: g\r\n: a\r\n\r\n",
		"an upgrade":                "GET /echo HTTP/1.1\r\nHost: g\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"Pragma":                    "GET /echo HTTP/1.1\r\nHost: g\r\nPragma: no-cache\r\n\r\n",
		"garbage":                   "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"an unknown method":         "GETX /echo HTTP/1.1\r\nHost: g\r\n\r\n",
		"a blank line before":       "\r\nGET /echo HTTP/1.1\r\nHost: g\r\n\r\n",
		"a blank line between":      post("/echo", "", "x") + "\r\n" + post("/echo", "", "y"),
		"two spaces":                "GET  /echo HTTP/1.1\r\nHost: g\r\n\r\n",
		"another order of protocol": "GET /echo http/1.1\r\nHost: g\r\n\r\n",
		"HTTP/2 preface":            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"a break in the head":       "GET /echo HTTP/1.1\r\nHos",
	}
	for path := range handlers {
		cases["handler "+path] = post(path, "", "{}")
	}
	for name, send := range cases {
		t.Run(name, func(t *testing.T) {
			ends := name == "a break in the head" || name == "a short body"
			if !ends {
				send += last
			}
			got, want := exchange(t, ours, send, ends), exchange(t, theirs, send, ends)
			if ends { // net/http does not announce that it closes the connection
				either := strings.NewReplacer("close=true", "", "close=false", "")
				got, want = either.Replace(got), either.Replace(want)
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// An answer has no header of the one before it on the connection.
func TestHeadersOfAnswersAreTheirOwn(t *testing.T) {
	address := serve(t, New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			w.Header().Set("Mcp-Session-Id", "s")
		}
		io.WriteString(w, r.URL.Path)
	}))), nil)
	got := exchange(t, address, "GET /first HTTP/1.1\r\nHost: g\r\n\r\nGET /second HTTP/1.1\r\nHost: g\r\n\r\n", true)
	if n := strings.Count(got, "Mcp-Session-Id"); n != 1 || !strings.Contains(got, "/second") {
		t.Errorf("%d answers have the header of the first one:\n%s", n, got)
	}
}

// Usual requests of MCP clients are served without net/http.
func TestUsualRequestsAreServedHere(t *testing.T) {
	var here atomic.Bool
	address := serve(t, New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, is := w.(*response)
		here.Store(is)
	}))), nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, tt := range []struct {
		method, path string
		here         bool
	}{{"POST", "/mcp", true}, {"GET", "/mcp", true}, {"DELETE", "/mcp", true}, {"PUT", "/mcp", false}, {"POST", "/mcp?a", false}} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+address+tt.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer x")
		r.Header.Set("Mcp-Session-Id", "x")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if here.Load() != tt.here {
			t.Errorf("%s %s: served here is %v", tt.method, tt.path, here.Load())
		}
		client.CloseIdleConnections()
	}
}

// The context of a request ends when its client is gone, also on a connection that
// net/http serves, and a client that sends its next request early keeps its place.
func TestContextEndsWithTheClient(t *testing.T) {
	began, gone := make(chan struct{}), make(chan error, 1)
	address := serve(t, New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		<-r.Context().Done()
		gone <- context.Cause(r.Context())
	}))), nil)
	for name, request := range map[string]string{
		"a call":                 "POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}",
		"a stream":               "GET / HTTP/1.1\r\nHost: g\r\n\r\n",
		"served by net/http":     "GET /? HTTP/1.1\r\nHost: g\r\n\r\n",
		"with a body in pieces":  "POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("x", 5000),
		"with a part of another": "POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}P",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			<-began
			c.Close()
			if err := <-gone; err != context.Canceled {
				t.Errorf("the cause is %v", err)
			}
		})
	}
}

// A request that takes long is watched, and the next request on its connection is served,
// even if its first bytes came while it was watched.
func TestRequestsAfterALongOne(t *testing.T) {
	wait := make(chan struct{})
	s := New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) == "long" {
			<-wait
		}
		if r.Context().Err() != nil {
			t.Error("the context has ended")
		}
		w.Write(body)
	})))
	// await waits until the watch of the only connection is as wanted.
	await := func(what string, wanted func(*watch) bool) {
		t.Helper()
		polltest.Until(t, what, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			for c := range s.conns {
				c.watch.mu.Lock()
				defer c.watch.mu.Unlock()
				return wanted(&c.watch)
			}
			return false
		})
	}
	c, err := net.Dial("tcp", serve(t, s, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	const post = "POST / HTTP/1.1\r\nHost: g\r\nContent-Length: "
	answer := func(want string) {
		t.Helper()
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); string(got) != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	for _, early := range []bool{false, true} {
		io.WriteString(c, post+"4\r\n\r\nlong")
		await("the request is watched", func(w *watch) bool { return w.finished != nil })
		if early {
			io.WriteString(c, post+"5\r\n\r\nearly")
			await("the watch has read", func(w *watch) bool { return w.got })
		}
		wait <- struct{}{}
		answer("long")
		if early {
			answer("early")
		}
		io.WriteString(c, post+"5\r\n\r\nafter")
		answer("after")
	}
}

// A silent stream holds no buffer, and a handler that has returned cannot write.
func TestStreams(t *testing.T) {
	left := make(chan http.ResponseWriter, 1)
	address := serve(t, New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 2 {
			io.WriteString(w, "data: x\n\n")
			w.(http.Flusher).Flush()
			if w.(*response).buf != nil {
				t.Error("a silent stream holds a buffer")
			}
		}
		left <- w
	}))), nil)
	got := exchange(t, address, "GET / HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n", false)
	if !strings.Contains(got, `"data: x\n\ndata: x\n\n" <nil>`) {
		t.Errorf("got %s", got)
	}
	w := <-left
	if _, err := io.WriteString(w, "x"); err != errHandlerReturned {
		t.Errorf("a late write: %v", err)
	}
	if err := http.NewResponseController(w).Flush(); err != errHandlerReturned {
		t.Errorf("a late flush: %v", err)
	}
}

// memoryListener accepts connections in memory, for tests with synctest.
type memoryListener chan net.Conn

func (l memoryListener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l memoryListener) Close() error {
	defer func() { _ = recover() }() // it may be closed twice
	close(l)
	return nil
}
func (l memoryListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l memoryListener) dial() net.Conn {
	near, far := net.Pipe()
	l <- far
	return near
}

// Connections end after their timeouts, wherever a client stops.
func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name, send string
		reads      bool // an answer
		want       time.Duration
	}{
		{"no request", "", false, 10 * time.Second},
		{"a part of the first head", "POST / HT", false, 10 * time.Second},
		{"a head that net/http reads", "PUT / HT", false, 10 * time.Second},
		{"idle", "GET / HTTP/1.1\r\nHost: g\r\n\r\n", true, time.Minute},
		{"a part of the next head", "GET / HTTP/1.1\r\nHost: g\r\n\r\nGET", true, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := quietServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				next.ReadHeaderTimeout, next.IdleTimeout = 10*time.Second, time.Minute
				l := make(memoryListener)
				serve(t, New(next), l)
				c := l.dial()
				defer c.Close()
				began := time.Now()
				go io.WriteString(c, tt.send)
				in := bufio.NewReader(c)
				if tt.reads {
					if _, err := http.ReadResponse(in, nil); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := io.Copy(io.Discard, in); err != nil {
					t.Errorf("the connection ends with %v", err)
				}
				if took := time.Since(began); took < tt.want || took > tt.want+deadlineSlack {
					t.Errorf("it ended after %s, want %s", took, tt.want)
				}
			})
		})
	}
}

// The deadlines of a handler end a read of the body and a write.
func TestDeadlinesOfAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan error, 2)
		l := make(memoryListener)
		serve(t, New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			rc.SetReadDeadline(time.Now().Add(time.Second))
			_, err := io.ReadAll(r.Body)
			got <- err
			rc.SetWriteDeadline(time.Now().Add(time.Second))
			_, err = w.Write(make([]byte, 100_000))
			got <- err
		}))), l)
		c := l.dial()
		defer c.Close()
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 100\r\n\r\nx")
		for _, what := range []string{"reading", "writing"} {
			began := time.Now()
			if err, ok := (<-got).(net.Error); !ok || !err.Timeout() {
				t.Errorf("%s ended with %v", what, err)
			}
			if took := time.Since(began); took > time.Second+2*deadlineSlack {
				t.Errorf("%s ended after %s", what, took)
			}
		}
		io.Copy(io.Discard, c)
	})
}

// serveTLS serves over TLS, with HTTP/2, until the test ends. next is the server that s was made with. It returns the URL
// without a path, and a function that makes clients, with HTTP/2 or without.
func serveTLS(t *testing.T, s *Server, next *http.Server) (at string, newClient func(h2 bool) *http.Client) {
	t.Helper()
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	t.Cleanup(cert.Close)
	next.TLSConfig = &tls.Config{Certificates: cert.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTLS(l) }()
	t.Cleanup(func() { s.Close(); <-ended })
	roots := cert.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return "https://" + l.Addr().String(), func(h2 bool) *http.Client {
		return &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: h2, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	}
}

// Over TLS both servers know the connection, HTTP/2 is served by net/http, and a plain
// request is answered in plain text.
func TestTLS(t *testing.T) {
	var here atomic.Bool
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, is := w.(*response)
		here.Store(is)
		fmt.Fprintf(w, "%v %v", r.TLS != nil && r.TLS.HandshakeComplete, r.Proto)
	})
	next := quietServer(h)
	at, newClient := serveTLS(t, New(next), next)
	for _, tt := range []struct {
		h2   bool
		path string
		here bool
		want string
	}{{false, "/mcp", true, "true HTTP/1.1"}, {false, "/mcp?a", false, "true HTTP/1.1"}, {true, "/mcp", false, "true HTTP/2.0"}} {
		client := newClient(tt.h2)
		resp, err := client.Get(at + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		client.CloseIdleConnections()
		if string(body) != tt.want || here.Load() != tt.here {
			t.Errorf("%+v: %q, served here %v", tt, body, here.Load())
		}
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(at, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: g\r\n\r\n")
	if text, _ := io.ReadAll(c); !strings.HasPrefix(string(text), "HTTP/1.0 400 ") {
		t.Errorf("a plain request is answered by %q", text)
	}
}

// failingListener fails before each connection, as a process does without file descriptors.
type failingListener struct {
	memoryListener
	failed bool
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failed = !l.failed; l.failed {
		return nil, syscall.EMFILE
	}
	return l.memoryListener.Accept()
}

func TestAcceptErrorsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failingListener{memoryListener: make(memoryListener)}
		serve(t, New(quietServer(http.HandlerFunc(serveHandlers))), l)
		for range 2 {
			c := l.dial()
			defer c.Close()
			io.WriteString(c, "GET /small HTTP/1.1\r\nHost: g\r\n\r\n")
			if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
				t.Error(err)
			}
		}
	})
}

// An error of the listener that does not pass ends both servers.
func TestAcceptErrorEndsServe(t *testing.T) {
	l := make(memoryListener)
	close(l)
	if err := New(quietServer(http.HandlerFunc(serveHandlers))).Serve(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve returned %v", err)
	}
}
