package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/config"
	"mcpgateway/internal/http1server"
	"mcpgateway/internal/oauthmeta"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/ruleset"
)

// memListener is a listener in memory. Without a network, a synctest bubble knows when all
// goroutines wait.
type memListener struct {
	conns chan net.Conn
	once  sync.Once
	over  chan struct{}
}

func newMemListener() *memListener {
	return &memListener{conns: make(chan net.Conn), over: make(chan struct{})}
}

func (i *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.over:
		return nil, net.ErrClosed
	}
}

func (i *memListener) Close() error   { i.once.Do(func() { close(i.over) }); return nil }
func (i *memListener) Addr() net.Addr { return &net.TCPAddr{} }

// dial opens a connection. It returns nil if the listener is closed.
func (i *memListener) dial() net.Conn {
	near, far := net.Pipe()
	select {
	case i.conns <- far:
		return near
	case <-i.over:
		return nil
	}
}

const get = "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"

// Draining ends after the answer to the last call is written, which is later than the end of
// its handler. Meanwhile connections are accepted, and their requests do not delay the end.
func TestShutdownWaitsForTheLastByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waitsForTheLastByte(t, func(s *http.Server) listener { return http1server.New(s) })
	})
	t.Run("net/http", func(t *testing.T) { // which serves unusual requests
		synctest.Test(t, func(t *testing.T) { waitsForTheLastByte(t, func(s *http.Server) listener { return s }) })
	})
}

// listener is what the tests need of an http.Server or an http1server.Server.
type listener interface {
	server
	Serve(net.Listener) error
	Close() error
}

func waitsForTheLastByte(t *testing.T, serverOf func(*http.Server) listener) {
	answer := strings.Repeat("x", 100)
	served := 0
	running, in := &activeConns{}, newMemListener()
	srv := serverOf(&http.Server{ConnState: running.observe, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served++
		io.WriteString(w, answer)
	})})
	over := make(chan error, 1)
	go func() { over <- srv.Serve(in) }()

	slow, idle := in.dial(), in.dial()
	defer slow.Close()
	defer idle.Close()
	read(t, idle, answer)
	if _, err := io.WriteString(slow, get); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the handler has returned, and the client does not read yet
	if served != 2 {
		t.Fatalf("%d requests were served, want 2", served)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	finished := make(chan struct{}, 1)
	go func() {
		shutdown(ctx, srv, running, func() { t.Error("not every request was answered in time") })
		finished <- struct{}{}
		srv.Close()
	}()
	synctest.Wait()

	late, never := in.dial(), in.dial()
	if late == nil || never == nil {
		t.Fatal("a connection was refused while a call was running")
	}
	defer late.Close()
	defer never.Close()
	if resp := read(t, late, answer); !resp.Close {
		t.Error("a late connection is kept open")
	}
	if _, err := io.WriteString(never, get); err != nil { // the client never reads the answer
		t.Fatal(err)
	}
	synctest.Wait()
	if len(finished) > 0 {
		t.Fatal("draining ended before the last answer was written")
	}
	resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != answer {
		t.Errorf("the last answer is %q, %v", body, err)
	}
	began := time.Now()
	<-finished
	if took := time.Since(began); took > shutdownTimeout {
		t.Errorf("a late client that does not read delayed the end by %s", took)
	}
	if in.dial() != nil {
		t.Error("connections are accepted after the end")
	}
	<-over
}

// Calls that run longer than the timeout are ended, and their answers get a short time to be
// written. Calls that still do not end are abandoned.
func TestShutdownIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		ends bool
		want time.Duration
	}{"it ends": {true, time.Second}, "it does not": {false, time.Second + stopTimeout + shutdownTimeout}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				running, in, ended := &activeConns{}, newMemListener(), make(chan struct{})
				srv := http1server.New(&http.Server{ConnState: running.observe, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-ended:
						io.WriteString(w, "ended")
					case <-r.Context().Done():
					}
				})})
				over := make(chan error, 1)
				go func() { over <- srv.Serve(in) }()
				c := in.dial()
				defer c.Close()
				if _, err := io.WriteString(c, get); err != nil {
					t.Fatal(err)
				}
				answer := make(chan string, 1)
				go func() {
					text, _ := io.ReadAll(c)
					answer <- string(text)
				}()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				shutdown(ctx, srv, running, func() {
					if tc.ends {
						close(ended)
					}
				})
				if took := time.Since(began); took != tc.want {
					t.Errorf("draining took %s, want %s", took, tc.want)
				}
				srv.Close()
				<-over
				if got := <-answer; strings.HasSuffix(got, "ended") != tc.ends {
					t.Errorf("the client got %q", got)
				}
			})
		})
	}
}

// read sends a request and reads the answer.
func read(t *testing.T, c net.Conn, want string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, get); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != want {
		t.Fatalf("answer %q, %v", body, err)
	}
	return resp
}

// A call that drain_timeout ends is answered and logged like any other.
func TestAbortedCallsAreAnswered(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	g, end := startLogged(t, "drain_timeout: 10ms\nupstreams: {unused: {command: x}}", true, zap.New(core))
	answer := make(chan string, 1)
	go func() {
		req, err := http.NewRequest(http.MethodPost, g.URL(),
			strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"clock__countdown","arguments":{"seconds":60}}}`))
		if err != nil {
			answer <- err.Error()
			return
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"aborted"}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- string(body)
	}()
	polltest.Until(t, "the call runs", func() bool {
		select {
		case got := <-answer:
			t.Fatalf("the call has ended already: %s", got)
		default:
		}
		families, err := g.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		runs := false
		for _, f := range families {
			for _, m := range f.GetMetric() {
				runs = runs || f.GetName() == "mcp_gateway_inflight_requests" && m.GetGauge().GetValue() > 0
			}
		}
		return runs
	})
	end()
	want := `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the gateway is shutting down: the call was ended","data":{"reason":"the gateway is shutting down","retryable":false,"requestId":"aborted"}}}`
	if got := <-answer; got != want {
		t.Errorf("the client got %s", got)
	}
	if logs.FilterMessage("call").FilterField(zap.String("method", "tools/call")).Len() != 1 {
		t.Errorf("the call is not in the log: %v", logs.All())
	}
	if logs.FilterMessage("calls were still running after drain_timeout and are ended").FilterField(zap.Int64("calls", 1)).Len() != 1 {
		t.Errorf("the log does not say how many calls were ended: %v", logs.All())
	}
}

// A body that never arrives does not hold a connection, for any path.
func TestUnreadBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newMemListener()
		g := &Gateway{cfg: &config.Config{}}
		g.endpoints.Store(ruleset.Endpoints(g.cfg))
		srv := &http.Server{Handler: limitBodyTime(http.HandlerFunc(g.notFound))}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(in) }()
		conn := in.dial()
		began := time.Now()
		if _, err := io.WriteString(conn, "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("%v, %v", resp, err)
		}
		if took := time.Since(began); took != headerTimeout {
			t.Errorf("the gateway waited %s for the body", took)
		}
		conn.Close()
		srv.Close()
		<-served
	})
	g, _ := start(t, "auth: {mode: jwt, jwt: [{issuer: \"https://idp.example\", audience: gw}]}\n"+aDisabledUpstream, false)
	<-g.started
	for _, path := range []string{pathMCP, pathSSE, pathSSE + "/message", "/oauth/start", oauthmeta.ResourcePath, oauthmeta.ResourcePath + pathMCP, "/nowhere"} {
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
		r.Host = "localhost"
		g.routes().ServeHTTP(w, r)
		if !w.is {
			t.Errorf("%s: reading the body has no deadline", path)
		}
	}
}

// timed records whether the handler set a read deadline for the body.
type timed struct {
	*httptest.ResponseRecorder
	is bool
}

func (w *timed) SetReadDeadline(at time.Time) error {
	w.is = w.is || !at.IsZero()
	return nil
}
