package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// A server refuses a cancellation that arrives after the end of the session.
func TestSessionEndsAfterCancellations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := make(chan struct{})
		s := &script{stateful: true, on: map[string]on{
			wire.MethodToolsCall: func(_ http.ResponseWriter, r *http.Request, _ wire.Message) { <-r.Context().Done() },
			wire.NoteCancelled:   func(http.ResponseWriter, *http.Request, wire.Message) { <-cancelled },
		}}
		c, err := tryConverse(t, "http://server/mcp", nil, legacyEra, func(o *Options) { o.HTTP = serveInMemory(t, s) })
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = c.Call(ctx, tool("a", `{}`, nil)) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		c.stop()
		synctest.Wait()
		upstreamtest.Equal(t, "deletes while a cancellation is on its way", len(s.got(http.MethodDelete)), 0)
		close(cancelled)
		c.waitEnd(t)
		upstreamtest.Equal(t, "cancellations", len(s.got(wire.NoteCancelled)), 1)
		upstreamtest.Equal(t, "deletes", len(s.got(http.MethodDelete)), 1)
	})
}

// A call that is pending when the connection ends is cancelled once, before the end of the
// session: a server may wait for its calls before it answers the request that ends the session.
func TestSessionEndsAfterItsCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		asks      bool // the call asks the client, who does not answer
		answered  bool // the server answers the cancelled call
		cancelled bool // the client has cancelled the call before the connection ends
	}{
		"silent":               {},
		"asking":               {asks: true},
		"asking and cancelled": {asks: true, cancelled: true},
		"answered":             {answered: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := make(chan struct{})
				s := &script{stateful: true, on: map[string]on{
					wire.MethodToolsCall: func(w http.ResponseWriter, r *http.Request, m wire.Message) {
						if tc.asks {
							streaming(w)(`data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"sure?"}}`)
						}
						if <-told; tc.answered {
							answerJSON(w, m, `{"content":[{"type":"text","text":"context canceled"}],"isError":true}`)
							return
						}
						<-r.Context().Done()
					},
					wire.NoteCancelled: func(http.ResponseWriter, *http.Request, wire.Message) { close(told) },
				}}
				c, err := tryConverse(t, "http://server/mcp", nil, legacyEra, func(o *Options) { o.HTTP = serveInMemory(t, s) })
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				back := &slowClient{release: make(chan struct{})}
				done := make(chan error, 1)
				go func() {
					_, err := c.Call(ctx, tool("a", `{"name":"x"}`, back))
					done <- err
				}()
				synctest.Wait()
				if tc.cancelled {
					cancel()
					synctest.Wait() // the call has not returned: it waits for the client
				}
				c.stop()
				synctest.Wait()
				order := fmt.Sprint(slices.DeleteFunc(s.trace(), func(what string) bool { return what != wire.NoteCancelled && what != http.MethodDelete }))
				close(back.release)
				if want := "[notifications/cancelled DELETE]"; order != want {
					close(told)
					t.Fatalf("the server got %s, want %s", order, want)
				}
				upstreamtest.Equal(t, "params", string(s.got(wire.NoteCancelled)[0].params), fmt.Sprintf(`{"requestId":%s}`, s.got(wire.MethodToolsCall)[0].id))
				c.waitEnd(t)
				synctest.Wait()
				upstreamtest.Equal(t, "cancellations", len(s.got(wire.NoteCancelled)), 1)
				if err := <-done; !tc.cancelled && protocolReason(err) != protocol.ReasonConnectionLost {
					t.Errorf("the call ends with %v", err)
				} else if tc.cancelled && err != context.Canceled {
					t.Errorf("the cancelled call ends with %v", err)
				}
			})
		})
	}
}

// A server that answers no cancellation gets the request that ends the session all the same.
func TestSessionEndsDespiteCancellations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(_ http.ResponseWriter, r *http.Request, _ wire.Message) { <-r.Context().Done() }
		s := &script{stateful: true, on: map[string]on{wire.MethodToolsCall: silent, wire.NoteCancelled: silent}}
		c, err := tryConverse(t, "http://server/mcp", nil, legacyEra, func(o *Options) { o.HTTP = serveInMemory(t, s) })
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = c.Call(t.Context(), tool("a", `{"name":"x"}`, nil)) }()
		synctest.Wait()
		began := time.Now()
		c.stop()
		c.waitEnd(t)
		upstreamtest.Equal(t, "cancellations", len(s.got(wire.NoteCancelled)), 1)
		upstreamtest.Equal(t, "deletes", len(s.got(http.MethodDelete)), 1)
		if took := time.Since(began); took > httpconn.CloseTimeout { // synthetic time
			t.Errorf("the end took %v", took)
		}
	})
}

// Each of many calls that are cancelled at the same time is cancelled at the server, also one whose
// cancellation has to wait: the server would work on it for nobody.
func TestCancellationsOfManyCalls(t *testing.T) {
	const calls = protocol.MaxBackgroundTasks + 50
	for name, tc := range map[string]struct {
		over   func(*Options)
		server func(*script) http.Handler
		accept func(w http.ResponseWriter, r *http.Request)
	}{
		"streamable HTTP": {legacyEra, func(s *script) http.Handler { return s }, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"HTTP+SSE":        {overSSE, func(s *script) http.Handler { return &sseScript{script: s} }, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				takes := make(chan struct{})
				s := &script{on: map[string]on{
					wire.MethodToolsCall: func(w http.ResponseWriter, r *http.Request, _ wire.Message) { tc.accept(w, r) },
					wire.NoteCancelled:   func(http.ResponseWriter, *http.Request, wire.Message) { <-takes },
				}}
				c, err := tryConverse(t, "http://server/mcp", nil, tc.over, func(o *Options) { o.HTTP = serveInMemory(t, tc.server(s)) })
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var ended sync.WaitGroup
				for range calls {
					ended.Go(func() { _, _ = c.Call(ctx, tool("a", `{}`, nil)) })
				}
				synctest.Wait()
				upstreamtest.Equal(t, "calls", len(s.got(wire.MethodToolsCall)), calls)
				cancel()
				ended.Wait()
				synctest.Wait()
				upstreamtest.Equal(t, "cancellations at the same time", len(s.got(wire.NoteCancelled)), protocol.MaxBackgroundTasks)
				close(takes)
				synctest.Wait()
				upstreamtest.Equal(t, "cancellations", len(s.got(wire.NoteCancelled)), calls)
				cancelled := make(map[string]bool)
				for _, m := range s.got(wire.NoteCancelled) {
					cancelled[string(m.params)] = true
				}
				upstreamtest.Equal(t, "cancelled calls", len(cancelled), calls)
			})
		})
	}
}

// A call over HTTP+SSE that is pending when the connection ends is cancelled before its stream ends.
func TestSSEEndsAfterItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := make(chan struct{})
		s := &sseScript{script: &script{on: map[string]on{
			wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, _ wire.Message) { w.WriteHeader(http.StatusAccepted) },
			wire.NoteCancelled:   func(http.ResponseWriter, *http.Request, wire.Message) { <-cancelled },
		}}}
		ended := make(chan struct{})
		observed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.ServeHTTP(w, r)
			if r.Method == http.MethodGet {
				close(ended)
			}
		})
		c, err := tryConverse(t, "http://server/sse", nil, overSSE, func(o *Options) { o.HTTP = serveInMemory(t, observed) })
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan string, 1)
		go func() { done <- c.do(t, tool("a", `{"name":"x"}`, nil)) }()
		synctest.Wait()
		c.stop()
		synctest.Wait()
		upstreamtest.Equal(t, "outcome", <-done, "call error: "+protocol.ReasonConnectionLost)
		upstreamtest.Equal(t, "cancellations", len(s.got(wire.NoteCancelled)), 1)
		select {
		case <-ended:
			t.Error("the stream ended while a cancellation is on its way")
		default:
		}
		close(cancelled)
		c.waitEnd(t)
		<-ended
		upstreamtest.Equal(t, "params", string(s.got(wire.NoteCancelled)[0].params), fmt.Sprintf(`{"requestId":%s}`, s.got(wire.MethodToolsCall)[0].id))
	})
}

// slowClient is a back channel whose asks end only when the test releases them.
type slowClient struct {
	protocol.NoClient
	release chan struct{}
}

func (c *slowClient) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	<-c.release
	return nil, context.Canceled
}

// protocolReason returns the reason in a *protocol.CallError, else "".
func protocolReason(err error) string {
	if f, ok := errors.AsType[*protocol.CallError](err); ok {
		return f.Reason
	}
	return ""
}
