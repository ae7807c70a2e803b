package frontend

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

// Anonymous requests count for their address, others for their principal.
func TestRequestShares(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
	ann := &call.Principal{Subject: "ann", AuthMethod: "jwt"}
	of := func(address string, who *call.Principal) fairshare.Share {
		return s.requestShare(&http.Request{RemoteAddr: address}, who)
	}
	for _, tt := range []struct {
		a, b   fairshare.Share
		differ bool
	}{
		{of("192.0.2.1:1", call.Anonymous), of("192.0.2.1:2", call.Anonymous), false},
		{of("192.0.2.1:1", call.Anonymous), of("[::ffff:192.0.2.1]:1", call.Anonymous), false},
		{of("[2001:db8::1]:1", call.Anonymous), of("[2001:db8::ffff:1]:1", call.Anonymous), false},
		{of("192.0.2.1:1", ann), of("192.0.2.2:1", ann), false},
		{of("192.0.2.1:1", ann), of("192.0.2.1:1", call.Anonymous), true},
	} {
		if !tt.differ && tt.a != tt.b {
			t.Errorf("shares %d and %d, want the same", tt.a, tt.b)
		}
	}
	seen := make(map[fairshare.Share]bool)
	for i := range 200 {
		seen[of(fmt.Sprintf("192.0.2.%d:1", i), call.Anonymous)] = true
	}
	if len(seen) < 100 { // some of 200 clients have the same of 1024 shares
		t.Errorf("200 addresses have %d shares", len(seen))
	}
}

// loadServer is a server in a synctest bubble that gets requests from several addresses.
type loadServer struct {
	t *testing.T
	s *Server
	h *scriptHandler
}

func newLoadServer(t *testing.T, o Options) *loadServer {
	h := newScriptHandler()
	o.Handler, o.Info = h, wire.Raw(`{}`)
	return &loadServer{t, New(o), h}
}

// post sends a call of the tool wait with an argument of the given size, from one of
// several addresses with different shares, and returns when all goroutines wait.
func (c *loadServer) post(from, size int) (w *httptest.ResponseRecorder, done func() bool) {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{"for":"x","pad":"` + strings.Repeat("x", size) + `"}}}`
	return c.send(from, body)
}

func (c *loadServer) send(from int, body string) (w *httptest.ResponseRecorder, done func() bool) {
	r := request(c.t, strings.NewReader(body))
	r.RemoteAddr = c.address(from)
	w = httptest.NewRecorder()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.s.ServeHTTP(w, r)
	}()
	synctest.Wait()
	return w, func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
}

// address returns the nth address. Each has a share of its own.
func (c *loadServer) address(n int) string {
	seen := make(map[fairshare.Share]bool)
	for i := 1; ; i++ {
		address := fmt.Sprintf("192.0.2.%d:1", i)
		o := c.s.requestShare(&http.Request{RemoteAddr: address}, call.Anonymous)
		if seen[o] {
			continue
		}
		if seen[o] = true; len(seen) > n {
			return address
		}
	}
}

func (c *loadServer) refused(w *httptest.ResponseRecorder, done func() bool, status int) {
	c.t.Helper()
	if !done() || w.Code != status {
		c.t.Fatalf("done %t with status %d, want %d", done(), w.Code, status)
	}
	want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"`
	if seconds, err := strconv.Atoi(w.Header().Get("Retry-After")); err != nil || seconds < 1 || !strings.HasPrefix(w.Body.String(), want) {
		c.t.Errorf("Retry-After %q, body %s", w.Header().Get("Retry-After"), w.Body)
	}
}

// The bytes of all bodies are bounded, and no client has more than its share. Small
// bodies are not counted.
func TestBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body = 64 << 10
		c := newLoadServer(t, Options{Limits: Limits{MaxMessage: 2 * body, MaxBodies: 8*body + 4<<10}})
		for from, share := range []struct{ most, status int }{{4, http.StatusTooManyRequests}, {2, http.StatusServiceUnavailable}} {
			for i := range share.most {
				if w, done := c.post(from, body); done() {
					t.Fatalf("request %d of client %d: status %d", i, from, w.Code)
				}
			}
			w, done := c.post(from, body)
			c.refused(w, done, share.status)
			if w, done := c.post(from, 1000); done() {
				t.Errorf("a small request: status %d", w.Code)
			}
		}
		if w, done := c.post(2, body); done() {
			t.Fatalf("another client: status %d", w.Code)
		}
		w, done := c.post(3, body*3/2)
		c.refused(w, done, http.StatusServiceUnavailable)
		close(c.h.release("x"))
		synctest.Wait()
		if n := c.s.bodies.Held() + c.s.calls.Held(); n != 0 {
			t.Errorf("%d are still held", n)
		}
		if w, _ := c.post(0, body); w.Code != http.StatusOK {
			t.Errorf("afterwards: status %d", w.Code)
		}
	})
}

// Only the bytes of a body that have arrived count, not the announced length.
func TestBodyThatNeverComes(t *testing.T) {
	for _, came := range []int{0, 100 << 10} {
		synctest.Test(t, func(t *testing.T) {
			c := newLoadServer(t, Options{Limits: Limits{MaxMessage: 16 << 20}})
			ctx, hangUp := context.WithCancel(t.Context())
			r := request(t, io.MultiReader(strings.NewReader(strings.Repeat(" ", came)), waitingBody{ctx}))
			r.ContentLength = 16 << 20
			go c.s.ServeHTTP(httptest.NewRecorder(), r)
			synctest.Wait()
			if n := c.s.bodies.Held(); n < int64(came) || n > int64(4*came) {
				t.Errorf("%d bytes are held for a body of which %d came", n, came)
			}
			hangUp()
			synctest.Wait()
			if n := c.s.calls.Held() + c.s.bodies.Held(); n != 0 {
				t.Errorf("%d are still held", n)
			}
		})
	}
}

type waitingBody struct{ context.Context }

func (b waitingBody) Read([]byte) (int, error) {
	<-b.Done()
	return 0, b.Err()
}

// Running requests are bounded, and each request of a batch counts. Listen streams have a
// budget of their own.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLoadServer(t, Options{Limits: Limits{MaxCalls: 8}})
		w, _ := c.send(0, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}`)
		session := w.Header().Get(wire.HeaderSession)
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		for i := range 20 {
			r := callFor(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{}%%s}}`, i), wire.EraModern).WithContext(ctx)
			r.Header.Set(wire.HeaderMethod, wire.MethodListen)
			go c.s.ServeHTTP(httptest.NewRecorder(), r)
		}
		synctest.Wait()
		for range 3 {
			if w, done := c.post(0, 1); done() {
				t.Fatalf("status %d", w.Code)
			}
		}
		batch := func() (*httptest.ResponseRecorder, func() bool) {
			r := request(t, strings.NewReader(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`))
			r.RemoteAddr = c.address(0)
			r.Header.Set(wire.HeaderSession, session)
			w := do(c.s, r)
			return w, func() bool { return true }
		}
		w, done := batch()
		c.refused(w, done, http.StatusTooManyRequests)
		if w, done := c.post(0, 1); done() {
			t.Fatalf("the fourth: status %d", w.Code)
		}
		w, done = c.post(0, 1)
		c.refused(w, done, http.StatusTooManyRequests)
		for range 2 {
			if w, done := c.post(1, 1); done() {
				t.Fatalf("another client: status %d", w.Code)
			}
		}
		w, done = c.post(1, 1)
		c.refused(w, done, http.StatusServiceUnavailable)
		close(c.h.release("x"))
		synctest.Wait()
		if w, _ := batch(); w.Code != http.StatusOK {
			t.Errorf("a batch afterwards: status %d", w.Code)
		}
		hangUp()
		synctest.Wait()
		if n := c.s.calls.Held(); n != 0 {
			t.Errorf("%d are still held", n)
		}
	})
}

// The reservation for the body of a parked call is held until the call ends.
func TestParkedCallHoldsItsBody(t *testing.T) {
	withParking(t, askOnce, func(l *parkingServer) {
		arguments := `{"pad":"` + strings.Repeat("x", 100<<10) + `"}`
		first := l.postAs(call.Anonymous, allCaps, arguments, "")
		gathered()
		_, state := first.round()
		if n := l.s.bodies.Held(); n < 100<<10 {
			t.Errorf("%d bytes are held while the call is parked", n)
		}
		if n := l.s.calls.Held(); n != 0 {
			t.Errorf("%d requests run while the call is parked", n)
		}
		l.postAs(call.Anonymous, allCaps, arguments, retry(state, `{"ask-1":{"action":"accept"}}`)).result()
	})
}

// The only client on stdio is bounded like any other client.
func TestStdioBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body = 64 << 10
		h := newScriptHandler()
		s := New(Options{Handler: h, Info: wire.Raw(`{}`), Limits: Limits{MaxMessage: 2 * body, MaxBodies: 4*body + 4<<10}})
		c := startStdio(t.Context(), s)
		c.write(t, `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`+"\n")
		for id := range 3 {
			c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait","arguments":{"for":"x","pad":"%s"}}}`+"\n", id, strings.Repeat("x", body)))
		}
		synctest.Wait()
		want := `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many requests of this client are running"}}`
		if got := withoutRequestIDs(t, c.take()); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		close(h.release("x"))
		c.in.Close()
		<-c.done
		if n := s.bodies.Held() + s.calls.Held(); n != 0 {
			t.Errorf("%d are still held", n)
		}
	})
}

// One client cannot have all listen streams, and a refused request does not subscribe to
// anything.
func TestListenStreamsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subs := &countedSubscriptions{}
		c := newLoadServer(t, Options{Limits: Limits{MaxSessions: 4}, Subscriptions: subs})
		ctx, hangUp := context.WithCancel(t.Context())
		listen := func(from int) *httptest.ResponseRecorder {
			r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["x:y"]}%s}}`, wire.EraModern).WithContext(ctx)
			r.Header.Set(wire.HeaderMethod, wire.MethodListen)
			r.RemoteAddr = c.address(from)
			w := httptest.NewRecorder()
			go c.s.ServeHTTP(w, r)
			synctest.Wait()
			return w
		}
		for i, tt := range []struct{ from, status int }{
			{0, http.StatusOK}, {0, http.StatusOK}, {0, http.StatusTooManyRequests}, {1, http.StatusOK}, {1, http.StatusServiceUnavailable},
		} {
			if w := listen(tt.from); w.Code != tt.status || (w.Header().Get("Retry-After") != "") != (tt.status != http.StatusOK) {
				t.Errorf("stream %d: status %d, want %d; Retry-After %q", i, w.Code, tt.status, w.Header().Get("Retry-After"))
			}
		}
		if n := subs.made.Load(); n != 3 {
			t.Errorf("%d subscriptions were made, want one for each stream", n)
		}
		hangUp()
		synctest.Wait()
		if n := c.s.listening.Held(); n != 0 {
			t.Errorf("%d are still held", n)
		}
	})
}

// countedSubscriptions deliver nothing, and count.
type countedSubscriptions struct{ made atomic.Int64 }

func (s *countedSubscriptions) Subscribe(context.Context, *call.Call, string, func(string, wire.Raw)) (func(), error) {
	s.made.Add(1)
	return func() {}, nil
}
