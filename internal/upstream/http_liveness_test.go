package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// memoryNetwork is an in-memory network with one host, for use in a synctest bubble.
type memoryNetwork struct {
	conns chan net.Conn
	over  chan struct{}
}

// serveInMemory runs h until the test ends and returns the configuration that
// reaches it.
func serveInMemory(t *testing.T, h http.Handler) *httpconn.Config {
	m := &memoryNetwork{conns: make(chan net.Conn), over: make(chan struct{})}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(m)
	}()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	u, err := url.Parse("http://server.test/mcp")
	if err != nil {
		t.Fatal(err)
	}
	return &httpconn.Config{URL: u, DialContext: m.dial}
}

func (m *memoryNetwork) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.over:
		return nil, errors.New("the server is closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *memoryNetwork) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.over:
		return nil, net.ErrClosed
	}
}

func (m *memoryNetwork) Close() error   { close(m.over); return nil }
func (m *memoryNetwork) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// lists answers tools/list with an empty list.
var lists = map[string]on{wire.MethodToolsList: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
	answerJSON(w, m, `{"resultType":"complete","tools":[]}`)
}}

// A server that accepts connections and answers no requests becomes down with a
// reason. Its first answer makes it ready again. A server that only leaves some
// calls unanswered stays ready.
func TestUnresponsiveHTTPServerIsDown(t *testing.T) {
	// Handlers of requests that get no answer.
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	saying := func(event string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			send := streaming(w)
			for r.Context().Err() == nil {
				send("%s", event)
				select {
				case <-time.After(5 * time.Second):
				case <-r.Context().Done():
				}
			}
		}
	}
	begin := saying(": still here") // the stream then holds no messages
	mayAsk := func(w http.ResponseWriter, r *http.Request) {
		streaming(w)(`data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
		<-r.Context().Done()
	}
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }
	servers := map[string]func(*script) http.Handler{
		"legacy": func(s *script) http.Handler { s.stateful = true; return s },
		"modern": func(s *script) http.Handler { s.modern = true; return s },
		"HTTP+SSE": func(s *script) http.Handler {
			return &sseScript{script: s}
		},
	}
	for name, tc := range map[string]struct {
		calls, rest http.HandlerFunc // handlers of calls, and of other requests after the first call; nil: the script answers
		only        string           // "": all servers
		stream      http.HandlerFunc // session stream
		down        bool
	}{
		"nothing is answered":        {calls: hang, rest: hang, down: true},
		"streams without messages":   {calls: begin, rest: begin, down: true, only: "legacy"},
		"only calls are unanswered":  {calls: hang},
		"other requests are refused": {calls: hang, rest: refuse},
		"it sends something else": {calls: hang, rest: hang, only: "legacy",
			stream: saying(`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"busy"}}`)},
		"session stream without messages": {calls: hang, rest: hang, only: "legacy", stream: begin, down: true},
		"it asks the client":              {calls: mayAsk, rest: hang, only: "legacy"},
		"modern streams without messages": {calls: begin, rest: begin, down: true, only: "modern"},
	} {
		for era, serve := range servers {
			if tc.only != "" && tc.only != era {
				continue
			}
			t.Run(name+"/"+era, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &script{on: lists, stream: tc.stream}
					inner := serve(s)
					var stuck atomic.Bool
					var began atomic.Bool
					outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						body, _ := io.ReadAll(r.Body)
						isCall := strings.Contains(string(body), `"tools/call"`)
						if isCall {
							began.Store(true)
						}
						switch {
						case isCall && stuck.Load():
							tc.calls(w, r)
						case stuck.Load() && began.Load() && tc.rest != nil:
							tc.rest(w, r)
						default:
							r.Body = io.NopCloser(strings.NewReader(string(body)))
							inner.ServeHTTP(w, r)
						}
					})
					o := Options{Server: Server{HTTP: serveInMemory(t, outer)}, Limits: connector.Limits{Timeout: time.Minute}}
					if era == "HTTP+SSE" {
						o.Transport = transport.SSE
					}
					r := start(t, o)
					r.watch.wait(t, isReady)
					synctest.Wait() // the session stream is open
					stuck.Store(true)
					ask := &upstreamtest.Peer{OnAsk: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}}
					patient, cancel := context.WithCancel(t.Context())
					defer cancel()
					waiting := make(<-chan string)
					if name == "it asks the client" {
						waiting = r.doing(patient, upstreamtest.ToolCall("echo", "ann", ask))
						synctest.Wait()
						tc.calls = hang
					}
					got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "bob", &upstreamtest.Peer{})))
					if !strings.Contains(got, "did not answer within 1m0s") {
						t.Errorf("the call: %s", got)
					}
					time.Sleep(protocol.ProbeTries*protocol.ProbeTime + time.Second)
					synctest.Wait()
					snap := r.Snapshot()
					if down := snap.State == connector.Down; down != tc.down {
						t.Errorf("down: %v, want %v (%s)", down, tc.down, snap.Reason)
					}
					if tc.down {
						upstreamtest.Equal(t, "reason", snap.Reason, protocol.ErrHung.Error())
						stuck.Store(false)
						time.Sleep(2 * time.Minute) // the unanswered attempt and the backoff
						if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))); strings.HasPrefix(got, "error") {
							t.Errorf("first call afterwards: %s", got)
						}
					}
					cancel()
					if name == "it asks the client" {
						<-waiting
					}
				})
			})
		}
	}
}

// A timeout while credentials are fetched does not mark the server as down.
func TestCredentialTimeoutKeepsTheServerUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{stateful: true, on: lists}
		o := Options{Server: Server{HTTP: serveInMemory(t, s), Era: wire.EraLegacy}, Limits: connector.Limits{Timeout: time.Minute}}
		k := &stuckCredentials{}
		o.HTTP.Credentials = k
		r := start(t, o)
		r.watch.wait(t, isReady)
		k.stuck.Store(true)
		got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "bob", &upstreamtest.Peer{})))
		if !strings.Contains(got, "did not answer within 1m0s") {
			t.Errorf("the call: %s", got)
		}
		time.Sleep(protocol.ProbeTries*protocol.ProbeTime + time.Second)
		synctest.Wait()
		upstreamtest.Equal(t, "state", r.Snapshot().State, connector.Ready)
	})
}

// stuckCredentials do not return while stuck is set.
type stuckCredentials struct{ stuck atomic.Bool }

func (s *stuckCredentials) Headers(ctx context.Context, _ *call.Principal) (http.Header, error) {
	if s.stuck.Load() {
		<-ctx.Done()
		return nil, fmt.Errorf("the issuer does not answer: %w", ctx.Err())
	}
	return nil, nil
}

func (*stuckCredentials) Refused(context.Context, *call.Principal, http.Header, int, http.Header) (bool, error) {
	return false, nil
}
